"""Findings as annotations of GitHub Actions: a line for each, which the runner shows beside the code."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ptxkit.diagnostics import Diagnostic, Severity
from ptxkit.report.text import described

COMMANDS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "notice"}


def lines(diagnostics: Iterable[Diagnostic]) -> Iterator[str]:
    """A workflow command for each finding; what belongs to it is in the message."""
    for diagnostic in diagnostics:
        span = diagnostic.span
        position = {"file": diagnostic.path or "", "line": span.line, "endLine": span.end_line}
        if span.line == span.end_line:
            # the runner takes columns only within one line
            position |= {"col": span.column, "endColumn": span.end_column}
        position |= {"title": f"{diagnostic.rule} {diagnostic.name}"}
        properties = ",".join(f"{key}={_property(str(value))}" for key, value in position.items())
        yield f"::{COMMANDS[diagnostic.severity]} {properties}::{_data(_message(diagnostic))}"


def _message(diagnostic: Diagnostic) -> str:
    parts = [diagnostic.message]
    if diagnostic.origin is not None:
        parts.append(described(diagnostic.origin, diagnostic.path))
    parts += [f"line {related.span.line}: {related.message}" for related in diagnostic.related]
    parts += [f"note: {note}" for note in diagnostic.notes]
    return "\n".join(parts)


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
