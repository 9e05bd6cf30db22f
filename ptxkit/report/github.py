"""Findings as annotations for GitHub Actions: a line for each, which the runner shows beside the code."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ptxkit.diagnostics import Diagnostic, Origin, Severity
from ptxkit.report.source import ReportAt, headline, shown_at
from ptxkit.report.text import described

COMMANDS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "notice"}


def lines(diagnostics: Iterable[Diagnostic], at: ReportAt = ReportAt.SOURCE) -> Iterator[str]:
    """A workflow command for each finding; related locations are in the message."""
    for diagnostic in diagnostics:
        frame = shown_at(diagnostic.origin, diagnostic.path, at)
        position = _in_ptx(diagnostic) if frame is None else _in_source(frame)
        position |= {"title": f"{diagnostic.rule} {diagnostic.name}"}
        properties = ",".join(f"{key}={_property(str(value))}" for key, value in position.items())
        yield f"::{COMMANDS[diagnostic.severity]} {properties}::{_data(_message(diagnostic, frame, at))}"


def _in_ptx(diagnostic: Diagnostic) -> dict[str, object]:
    span = diagnostic.span
    position: dict[str, object] = {"file": diagnostic.path or "", "line": span.line, "endLine": span.end_line}
    # the runner accepts columns only within one line
    return position | ({"col": span.column, "endColumn": span.end_column} if span.line == span.end_line else {})


def _in_source(frame: Origin) -> dict[str, object]:
    position: dict[str, object] = {"file": frame.path, "line": frame.line}
    return position | ({"col": frame.column} if frame.column else {})


def _message(diagnostic: Diagnostic, frame: Origin | None, at: ReportAt) -> str:
    parts = [headline(diagnostic)]
    if frame is not None:
        parts.append(f"PTX: {diagnostic.path or '<text>'}:{diagnostic.span.line}")
    elif diagnostic.origin is not None:
        parts.append(described(diagnostic.origin, diagnostic.path))
    for related in diagnostic.related:
        other = shown_at(related.origin, diagnostic.path, at)
        parts.append(f"{f'{other.path}:{other.line}' if other else f'line {related.span.line}'}: {related.message}")
    parts += [f"note: {note}" for note in diagnostic.notes]
    return "\n".join(parts)


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
