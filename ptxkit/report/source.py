"""Where findings are shown: in the source program, or in the PTX."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from pathlib import Path

import attrs

from ptxkit.demangling import short
from ptxkit.diagnostics import Diagnostic, Origin, Severity
from ptxkit.origins import frames, own_frame, source_file

MOST = 8
"""Maximum number of lines or kernels named in a merged finding."""
_RANK = {Severity.ERROR: 0, Severity.WARNING: 1, Severity.INFO: 2}


class ReportAt(enum.StrEnum):
    """The location of a finding that is shown first."""

    AUTO = "auto"
    """The source, if its file is found."""
    SOURCE = "source"
    """The source, if `.loc` names it."""
    PTX = "ptx"


def shown_at(origin: Origin | None, beside: str | None, at: ReportAt) -> Origin | None:
    """The frame to show in the user's source, with the path under which the file is found; None if the PTX is to be shown."""
    if origin is None or at is ReportAt.PTX:
        return None
    frame = own_frame(origin)
    found = source_file(frame.path, beside)
    if found is None:
        return frame if at is ReportAt.SOURCE else None
    return attrs.evolve(frame, path=_relative(found))


def _relative(path: Path) -> str:
    """The path relative to the current folder, if it is within."""
    try:
        return path.resolve().relative_to(Path.cwd()).as_posix()
    except ValueError:
        return path.as_posix()


def folded(origin: Origin) -> int:
    """The number of library frames between the instruction and the user's frame."""
    own = own_frame(origin)
    return next((i for i, frame in enumerate(frames(origin)) if frame is own), 0)


def headline(diagnostic: Diagnostic) -> str:
    """The message, preceded by the kernel's source name."""
    return diagnostic.message if diagnostic.function is None else f"{short(diagnostic.function)}: {diagnostic.message}"


def merged(diagnostics: Iterable[Diagnostic], at: ReportAt) -> list[Diagnostic]:
    """The findings, merged if they share a rule, a source line and the lines of their steps.

    So copies in an unrolled loop and instances of a template become one. The most severe represents all; a note names the others.
    """
    groups: dict[object, list[Diagnostic]] = {}
    for i, one in enumerate(diagnostics):
        groups.setdefault(_cause(one, at) or i, []).append(one)
    return [_one(group) for group in groups.values()]


def _cause(one: Diagnostic, at: ReportAt) -> object:
    frame = shown_at(one.origin, one.path, at)
    if frame is None:
        return None
    steps = [own_frame(related.origin) for related in one.related if related.origin is not None]
    return one.path, one.rule, frame.path, frame.line, frozenset((step.path, step.line) for step in steps)


def _one(group: list[Diagnostic]) -> Diagnostic:
    first = min(group, key=lambda one: _RANK[one.severity])
    if len(group) == 1:
        return first
    lines = sorted({one.span.line for one in group if one.function == first.function} - {first.span.line})
    kernels = list(dict.fromkeys(short(one.function) for one in group if one.function not in (None, first.function)))
    notes = [f"also at PTX line{'s' if len(lines) > 1 else ''} {_listed(map(str, lines))}"] if lines else []
    notes += [f"also in {_listed(kernels)}"] if kernels else []
    return attrs.evolve(first, notes=(*first.notes, *notes))


def _listed(words: Iterable[str]) -> str:
    every = list(words)
    more = f" and {len(every) - MOST} more" if len(every) > MOST else ""
    return ", ".join(every[:MOST]) + more
