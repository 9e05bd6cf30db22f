"""One file: what the cache has for it, or what is found in it now."""

from __future__ import annotations

from ptxkit import files
from ptxkit.cli import _cache, _job
from ptxkit.cli._job import Examined, Job
from ptxkit.memo import collect_when_due


def size_of(name: str) -> int:
    """The bytes of a file, or of a text inside of one; 0 if it cannot be asked."""
    return 0 if name == "-" else files.size(name)


def kept(name: str, job: Job) -> Examined | None:
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
    from ptxkit.cli import _functions

    store = _functions.Functions() if cached and name != "-" else None
    found = _job.examine_text(name, text, job, store)
    if store is not None:
        _cache.save(_cache.key(files.encode(text), job), found.diagnostics)
    collect_when_due()
    return found
