"""Edits of a text that put statements at a place, change one, move one or take it away; and how offsets of the text after them are those of the text before."""

from __future__ import annotations

import bisect
from collections.abc import Iterable

from ptxkit import fixing
from ptxkit.analyses.framework.routine import Routine
from ptxkit.diagnostics import Edit
from ptxkit.rewriters.repairs.places import Place
from ptxkit.syntax import Index


def put(index: Index, routine: Routine, place: Place, statement: str) -> Edit:
    """A statement at a place, on a line of its own."""
    span = index.span(routine.where(place.instruction))
    if place.after:
        return fixing.insert_after(index, routine.where(place.instruction), statement)
    return Edit(span.start, span.start, f"{statement}\n{_margin(index, span.start)}")


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
