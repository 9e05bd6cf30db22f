"""What was found in a file, kept by its content: looking at the same file again costs reading it."""

# Most of the time of a small file went into pathlib.
# ruff: noqa: PTH118, PTH123, PTH105

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import shutil
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import attrs

import ptxkit
from ptxkit.cli._job import Job
from ptxkit.diagnostics import Diagnostic, Edit, Fix, Origin, Related, Severity, Span

VARIABLE = "PTXKIT_CACHE_DIR"
"""The environment variable that says where the cache is, in place of the user's folder for caches."""

KEPT_DAYS = 30
"""So long the results of other versions of ptxkit are kept after their last use."""


def folder() -> Path:
    """Where results of this ptxkit are kept."""
    return _folder(os.environ.get(VARIABLE), os.environ.get("XDG_CACHE_HOME") or os.environ.get("LOCALAPPDATA"), os.environ.get("HOME"))


@functools.lru_cache(maxsize=16)
def _folder(given: str | None, general: str | None, _home: str | None) -> Path:
    return (Path(given) if given else Path(general or Path.home() / ".cache") / "ptxkit") / _stamp()


def key(data: bytes, job: Job) -> str:
    """What results are found by: the content of a file and what was looked for; not its name."""
    return hashlib.blake2b(data, digest_size=20, key=hashlib.blake2b(repr(job).encode(), digest_size=32).digest()).hexdigest()


def load(where: str, path: str) -> tuple[Diagnostic, ...] | None:
    """The findings that are kept under a key, as of the file at `path`; None if there are none that can be read."""
    try:
        with open(_path(where), "rb") as file:
            kept = json.load(file)
        return tuple([diagnostic(one, path) for one in kept]) if isinstance(kept, list) else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def save(where: str, diagnostics: Iterable[Diagnostic]) -> None:
    """Keeps findings under a key, if that is possible."""
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
    """Writes a file beside it and renames it, so that who reads it meanwhile reads one or the other. Raises OSError."""
    beside = f"{path}.{os.getpid()}"
    with open(beside, "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(beside, path)


def _path(where: str) -> str:
    return os.path.join(folder(), where[:2], f"{where[2:]}.json")


@functools.cache
def _stamp() -> str:
    """What tells one ptxkit from another: its version, and the size and time of each of its files."""
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
    """Removes what other versions have left long ago."""
    os.utime(own)
    for other in own.parent.iterdir():
        if other != own and time.time() - other.stat().st_mtime > KEPT_DAYS * 86400:
            shutil.rmtree(other, ignore_errors=True)


def diagnostic(kept: dict[str, Any], path: str | None) -> Diagnostic:
    """The finding that `attrs.asdict` made `kept` of, in the file at a path."""
    related = tuple([Related(Span(**one["span"]), one["message"], _origin(one["origin"])) for one in kept["related"]])
    fixed = {"severity": Severity(kept["severity"]), "span": Span(**kept["span"]), "notes": tuple(kept["notes"]), "related": related}
    return Diagnostic(**{**kept, **fixed, "path": path, "origin": _origin(kept["origin"]), "fix": _fix(kept["fix"])})


def _fix(kept: dict[str, Any] | None) -> Fix | None:
    if kept is None:
        return None
    return Fix(**{**kept, "edits": tuple([Edit(**edit) for edit in kept["edits"]]), "notes": tuple(kept["notes"])})


def _origin(kept: dict[str, Any] | None) -> Origin | None:
    return None if kept is None else Origin(kept["path"], kept["line"], kept["column"], _origin(kept["inlined_at"]))
