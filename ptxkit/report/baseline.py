"""Baselines: files of accepted findings, so that only new ones are reported.

A finding is identified by its file, rule, function and the text of its line, not by its location: it is recognized when lines move.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from ptxkit.diagnostics import Diagnostic

VERSION = 1


class BadBaseline(Exception):
    """A file that is not a baseline."""


def fingerprint(diagnostic: Diagnostic, lines: list[str], folder: str = ".") -> str:
    """The identity of a finding; paths are relative to `folder`. `lines` are those of its file."""
    line = lines[diagnostic.span.line - 1].strip() if diagnostic.span.line <= len(lines) else ""
    parts = (_relative(diagnostic.path, folder), diagnostic.rule, diagnostic.function or "", line)
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogateescape")).hexdigest()[:32]


def _relative(path: str | None, folder: str) -> str:
    if path is None or path == "-":
        return path or ""
    try:
        return Path(os.path.relpath(path, folder)).as_posix()
    except ValueError:  # another drive
        return Path(path).as_posix()


def read(path: str) -> Counter[str]:
    """The number of accepted occurrences of each finding. Raises BadBaseline."""
    try:
        document = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise BadBaseline(f"{path}: {getattr(error, 'strerror', None) or error}") from None
    accepted = document.get("accepted") if isinstance(document, dict) else None
    if not isinstance(accepted, dict) or document.get("version") != VERSION:
        raise BadBaseline(f"{path} is not a baseline of this version of ptxkit; write it with --update-baseline")
    if not all(isinstance(entry, dict) and type(entry.get("count")) is int for entry in accepted.values()):
        raise BadBaseline(f"{path} is damaged; write it again with --update-baseline")
    return Counter({key: entry["count"] for key, entry in accepted.items()})


def written(findings: Iterable[tuple[Diagnostic, str]], folder: str = ".") -> str:
    """The contents of a baseline that accepts these findings, each given with its fingerprint."""
    about: dict[str, Diagnostic] = {}
    counts: Counter[str] = Counter()
    for diagnostic, key in findings:
        about.setdefault(key, diagnostic)
        counts[key] += 1
    accepted = {
        key: {"path": _relative(one.path, folder), "rule": one.rule, "function": one.function, "count": counts[key]}
        for key, one in sorted(about.items(), key=lambda item: (item[1].path or "", item[1].rule, item[0]))
    }
    return json.dumps({"version": VERSION, "accepted": accepted}, indent=1) + "\n"
