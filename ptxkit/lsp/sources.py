"""Source files of a compiled program: findings shown there, and navigation between source and PTX."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from ptxkit.diagnostics import Diagnostic, Origin
from ptxkit.frozen import frozen
from ptxkit.lsp.document import Document
from ptxkit.memo import expression
from ptxkit.origins import SUFFIXES, Origins, own_frame, source_file
from ptxkit.report.source import ReportAt, merged, shown_at
from ptxkit.syntax import File

_LOC = expression(r"^[ \t]*(\.loc[ \t]+(\d+)[ \t]+(\d+))", re.MULTILINE)


@frozen
class Shown:
    """A finding in a source file."""

    path: Path
    line: int
    """From 1."""
    column: int
    """From 1; 0 for the whole line."""
    found: Diagnostic


def is_source(path: str | None) -> bool:
    """Whether a file is source code rather than PTX."""
    return path is not None and Path(path).suffix.lower() in SUFFIXES


def shown(document: Document, found: Iterable[Diagnostic]) -> Iterator[Shown]:
    """The findings located in an existing source file; one for all that share a line and a cause."""
    for one in merged(found, ReportAt.AUTO):
        frame = shown_at(one.origin, document.path, ReportAt.AUTO)
        if frame is not None:
            yield Shown(Path(frame.path).resolve(), frame.line, frame.column, one)


def origin_at(document: Document, offset: int) -> tuple[Path, int] | None:
    """The source file and line of the code at an offset, if the file exists."""
    line = document.line_at(offset)
    origin: Origin | None = Origins(document.module, document.index).at(document.line_starts[line] + len(document.line_text(line)))
    if origin is None:
        return None
    own = own_frame(origin)
    found = source_file(own.path, document.path)
    return None if found is None else (found.resolve(), own.line)


def made_by(document: Document, path: Path, line: int) -> tuple[int, ...]:
    """The offsets of the `.loc` statements that name a line of a file, directly or as an inlined call."""
    origins = Origins(document.module, document.index)
    wanted = _names_of(document, path)
    found = []
    for match in _LOC.finditer(document.text):
        origin = origins.at(match.start(1))
        if origin is not None and (own := own_frame(origin)).line == line and own.path in wanted:
            found.append(match.start(1))
    return tuple(found)


def links(document: Document) -> tuple[tuple[int, int, Path, int], ...]:
    """Start and end of each `.file` and `.loc` whose file exists, with the file and line."""
    files: dict[int, Path] = {}
    found = []
    for i, child in enumerate(document.module.children):
        if isinstance(child, File) and (path := source_file(child.name, document.path)) is not None:
            files[child.index] = path.resolve()
            span = document.index.span((i, 1))
            found.append((span.start, span.end, files[child.index], 1))
    for match in _LOC.finditer(document.text):
        path = files.get(int(match[2]))
        if path is not None:
            found.append((match.start(1), match.end(1), path, max(int(match[3]), 1)))
    return tuple(found)


def _names_of(document: Document, path: Path) -> frozenset[str]:
    """The names that `.file` statements give a file."""
    named = {child.name for child in document.module.children if isinstance(child, File)}
    return frozenset(name for name in named if (found := source_file(name, document.path)) is not None and found.resolve() == path)
