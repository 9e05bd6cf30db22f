"""Many files on a Dask cluster: their texts go to the workers, and what is found comes back in the order of the files.

Workers need ptxkit of the same version, and neither the files nor the cache. The cluster gives a file to another worker when one dies;
one on which worker after worker dies is reported as unreadable.
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
"""So many files are with the cluster at a time."""
TIMEOUT = 20
"""Seconds within which the cluster has to answer."""


def examined(names: list[str], job: Job, cached: bool, address: str) -> Iterator[Examined]:
    """What is found in each file, in order. Raises click.UsageError if there is no cluster at the address."""
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
    """What is known of a file; or its name, what the cluster will know, and the key under which the cache shall keep it."""
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
    """What a worker does."""
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
