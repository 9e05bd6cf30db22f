"""Findings as text: location, severity, message, the source line and a caret."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ptxkit.diagnostics import Diagnostic, Fix, Origin, Severity, Span
from ptxkit.origins import excerpt, frames, is_library, own_frame, source_lines
from ptxkit.report.source import ReportAt, folded, headline, shown_at

if TYPE_CHECKING:
    from rich.text import Text

COLORS = {Severity.ERROR: "bold red", Severity.WARNING: "bold yellow", Severity.INFO: "bold cyan"}
MAX_WIDTH = 160
"""Source lines are cut to about this many characters around the caret."""
MOST_RELATED = 12
"""Maximum number of related locations that are printed; one missing barrier may explain hundreds."""


def render(diagnostic: Diagnostic, lines: list[str], at: ReportAt = ReportAt.PTX) -> Text:
    """A finding with its excerpt; `lines` are those of the file, without line ends."""
    from rich.text import Text

    frame = shown_at(diagnostic.origin, diagnostic.path, at)
    span = diagnostic.span
    where = f"{diagnostic.path or '<text>'}:{span.line}:{span.column}" if frame is None else _position(frame)
    text = Text()
    text.append(f"{_printable(where)}: ", "bold")
    text.append(f"{diagnostic.severity}", COLORS[diagnostic.severity])
    text.append(f"[{diagnostic.rule}]", "dim")
    text.append(f" {_printable(headline(diagnostic))} ")
    text.append(f"({diagnostic.name})\n", "dim")
    color = "red" if diagnostic.severity is Severity.ERROR else "yellow"
    if frame is None or diagnostic.origin is None:
        _excerpt(text, span, lines, color, "^")
        _origin(text, diagnostic.origin, diagnostic.path)
    else:
        _source_excerpt(text, frame, diagnostic.path, color, "^")
        _compiled(text, diagnostic.origin, span, diagnostic.path, lines)
    for related in diagnostic.related[:MOST_RELATED]:
        other = shown_at(related.origin, diagnostic.path, at)
        text.append(f"  {_position(other) if other else f'{related.span.line}:{related.span.column}'}: ", "bold")
        text.append(f"{_printable(related.message)}\n")
        if other is None or related.origin is None:
            _excerpt(text, related.span, lines, "cyan", "-")
            _origin(text, related.origin, diagnostic.path)
        else:
            _source_excerpt(text, other, diagnostic.path, "cyan", "-")
            _compiled(text, related.origin, related.span, diagnostic.path, lines)
    if len(diagnostic.related) > MOST_RELATED:
        text.append(f"  {_omitted(diagnostic)}\n", "dim")
    for note in diagnostic.notes:
        text.append("  note: ", "cyan")
        text.append(f"{_printable(note)}\n")
    if diagnostic.fix is not None and diagnostic.fix.diff:
        _repair(text, diagnostic.fix)
    return text


def _omitted(diagnostic: Diagnostic) -> str:
    """A line that stands for the related locations after the first ones."""
    count = len(diagnostic.related) - MOST_RELATED
    return f"… and {count} more {'location' if count == 1 else 'locations'}, which `--format json` lists"


def _repair(text: Text, fix: Fix) -> None:
    """A proved repair: the diff and its notes."""
    text.append("  repair: ", "green")
    text.append(f"{_printable(fix.message)}\n")
    for line in fix.diff.split("\n"):
        style = {"+": "green", "-": "red", "@": "cyan"}.get(line[:1], "")
        text.append(f"    {_printable(line)[: 2 * MAX_WIDTH]}\n", style)
    for note in fix.notes:
        text.append(f"    {_printable(note)}\n", "dim")


def _position(frame: Origin) -> str:
    return f"{frame.path}:{frame.line}" + (f":{frame.column}" if frame.column else "")


def _source_excerpt(text: Text, frame: Origin, beside: str | None, color: str, mark: str) -> None:
    """The source line with a mark under the column that `.loc` names."""
    lines = source_lines(frame.path, beside) or ()
    column = max(1, frame.column)
    _excerpt(text, Span(0, 0, frame.line, column, frame.line, column + 1), list(lines), color, mark)


def _compiled(text: Text, origin: Origin, span: Span, path: str | None, lines: list[str]) -> None:
    """The PTX compiled from it, and the frames between."""
    line = " ".join(lines[span.line - 1].partition("//")[0].split()) if span.line <= len(lines) else ""
    text.append("  = ", "dim")
    text.append(_printable(f"{path or '<text>'}:{span.line}:{span.column}{_calls(origin)}: {line}")[: 2 * MAX_WIDTH] + "\n", "italic")


def _calls(origin: Origin) -> str:
    """The calls where the user's frame was inlined, and the number of library frames between it and the instruction."""
    own = own_frame(origin)
    calls = "".join([f", inlined at {call.path}:{call.line}" for call in list(frames(own))[1:] if not is_library(call.path)])
    hidden = folded(origin)
    more = f" and {hidden - 1} more frame{'s' if hidden > 2 else ''}" if hidden > 1 else ""
    return calls + (f", through {origin.path.rpartition('/')[2]}{more}" if hidden else "")


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
    """`from a.cu:12:5, inlined at a.cu:30: x = y;`: the user's frame, with the source line if its file is found."""
    own = own_frame(origin)
    shown = excerpt(own, beside)
    text = f"from {_position(own)}{_calls(origin)}"
    return text if shown is None else f"{text}: {shown}"


def _origin(text: Text, origin: Origin | None, beside: str | None) -> None:
    if origin is None:
        return
    text.append("  = ", "dim")
    text.append(f"{_printable(described(origin, beside))[: 2 * MAX_WIDTH]}\n", "italic")


def _printable(text: str) -> str:
    """The text without control characters and lone surrogates, which could affect a terminal."""
    return "".join(character if character == "\t" or character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in text)


def summary(diagnostics: Iterable[Diagnostic], files: int) -> str:
    """`3 errors, 1 warning in 12 files`."""
    counts = dict.fromkeys(Severity, 0)
    for diagnostic in diagnostics:
        counts[diagnostic.severity] += 1
    parts = [f"{count} {severity}{'' if count == 1 or severity is Severity.INFO else 's'}" for severity, count in counts.items() if count]
    return f"{', '.join(parts) or 'no findings'} in {files} file{'' if files == 1 else 's'}"
