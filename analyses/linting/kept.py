"""A cache of findings for parts of modules, keyed by what they depend on, so that unchanged functions are not analysed again."""

from __future__ import annotations

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import attrs

from ptxkit.analyses.linting.parts import Part, extent
from ptxkit.diagnostics import Diagnostic, Span
from ptxkit.frozen import frozen
from ptxkit.memo import expression
from ptxkit.syntax import Index

_LINES = expression(r"\blines?\b")


@frozen
class Kept:
    """The findings in a part.

    Spans are relative to the start of the function or declaration that contains them. Their line number identifies it: functions of the
    part from 0 upwards, other declarations of the module from -1 downwards.
    """

    findings: tuple[Diagnostic, ...]
    lines: tuple[int, ...] = ()
    """Lines at which these start, if messages mention lines: the entry is then valid only for the same lines."""


class Store(Protocol):
    """Stores findings by key."""

    def load(self, keys: Sequence[str]) -> Mapping[str, Kept]:
        """The entries for those keys that have one."""

    def save(self, found: Mapping[str, Kept]) -> None:
        """Adds entries."""


class Memory:
    """A store in memory that keeps the most recently used entries."""

    def __init__(self, most: int = 20_000) -> None:
        self.most = most
        self._known: OrderedDict[str, Kept] = OrderedDict()

    def load(self, keys: Sequence[str]) -> Mapping[str, Kept]:
        """The entries for those keys that have one."""
        found = {key: self._known[key] for key in keys if key in self._known}
        for key in found:
            self._known.move_to_end(key)
        return found

    def save(self, found: Mapping[str, Kept]) -> None:
        """Adds entries and evicts the least recently used ones."""
        self._known.update(found)
        while len(self._known) > self.most:
            self._known.popitem(last=False)


class NotKept(Exception):
    """A finding cannot be cached: it has a location outside its part and the module's declarations, or a fix outside its function."""


def kept(part: Part, findings: Sequence[Diagnostic], index: Index) -> Kept:
    """The findings of a part in the form that is cached. Raises NotKept."""
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
    """Cached findings, relocated to the current position of the part in the file; None if they are not valid there."""
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
        # a fix only changes the function that the finding is in
        by = span.start - one.span.start
        fix = attrs.evolve(fix, edits=tuple([attrs.evolve(edit, start=edit.start + by, end=edit.end + by) for edit in fix.edits]))
    return attrs.evolve(one, span=span, related=related, fix=fix, path=path)


def _texts(one: Diagnostic) -> tuple[str, ...]:
    return one.message, *one.notes, *[other.message for other in one.related]


def _lines(part: Part, index: Index) -> tuple[int, ...]:
    """The lines at which the functions of the part and the declarations beside them start."""
    return tuple([index.line_column(index.starts[i])[0] for i in (*part.children, *part.others)])
