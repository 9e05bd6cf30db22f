"""Findings as text: location, severity, message, the source line and a caret."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ptxkit.diagnostics import Diagnostic, Origin, Severity, Span
from ptxkit.origins import excerpt

if TYPE_CHECKING:
    from rich.text import Text

COLORS = {Severity.ERROR: "bold red", Severity.WARNING: "bold yellow", Severity.INFO: "bold cyan"}
MAX_WIDTH = 160
"""Source lines are cut to about this many characters around the caret."""


def render(diagnostic: Diagnostic, lines: list[str]) -> Text:
    """A finding with its excerpt; `lines` are those of the file, without their ends."""
    from rich.text import Text

    text = Text()
    text.append(f"{diagnostic.path or '<text>'}:{diagnostic.span.line}:{diagnostic.span.column}: ", "bold")
    text.append(f"{diagnostic.severity}", COLORS[diagnostic.severity])
    text.append(f"[{diagnostic.rule}]", "dim")
    text.append(f" {_printable(diagnostic.message)} ")
    text.append(f"({diagnostic.name})\n", "dim")
    _excerpt(text, diagnostic.span, lines, "red" if diagnostic.severity is Severity.ERROR else "yellow", "^")
    _origin(text, diagnostic.origin, diagnostic.path)
    for related in diagnostic.related:
        text.append(f"  {related.span.line}:{related.span.column}: ", "bold")
        text.append(f"{_printable(related.message)}\n")
        _excerpt(text, related.span, lines, "cyan", "-")
        _origin(text, related.origin, diagnostic.path)
    for note in diagnostic.notes:
        text.append("  note: ", "cyan")
        text.append(f"{_printable(note)}\n")
    return text


def _excerpt(text: Text, span: Span, lines: list[str], color: str, mark: str) -> None:
    if span.line > len(lines):
        return
    line, column = lines[span.line - 1], span.column - 1
    end = span.end_column - 1 if span.end_line == span.line else len(line)
    first = max(0, column - MAX_WIDTH // 2) if len(line) > MAX_WIDTH else 0
    shown = _printable(line[first : first + MAX_WIDTH])
    number = f"{span.line:>6} | "
    text.append(number, "dim")
    text.append(("…" if first else "") + shown + ("…" if first + MAX_WIDTH < len(line) else "") + "\n")
    before = "".join("\t" if character == "\t" else " " for character in line[first:column]) + (" " if first else "")
    text.append(" " * (len(number) - 2) + "| ", "dim")
    text.append(before + mark * max(1, min(end, first + MAX_WIDTH) - column) + "\n", color)


def described(origin: Origin, beside: str | None) -> str:
    """`from a.cu:12:5, inlined at a.cu:30:1: x = y;`, with the line of the source where its file is found."""
    shown = excerpt(origin, beside)
    column = f":{origin.column}" if origin.column else ""
    text = f"from {origin.path}:{origin.line}{column}"
    call = origin.inlined_at
    while call is not None:
        text += f", inlined at {call.path}:{call.line}"
        call = call.inlined_at
    return text if shown is None else f"{text}: {shown}"


def _origin(text: Text, origin: Origin | None, beside: str | None) -> None:
    if origin is None:
        return
    text.append("  = ", "dim")
    text.append(f"{_printable(described(origin, beside))[: 2 * MAX_WIDTH]}\n", "italic")


def _printable(text: str) -> str:
    """The text without control characters and halves of surrogate pairs, which a terminal would act on or choke on."""
    return "".join(character if character == "\t" or character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in text)


def summary(diagnostics: Iterable[Diagnostic], files: int) -> str:
    """`3 errors, 1 warning in 12 files`."""
    counts = dict.fromkeys(Severity, 0)
    for diagnostic in diagnostics:
        counts[diagnostic.severity] += 1
    parts = [f"{count} {severity}{'' if count == 1 or severity is Severity.INFO else 's'}" for severity, count in counts.items() if count]
    return f"{', '.join(parts) or 'no findings'} in {files} file{'' if files == 1 else 's'}"
