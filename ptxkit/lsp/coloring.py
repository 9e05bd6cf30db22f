"""Semantic tokens of a file."""

from __future__ import annotations

import bisect

from ptxkit.lsp.document import Document
from ptxkit.tokens import Kind, tokens

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


def colored(document: Document) -> tuple[tuple[int, int, int, int], ...]:
    """Line and column (from 0, in characters), length and type number of each token; a token that spans lines is split."""
    starts = document.index.line_starts
    found = []
    line = 0
    for token in tokens(document.module):
        number = _NUMBER.get(token.kind)
        if number is None:
            continue
        while line + 1 < len(starts) and starts[line + 1] <= token.start:
            line += 1
        at, end = token.start, token.start + len(token.text)
        inner = line
        while at < end:
            stop = min(end, starts[inner + 1] - 1) if inner + 1 < len(starts) else end
            if stop > at:
                found.append((inner, at - starts[inner], stop - at, number))
            inner += 1
            at = starts[inner] if inner < len(starts) else end
    return tuple(found)


def between(found: tuple[tuple[int, int, int, int], ...], first: int, last: int) -> tuple[tuple[int, int, int, int], ...]:
    """Those in the lines from `first` to `last`."""
    return found[bisect.bisect_left(found, (first,)) : bisect.bisect_left(found, (last + 1,))]


def encoded(found: tuple[tuple[int, int, int, int], ...]) -> list[int]:
    """Five numbers for each token, with positions relative to the previous one, as the protocol requires."""
    data: list[int] = []
    line = column = 0
    for at, start, length, number in found:
        data += (at - line, start - column if at == line else start, length, number, 0)
        line, column = at, start
    return data
