"""Files looked at in several processes; a file that kills its process is reported as unreadable."""

from __future__ import annotations

import contextlib
import functools
import gc
import multiprocessing
import sys
import types
from collections.abc import Iterator
from concurrent.futures import BrokenExecutor, Future, ProcessPoolExecutor

from ptxkit.cli import _one
from ptxkit.cli._job import OF_TEXT, Examined, Job


def examined(names: list[str], known: dict[str, Examined], job: Job, count: int, cached: bool) -> Iterator[Examined]:
    methods = multiprocessing.get_all_start_methods()
    context = multiprocessing.get_context("forkserver" if "forkserver" in methods else "spawn")
    if "forkserver" in methods:
        context.set_forkserver_preload(["ptxkit.cli._preload_check" if job.select == OF_TEXT else "ptxkit.cli._preload"])
    with ProcessPoolExecutor(count, context, gc.disable) as pool:
        waiting = [name for name in dict.fromkeys(names) if name not in known and name != "-"]
        # the largest first, so that none of them is left for the end
        with _without_main():
            futures = {name: pool.submit(_one.fresh, name, job, cached) for name in sorted(waiting, key=_one.size_of, reverse=True)}
        try:
            for name in names:
                if name in known:
                    yield known[name]
                elif name == "-":
                    yield _one.fresh(name, job, cached)
                else:
                    yield _result(futures[name], name, job, cached, context)
        finally:
            for future in futures.values():
                future.cancel()


def _result(future: Future[Examined], name: str, job: Job, cached: bool, context: multiprocessing.context.BaseContext) -> Examined:
    try:
        return future.result()
    except BrokenExecutor:
        pass
    if not _can_start(context):
        return _one.fresh(name, job, cached)
    # a process died, perhaps because of another file: this one gets a process of its own
    with ProcessPoolExecutor(1, context) as own:
        try:
            with _without_main():
                again = own.submit(_one.fresh, name, job, cached)
            return again.result()
        except BrokenExecutor:
            return Examined(name, unreadable=f"{name}: the process that looked at it died")


@functools.cache
def _can_start(context: multiprocessing.context.BaseContext) -> bool:
    """Whether a process that does nothing comes back."""
    with _without_main(), ProcessPoolExecutor(1, context) as one:
        try:
            return one.submit(bool, True).result()
        except BrokenExecutor:
            return False


@contextlib.contextmanager
def _without_main() -> Iterator[None]:
    """Processes that are started here do not run the script that runs this one: it may be one that does not expect that."""
    main = sys.modules["__main__"]
    sys.modules["__main__"] = types.ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main
