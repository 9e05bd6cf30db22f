"""Examines many files on a Dask cluster: the texts are sent to workers, and results return in the order of the files.

Workers need the same version of ptxkit, but neither the files nor the cache. If a worker dies, the cluster gives the file to another; a
file on which several workers die is reported as unreadable.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from concurrent.futures import CancelledError
from typing import Any

import click

import ptxkit
from ptxkit import files
from ptxkit.cli import _cache, _job
from ptxkit.cli._job import Examined, Job

AHEAD = 256
"""Number of files submitted at a time."""
TIMEOUT = 20
"""Seconds within which the cluster must respond."""


def examined(names: list[str], job: Job, cached: bool, address: str) -> Iterator[Examined]:
    """The findings of each file, in order. Raises click.UsageError if there is no cluster at the address."""
    with _client(address) as client:
        waiting: deque[Examined | tuple[str, Any, str]] = deque()
        for name in names:
            waiting.append(_start(client, name, job, cached))
            while len(waiting) > AHEAD or (waiting and _is_ready(waiting[0])):
                yield _finish(waiting.popleft())
        while waiting:
            yield _finish(waiting.popleft())


def _client(address: str) -> Any:
    try:
        from distributed import Client
    except ImportError:
        raise click.UsageError("--executor dask:ADDRESS needs the extra `dask`: pip install 'ptxkit[dask]'") from None
    try:
        return Client(address, timeout=TIMEOUT, set_as_default=False)  # type: ignore[no-untyped-call]
    except (OSError, ValueError) as error:
        raise click.UsageError(f"no Dask cluster at {address}: {error}") from None


def _start(client: Any, name: str, job: Job, cached: bool) -> Examined | tuple[str, Any, str]:
    """The result for a file; or its name, the cluster's future, and the cache key for it."""
    try:
        text = files.read(name)
    except files.CannotRead as error:
        return Examined(name, unreadable=str(error))
    data = files.encode(text)
    key = _cache.key(data, job) if cached and name != "-" else ""
    known = _cache.load(key, name) if key else None
    if known is not None:
        return Examined(name, known, _job.lines_of(text) if known else [])
    return name, client.submit(_look, name, data, job, ptxkit.__version__, pure=False), key


def _look(name: str, data: bytes, job: Job, version: str) -> Examined:
    """Runs on a worker."""
    if version != ptxkit.__version__:
        return Examined(name, unreadable=f"{name}: a worker of the cluster has ptxkit {ptxkit.__version__}, not {version}")
    return _job.examine_text(name, files.decode(data), job)


def _is_ready(one: Examined | tuple[str, Any, str]) -> bool:
    return isinstance(one, Examined) or bool(one[1].done())


def _finish(one: Examined | tuple[str, Any, str]) -> Examined:
    from distributed.scheduler import KilledWorker

    if isinstance(one, Examined):
        return one
    name, future, key = one
    try:
        found: Examined = future.result()
    except KilledWorker:
        return Examined(name, unreadable=f"{name}: the workers that looked at it died")
    except (CancelledError, OSError) as error:
        return Examined(name, unreadable=f"{name}: the cluster gave it up: {error or type(error).__name__}")
    if key and not found.unreadable:
        _cache.save(key, found.diagnostics)
    return found
