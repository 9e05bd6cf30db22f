"""Text edits that insert or change statements, and the mapping of offsets in the edited text to the original."""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Iterator, Sequence

from ptxkit import fixing
from ptxkit.analyses.framework.routine import Routine
from ptxkit.diagnostics import Edit
from ptxkit.rewriters.repairs.points import Point
from ptxkit.syntax import Index

LINES = 1000
"""Number of characters inspected to determine the line ending."""


def put(index: Index, routine: Routine, point: Point, *statements: str) -> Edit:
    """Inserts statements at a point, each on a line of its own."""
    span = index.span(routine.where(point.instruction))
    margin = _margin(index, span.start)
    end = "\r\n" if index.text.find("\r\n", 0, LINES) >= 0 else "\n"
    if point.after:
        return Edit(span.end, span.end, "".join([f"{end}{margin}{one}" for one in statements]))
    return Edit(span.start, span.start, "".join([f"{one}{end}{margin}" for one in statements]))


def joined(edits: Iterable[Edit]) -> tuple[Edit, ...]:
    """The edits, with insertions at the same point merged in order."""
    found: dict[tuple[int, int], Edit] = {}
    for one in edits:
        key = (one.start, one.end)
        before = found.get(key)
        found[key] = one if before is None or before == one else Edit(*key, before.text + one.text)
    return tuple(found.values())


def parts(steps: Sequence[Sequence[Edit]]) -> Iterator[tuple[Edit, ...]]:
    """The edits without one step (a move or an edit), or without one of the statements that an edit inserts."""
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
    """Replaces an instruction by a statement; an empty one removes it with its line."""
    return fixing.replace(index, routine.where(i), statement) if statement else fixing.remove(index, routine.where(i))


class Shift:
    """Maps offsets of an edited text to the original."""

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
        """The original offset of a character; for an inserted one, the point of insertion."""
        number = bisect.bisect_right(self._starts, offset) - 1
        if number < 0:
            return offset
        end, at, grown = self._moved[number]
        return at if offset < end else offset - grown

    def is_new(self, offset: int) -> bool:
        """Whether a character was inserted."""
        number = bisect.bisect_right(self._starts, offset) - 1
        return number >= 0 and offset < self._moved[number][0]
