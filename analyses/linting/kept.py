"""Findings of parts of modules, kept by what they depend on: what was found once in a function is not looked for again."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import attrs

from ptxkit.analyses.linting.parts import Part, extent
from ptxkit.diagnostics import Diagnostic, Span
from ptxkit.frozen import frozen
from ptxkit.syntax import Index

_LINES = re.compile(r"\blines?\b")


@frozen
class Kept:
    """What was found in a part.

    Spans count from the beginning of the function, or of the declaration, that they lie in. Which one that is stands for their line: the
    functions of the part from 0 on, what is declared beside them from -1 down.
    """

    findings: tuple[Diagnostic, ...]
    lines: tuple[int, ...] = ()
    """Where all these began, if messages speak of lines: then it holds only where they begin there."""


class Store(Protocol):
    """What keeps findings, by words that say what they depend on."""

    def load(self, keys: Sequence[str]) -> Mapping[str, Kept]:
        """What is kept for some of these."""

    def save(self, found: Mapping[str, Kept]) -> None:
        """Keeps more."""


class Memory:
    """Keeps findings as long as it lives, those that were asked for last."""

    def __init__(self, most: int = 20_000) -> None:
        self.most = most
        self._known: OrderedDict[str, Kept] = OrderedDict()

    def load(self, keys: Sequence[str]) -> Mapping[str, Kept]:
        """What is kept for some of these."""
        found = {key: self._known[key] for key in keys if key in self._known}
        for key in found:
            self._known.move_to_end(key)
        return found

    def save(self, found: Mapping[str, Kept]) -> None:
        """Keeps more."""
        self._known.update(found)
        while len(self._known) > self.most:
            self._known.popitem(last=False)


class NotKept(Exception):
    """A finding has a location that is neither in its part nor in a declaration of the module, or a fix beside its function."""


def kept(part: Part, findings: Sequence[Diagnostic], index: Index) -> Kept:
    """Findings in a part as they are kept. Raises NotKept."""
    numbers = {i: k for k, i in enumerate(part.children)} | {i: -1 - k for k, i in enumerate(part.others)}

    def relative(span: Span) -> Span:
        i = bisect_right(index.starts, span.start) - 1
        start, end = extent(index, i) if i >= 0 else (0, -1)
        if i not in numbers or span.end > end:
            raise NotKept
        return Span(span.start - start, span.end - start, numbers[i], 0, 0, 0)

    for one in findings:
        at = bisect_right(index.starts, one.span.start) - 1
        start, end = extent(index, at) if at >= 0 else (0, -1)
        if one.fix is not None and not all(start <= edit.start and edit.end <= end for edit in one.fix.edits):
            raise NotKept
    found = tuple([_moved(one, relative, None) for one in findings])
    speaks = any(one.witness is not None or any(map(_LINES.search, _texts(one))) for one in findings)
    return Kept(found, _lines(part, index) if speaks else ())


def found_again(part: Part, known: Kept, index: Index, path: str | None) -> tuple[Diagnostic, ...] | None:
    """The findings where the part stands now, in the file at a path; None if they do not hold there."""
    if known.lines and known.lines != _lines(part, index):
        return None

    def absolute(span: Span) -> Span:
        k = span.line
        start = index.starts[part.children[k] if k >= 0 else part.others[-1 - k]]
        return index.between(start + span.start, start + span.end)

    return tuple([_moved(one, absolute, path) for one in known.findings])


def _moved(one: Diagnostic, move: Callable[[Span], Span], path: str | None) -> Diagnostic:
    span = move(one.span)
    related = tuple([attrs.evolve(other, span=move(other.span)) for other in one.related])
    fix = one.fix
    if fix is not None:
        # what it changes is in the same function
        by = span.start - one.span.start
        fix = attrs.evolve(fix, edits=tuple([attrs.evolve(edit, start=edit.start + by, end=edit.end + by) for edit in fix.edits]))
    return attrs.evolve(one, span=span, related=related, fix=fix, path=path)


def _texts(one: Diagnostic) -> tuple[str, ...]:
    return one.message, *one.notes, *[other.message for other in one.related]


def _lines(part: Part, index: Index) -> tuple[int, ...]:
    """The lines at which the functions of a part, and what is declared beside them, begin."""
    return tuple([index.line_column(index.starts[i])[0] for i in (*part.children, *part.others)])
