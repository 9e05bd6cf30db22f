"""Examines many files: cached ones first, the rest in several processes, with results in the order of the files."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

from ptxkit.cli import _one
from ptxkit.cli._job import Examined, Job
from ptxkit.memo import collector_paused

DASK = "dask:"
"""The prefix of an executor's name."""

SMALL = 1_000_000
"""Bytes of PTX below which starting processes takes longer than it saves."""


def examined(
    names: list[str], job_of: Callable[[str], Job], jobs: int | None, cached: bool, executor: str | None = None
) -> Iterator[Examined]:
    """The findings of each file, in order. Files with the same settings are examined together."""
    for _, group in itertools.groupby(names, lambda name: repr(job_of(name))):
        mine = list(group)
        yield from _by_one_job(mine, job_of(mine[0]), jobs, cached, executor)


def _by_one_job(names: list[str], job: Job, jobs: int | None, cached: bool, executor: str | None = None) -> Iterator[Examined]:
    """The findings of one job in each file, in order, each as soon as it and all before it are done.

    Uses `jobs` processes, by default as many as there are cores if that is worthwhile; a single file may use all of them. With an
    `executor` such as `dask:tcp://host:8786`, the workers of that cluster. A file that kills its process is reported as unreadable.
    """
    if executor is not None:
        from ptxkit.cli import _dask

        yield from _dask.examined(names, job, cached, executor.removeprefix(DASK))
        return
    known: dict[str, Examined] = {}
    count = min(jobs if jobs is not None else _workers(names), len(names))
    if count > 1:
        known = {name: found for name in names if cached and (found := _one.kept(name, job)) is not None}
        rest = [name for name in dict.fromkeys(names) if name not in known]
        count = min(jobs if jobs is not None else _workers(rest), len(rest))
    if count < 2:
        with collector_paused():
            for name in names:
                yield known.get(name) or _one.examined(name, job, cached, jobs)
        return
    from ptxkit.cli import _processes

    yield from _processes.examined(names, known, job, count, cached)


def _workers(names: list[str]) -> int:
    if sum(map(_one.size_of, names)) < SMALL:
        return 1
    from ptxkit import workers

    return workers.cores()
