"""Semantic tokens of a file."""

from __future__ import annotations

import bisect
from collections.abc import Iterator, Sequence

from ptxkit.lsp.document import Document
from ptxkit.memo import collector_paused
from ptxkit.tokens import Kind, Piece, runs

Colored = tuple[int, int, int, int]

TYPES = (
    "comment",
    "keyword",
    "type",
    "operator",
    "decorator",
    "parameter",
    "variable",
    "number",
    "string",
    "label",
    "function",
    "property",
)
"""The names of token types, by number; the editor must map those that the protocol does not define."""

_TYPE = {
    Kind.COMMENT: "comment",
    Kind.DIRECTIVE: "decorator",
    Kind.TYPE: "type",
    Kind.OPCODE: "keyword",
    Kind.MODIFIER: "property",
    Kind.REGISTER: "variable",
    Kind.SPECIAL: "parameter",
    Kind.NUMBER: "number",
    Kind.STRING: "string",
    Kind.LABEL: "label",
    Kind.FUNCTION: "function",
    Kind.VARIABLE: "variable",
}
_NUMBER = {kind: TYPES.index(name) for kind, name in _TYPE.items()}


def colored(document: Document) -> tuple[Colored, ...]:
    """Line and column (from 0, in characters), length and type number of each token; a token that spans lines is split."""
    with collector_paused():
        return tuple(_colored(document))


def _colored(document: Document) -> list[Colored]:
    found: list[Colored] = []
    line = column = 0
    known: dict[int, tuple[Sequence[Piece], list[tuple[int | None, int]]]] = {}
    for run in runs(document.module):
        stretches = known.get(id(run)) or known.setdefault(id(run), (run, list(_stretches(run))))
        for number, length in stretches[1]:
            if number is not None:
                found.append((line, column, length, number))
                column += length
            elif length:
                column += length
            else:
                line, column = line + 1, 0
    return found


def _stretches(run: Sequence[Piece]) -> Iterator[tuple[int | None, int]]:
    """The number of the type (None: it has no color) and the length of each token in a run; no length: a line ends."""
    for kind, text in run:
        number = _NUMBER.get(kind)
        for i, part in enumerate(text.split("\n")):
            if i:
                yield None, 0
            if part:
                yield number, len(part)


def between(found: tuple[Colored, ...], first: int, last: int) -> tuple[Colored, ...]:
    """Those in the lines from `first` to `last`."""
    return found[bisect.bisect_left(found, (first,)) : bisect.bisect_left(found, (last + 1,))]


def encoded(found: tuple[Colored, ...]) -> list[int]:
    """Five numbers a token, its position relative to the one before, as the protocol has it."""
    data: list[int] = []
    line = column = 0
    for at, start, length, number in found:
        data += (at - line, start - column if at == line else start, length, number, 0)
        line, column = at, start
    return data
