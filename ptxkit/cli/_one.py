"""Examines one file, using the cache."""

from __future__ import annotations

from ptxkit import files
from ptxkit.cli import _cache, _job
from ptxkit.cli._job import Examined, Job
from ptxkit.memo import collect_when_due


def size_of(name: str) -> int:
    """The bytes of a file, or of a text within one; 0 if unknown."""
    return 0 if name == "-" else files.size(name)


def examined(name: str, job: Job, cached: bool, processes: int | None = 1) -> Examined:
    """The findings of a file, cached or new; it is read once. Up to so many processes examine its kernels; None: one a core."""
    try:
        text = files.read(name)
    except files.CannotRead as error:
        return Examined(name, unreadable=str(error))
    key = _cache.key(files.encode(text), job) if cached and name != "-" else ""
    return (_kept(name, text, key) if key else None) or _fresh(name, text, job, key, processes)


def kept(name: str, job: Job) -> Examined | None:
    """The cached result for a file."""
    if name == "-":
        return None
    try:
        text = files.read(name)
    except files.CannotRead:
        return None
    return _kept(name, text, _cache.key(files.encode(text), job))


def _kept(name: str, text: str, key: str) -> Examined | None:
    found = _cache.load(key, name)
    return None if found is None else Examined(name, found, _job.lines_of(text) if found else [])


def _fresh(name: str, text: str, job: Job, key: str, processes: int | None) -> Examined:
    """The findings of a text, computed now and cached under a key, if there is one."""
    store = None
    if key and job.select != _job.OF_TEXT:
        from ptxkit.cli import _functions

        store = _functions.Functions()
    found = _job.examine_text(name, text, job, store, processes)
    if key:
        _cache.save(key, found.diagnostics)
    collect_when_due()
    return found
