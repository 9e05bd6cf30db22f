"""Edits of a text that put statements at a point or change one; and which offset of the text before an offset of the text after is."""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Iterator, Sequence

from ptxkit import fixing
from ptxkit.analyses.framework.routine import Routine
from ptxkit.diagnostics import Edit
from ptxkit.rewriters.repairs.points import Point
from ptxkit.syntax import Index

LINES = 1000
"""So many characters are looked at to see how lines end."""


def put(index: Index, routine: Routine, point: Point, *statements: str) -> Edit:
    """Statements at a point, each on a line of its own."""
    span = index.span(routine.where(point.instruction))
    margin = _margin(index, span.start)
    end = "\r\n" if index.text.find("\r\n", 0, LINES) >= 0 else "\n"
    if point.after:
        return Edit(span.end, span.end, "".join([f"{end}{margin}{one}" for one in statements]))
    return Edit(span.start, span.start, "".join([f"{one}{end}{margin}" for one in statements]))


def joined(edits: Iterable[Edit]) -> tuple[Edit, ...]:
    """The edits with those that put something in at one point as one, in their order."""
    found: dict[tuple[int, int], Edit] = {}
    for one in edits:
        key = (one.start, one.end)
        before = found.get(key)
        found[key] = one if before is None or before == one else Edit(*key, before.text + one.text)
    return tuple(found.values())


def parts(steps: Sequence[Sequence[Edit]]) -> Iterator[tuple[Edit, ...]]:
    """The edits without one step, be it a move or an edit, or without one of the statements that an edit puts in."""
    for n, step in enumerate(steps):
        others = [edit for k, other in enumerate(steps) if k != n for edit in other]
        if others:
            yield joined(others)
        if len(step) > 1:
            continue
        (one,) = step
        lines = one.text.splitlines(keepends=True)
        statements = [k for k, line in enumerate(lines) if line.strip()]
        for k in statements if one.start == one.end and len(statements) > 1 else ():
            yield joined([*others, Edit(one.start, one.end, "".join(lines[:k] + lines[k + 1 :]))])


def _margin(index: Index, at: int) -> str:
    start = index.text.rfind("\n", 0, at) + 1
    line = index.text[start:at]
    return line[: len(line) - len(line.lstrip(" \t"))]


def instead(index: Index, routine: Routine, i: int, statement: str) -> Edit:
    """A statement instead of an instruction; none takes it away, with its line."""
    return fixing.replace(index, routine.where(i), statement) if statement else fixing.remove(index, routine.where(i))


class Shift:
    """Where the characters of a text come from, that came of another by edits."""

    def __init__(self, edits: Iterable[Edit]) -> None:
        self._starts: list[int] = []
        self._moved: list[tuple[int, int, int]] = []
        grown = 0
        for edit in sorted(set(edits), key=lambda one: (one.start, one.end)):
            start = edit.start + grown
            grown += len(edit.text) - (edit.end - edit.start)
            self._starts.append(start)
            self._moved.append((start + len(edit.text), edit.start, grown))

    def old(self, offset: int) -> int:
        """The offset in the text before of a character of the text after; of one that was put in, where that was."""
        number = bisect.bisect_right(self._starts, offset) - 1
        if number < 0:
            return offset
        end, at, grown = self._moved[number]
        return at if offset < end else offset - grown

    def is_new(self, offset: int) -> bool:
        """Whether a character was put in."""
        number = bisect.bisect_right(self._starts, offset) - 1
        return number >= 0 and offset < self._moved[number][0]
