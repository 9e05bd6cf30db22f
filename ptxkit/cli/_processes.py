"""Examines files in several processes; a file that kills its process is reported as unreadable."""

from __future__ import annotations

import contextlib
import functools
import multiprocessing
import signal
import sys
import types
from collections.abc import Iterator
from concurrent.futures import BrokenExecutor, Future, ProcessPoolExecutor

from ptxkit import workers
from ptxkit.cli import _one
from ptxkit.cli._job import OF_TEXT, Examined, Job


def examined(names: list[str], known: dict[str, Examined], job: Job, count: int, cached: bool) -> Iterator[Examined]:
    """The files, examined by `count` processes, in the order of their names. `known` are results of an earlier run; with `cached`, new ones
    are kept."""
    methods = multiprocessing.get_all_start_methods()
    context = multiprocessing.get_context("forkserver" if "forkserver" in methods else "spawn")
    if "forkserver" in methods:
        context.set_forkserver_preload(["ptxkit.cli._preload_check" if job.select == OF_TEXT else "ptxkit.cli._preload"])
    pool = ProcessPoolExecutor(count, context, workers.begin)
    try:
        waiting = [name for name in dict.fromkeys(names) if name not in known and name != "-"]
        # largest first, so that none of them starts last
        with _without_main(), _uninterrupted():
            futures = {name: pool.submit(_one.examined, name, job, cached) for name in sorted(waiting, key=_one.size_of, reverse=True)}
        for name in names:
            if name in known:
                yield known[name]
            elif name == "-":
                yield _one.examined(name, job, cached)
            else:
                yield _result(futures[name], name, job, cached, context)
    except KeyboardInterrupt:
        for process in multiprocessing.active_children():
            process.terminate()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def _result(future: Future[Examined], name: str, job: Job, cached: bool, context: multiprocessing.context.BaseContext) -> Examined:
    try:
        return future.result()
    except BrokenExecutor:
        pass
    if not _can_start(context):
        return _one.examined(name, job, cached)
    # a process died, perhaps because of another file: retry this one in its own process
    with ProcessPoolExecutor(1, context) as own:
        try:
            with _without_main():
                again = own.submit(_one.examined, name, job, cached)
            return again.result()
        except BrokenExecutor:
            return Examined(name, unreadable=f"{name}: the process that looked at it died")


@functools.cache
def _can_start(context: multiprocessing.context.BaseContext) -> bool:
    """Whether a trivial process can be started."""
    with _without_main(), ProcessPoolExecutor(1, context) as one:
        try:
            return one.submit(bool, True).result()
        except BrokenExecutor:
            return False


@contextlib.contextmanager
def _uninterrupted() -> Iterator[None]:
    """Blocks Ctrl-C while processes start, until they handle it in `workers.begin`: during imports it would print a traceback."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextlib.contextmanager
def _without_main() -> Iterator[None]:
    """Prevents worker processes from running the main script, which may not expect that."""
    main = sys.modules["__main__"]
    sys.modules["__main__"] = types.ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main
