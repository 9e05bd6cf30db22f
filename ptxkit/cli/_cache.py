"""The cache of findings by file content: examining the same file again costs only reading it."""

# pathlib would take most of the time for a small file
# ruff: noqa: PTH118, PTH123, PTH105

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import attrs

import ptxkit
from ptxkit.cli._job import Job
from ptxkit.diagnostics import Diagnostic, Edit, Fix, Origin, Related, Severity, Span

VARIABLE = "PTXKIT_CACHE_DIR"
"""The environment variable for the cache folder, instead of the user's cache folder."""

KEPT_DAYS = 30
"""Days after their last use for which results of other versions of ptxkit are kept."""


def folder() -> Path:
    """The cache folder of this version of ptxkit."""
    return _folder(os.environ.get(VARIABLE), os.environ.get("XDG_CACHE_HOME") or os.environ.get("LOCALAPPDATA"), os.environ.get("HOME"))


@functools.lru_cache(maxsize=16)
def _folder(given: str | None, general: str | None, _home: str | None) -> Path:
    return (Path(given) if given else Path(general or Path.home() / ".cache") / "ptxkit") / _stamp()


def key(data: bytes, job: Job) -> str:
    """The cache key: the content of a file and the job; not its name."""
    return hashlib.blake2b(data, digest_size=20, key=hashlib.blake2b(repr(job).encode(), digest_size=32).digest()).hexdigest()


def load(where: str, path: str) -> tuple[Diagnostic, ...] | None:
    """The cached findings for a key, for the file at `path`; None if there are none, or they cannot be read."""
    try:
        with open(_path(where), "rb") as file:
            kept = json.load(file)
        return tuple([diagnostic(one, path) for one in kept]) if isinstance(kept, list) else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def save(where: str, diagnostics: Iterable[Diagnostic]) -> None:
    """Caches findings under a key, if possible."""
    path = _path(where)
    text = json.dumps([attrs.asdict(one) for one in diagnostics])
    with contextlib.suppress(OSError):
        try:
            _write(path, text)
        except FileNotFoundError:
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            _forget(folder())
            _write(path, text)


def _write(path: str, text: str) -> None:
    """Writes a temporary file and renames it, so that concurrent readers see the old or the new contents. Raises OSError."""
    beside = f"{path}.{os.getpid()}"
    with open(beside, "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(beside, path)


def _path(where: str) -> str:
    return os.path.join(folder(), where[:2], f"{where[2:]}.json")


@functools.cache
def _stamp() -> str:
    """Identifies this build of ptxkit: its version, and the size and time of each of its files."""
    found = hashlib.blake2b(ptxkit.__version__.encode(), digest_size=8)
    stack = [Path(ptxkit.__file__).parent]
    while stack:
        with os.scandir(stack.pop()) as entries:
            for entry in sorted(entries, key=lambda entry: entry.name):
                if entry.name.endswith((".py", ".isa", ".peg", ".json")):
                    status = entry.stat()
                    found.update(f"{entry.path} {status.st_size} {status.st_mtime_ns}\n".encode("utf-8", "surrogateescape"))
                elif entry.is_dir() and entry.name != "__pycache__":
                    stack.append(Path(entry.path))
    return found.hexdigest()


def _forget(own: Path) -> None:
    """Removes old results of other versions."""
    os.utime(own)
    for other in own.parent.iterdir():
        if other != own and time.time() - other.stat().st_mtime > KEPT_DAYS * 86400:
            import shutil  # it loads all kinds of archives

            shutil.rmtree(other, ignore_errors=True)


def diagnostic(kept: dict[str, Any], path: str | None) -> Diagnostic:
    """The finding that `attrs.asdict` converted to `kept`, for the file at a path."""
    related = tuple([Related(Span(**one["span"]), one["message"], _origin(one["origin"])) for one in kept["related"]])
    fixed = {"severity": Severity(kept["severity"]), "span": Span(**kept["span"]), "notes": tuple(kept["notes"]), "related": related}
    return Diagnostic(**{**kept, **fixed, "path": path, "origin": _origin(kept["origin"]), "fix": _fix(kept["fix"])})


def _fix(kept: dict[str, Any] | None) -> Fix | None:
    if kept is None:
        return None
    return Fix(**{**kept, "edits": tuple([Edit(**edit) for edit in kept["edits"]]), "notes": tuple(kept["notes"])})


def _origin(kept: dict[str, Any] | None) -> Origin | None:
    return None if kept is None else Origin(kept["path"], kept["line"], kept["column"], _origin(kept["inlined_at"]))
