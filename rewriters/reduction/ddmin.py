"""Delta debugging: as many of some edits as a test lets pass (Zeller and Hildebrandt 2002, the part that tests complements)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

T = TypeVar("T")

First = Callable[[Iterator[Sequence[T]]], "tuple[int, Sequence[T]] | None"]
"""Gives the number of the first of some candidates that passes, and it; or None. It need not look at them in order."""


def rest(elements: Sequence[T], first: First[T]) -> Sequence[T]:
    """What must stay of the elements, so that the rest may go: none of it alone may go besides.

    All are tried at once, then halves, quarters and so on, from the last on: what comes late uses what comes early.
    """
    size = len(elements)
    while elements and size:
        before = len(elements)
        end = len(elements)
        while end > 0:
            found = first(_without(elements, end, size))
            if found is None:
                break
            number, elements = found
            end = min(end - (number + 1) * size, len(elements))
        if size == 1 and len(elements) == before:
            break
        size = min(max(size // 2, 1), len(elements))
    return elements


def _without(elements: Sequence[T], end: int, size: int) -> Iterator[Sequence[T]]:
    """The elements without each stretch of this size one after the other, the first of which ends at `end`."""
    while end > 0:
        start = max(end - size, 0)
        yield [*elements[:start], *elements[end:]]
        end = start
