"""Delta debugging: applies as many edits as a test allows (Zeller and Hildebrandt 2002, the complement-testing part)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

T = TypeVar("T")

First = Callable[[Iterator[Sequence[T]]], "tuple[int, Sequence[T]] | None"]
"""Returns the index of the first passing candidate, and the candidate; or None. Candidates may be tested in any order."""


def rest(elements: Sequence[T], first: First[T]) -> Sequence[T]:
    """The elements that must stay so that the others may be removed; no single one of them can be removed as well.

    All are tried at once, then halves, quarters and so on, starting with the last: later code uses earlier code.
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
    """The elements without each chunk of this size in succession; the first chunk ends at `end`."""
    while end > 0:
        start = max(end - size, 0)
        yield [*elements[:start], *elements[end:]]
        end = start
