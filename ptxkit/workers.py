"""Processes that do part of the work: how they begin, and work on what this process has in memory already."""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, ProcessPoolExecutor
from typing import Any, TypeVar

T = TypeVar("T")


def begin() -> None:
    """Initializes a worker process: no garbage collection, Ctrl-C ends it silently, and it ends if its parent is killed."""
    gc.disable()
    threading.Thread(target=_end_with_parent, daemon=True).start()
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


def _end_with_parent() -> None:
    """Ends this process once its parent has ended: a parent that is killed cannot tell its workers."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def cores() -> int:
    """How many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def spread(work: Callable[[int], T], count: int, processes: int) -> Iterator[T]:
    """The results of `work` for each number below `count`, in order, computed by up to so many processes.

    The processes are copies of this one, so `work` may refer to everything in memory; its results are pickled. Where processes cannot be
    copied, or one of them dies, the work that is left is done here. What `work` raises is raised.
    """
    done = 0
    if min(processes, count) > 1 and "fork" in multiprocessing.get_all_start_methods():
        context = multiprocessing.get_context("fork")
        # a closure cannot be pickled, but the copies have it
        _Shared.work = work
        try:
            with ProcessPoolExecutor(min(processes, count), context, begin) as pool:
                for result in pool.map(_shared, range(count)):
                    yield result
                    done += 1
        except BrokenExecutor:
            pass
        finally:
            _Shared.work = None
    for number in range(done, count):
        yield work(number)


class _Shared:
    """What the copies of this process are to do."""

    work: Callable[[int], Any] | None = None


def _shared(number: int) -> Any:
    assert _Shared.work is not None
    return _Shared.work(number)
