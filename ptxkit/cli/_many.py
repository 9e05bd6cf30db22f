"""Many files: what is kept in the cache first, the rest in several processes, results in the order of the files."""

from __future__ import annotations

import os
from collections.abc import Iterator

from ptxkit import files
from ptxkit.cli import _cache, _job
from ptxkit.cli._job import Examined, Job
from ptxkit.memo import collect_when_due, collector_paused

DASK = "dask:"
"""What the name of an executor starts with."""

SMALL = 1_000_000
"""Bytes of PTX for which starting processes takes longer than they save."""


def examined(names: list[str], job: Job, jobs: int | None, cached: bool, executor: str | None = None) -> Iterator[Examined]:
    """What is found in each file, in order, each as soon as it and those before it are done.

    `jobs` processes are used, or as many as there are cores where that pays off; with an `executor` such as `dask:tcp://host:8786`, the
    workers of that cluster. A file that kills its process is reported as unreadable.
    """
    if executor is not None:
        from ptxkit.cli import _dask

        yield from _dask.examined(names, job, cached, executor.removeprefix(DASK))
        return
    known = {name: found for name in names if cached and (found := _kept(name, job)) is not None}
    rest = [name for name in dict.fromkeys(names) if name not in known]
    count = min(jobs if jobs is not None else _workers(rest), len(rest))
    if count < 2:
        with collector_paused():
            for name in names:
                yield known.get(name) or fresh(name, job, cached)
        return
    from ptxkit.cli import _processes

    yield from _processes.examined(names, known, job, count, cached)


def _workers(names: list[str]) -> int:
    if sum(map(size_of, names)) < SMALL:
        return 1
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def size_of(name: str) -> int:
    """The bytes of a file, or of a text inside of one; 0 if it cannot be asked."""
    return 0 if name == "-" else files.size(name)


def _kept(name: str, job: Job) -> Examined | None:
    """What the cache has for a file."""
    if name == "-":
        return None
    try:
        text = files.read(name)
    except files.CannotRead:
        return None
    found = _cache.load(_cache.key(files.encode(text), job), name)
    return None if found is None else Examined(name, found, _job.lines_of(text) if found else [])


def fresh(name: str, job: Job, cached: bool) -> Examined:
    """What is found in a file now, which the cache keeps."""
    try:
        text = files.read(name)
    except files.CannotRead as error:
        return Examined(name, unreadable=str(error))
    found = _job.examine_text(name, text, job)
    if cached and name != "-":
        _cache.save(_cache.key(files.encode(text), job), found.diagnostics)
    collect_when_due()
    return found
