"""Files looked at in several processes; a file that kills its process is reported as unreadable."""

from __future__ import annotations

import gc
import multiprocessing
from collections.abc import Iterator
from concurrent.futures import BrokenExecutor, Future, ProcessPoolExecutor

from ptxkit.cli import _one
from ptxkit.cli._job import Examined, Job


def examined(names: list[str], known: dict[str, Examined], job: Job, count: int, cached: bool) -> Iterator[Examined]:
    methods = multiprocessing.get_all_start_methods()
    context = multiprocessing.get_context("forkserver" if "forkserver" in methods else "spawn")
    if "forkserver" in methods:
        context.set_forkserver_preload(["ptxkit.cli._preload"])
    with ProcessPoolExecutor(count, context, gc.disable) as pool:
        waiting = [name for name in dict.fromkeys(names) if name not in known and name != "-"]
        # the largest first, so that none of them is left for the end
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
    # a process died, perhaps because of another file: this one gets a process of its own
    with ProcessPoolExecutor(1, context) as own:
        try:
            return own.submit(_one.fresh, name, job, cached).result()
        except BrokenExecutor:
            return Examined(name, unreadable=f"{name}: the process that looked at it died")
