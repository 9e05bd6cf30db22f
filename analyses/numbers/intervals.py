"""Intervals of whole numbers, of any size and sign: the least and the greatest that something may be."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class Interval(NamedTuple):
    """From `low` to `high`, both included."""

    low: int
    high: int

    def plus(self, other: Interval) -> Interval:
        """Of the sum of two numbers."""
        return Interval(self.low + other.low, self.high + other.high)

    def shifted(self, by: int) -> Interval:
        """Of a number that is so much greater."""
        return Interval(self.low + by, self.high + by)

    def times(self, factor: int) -> Interval:
        """Of a multiple; the factor may be negative."""
        return Interval(self.low * factor, self.high * factor) if factor >= 0 else Interval(self.high * factor, self.low * factor)

    @property
    def length(self) -> int:
        """How far the ends are apart."""
        return self.high - self.low

    def has(self, number: int) -> bool:
        return self.low <= number <= self.high

    def fits(self, width: int) -> bool:
        """Whether all are unsigned numbers of so many bits."""
        return self.low >= 0 and self.high < 1 << width


def just(number: int) -> Interval:
    """One number."""
    return Interval(number, number)


def hull(numbers: Iterable[int]) -> Interval:
    """The least interval that holds some numbers. Raises ValueError if there are none."""
    found = tuple(numbers)
    return Interval(min(found), max(found))


def union(intervals: Iterable[Interval]) -> Interval:
    """The least interval that holds some intervals. Raises ValueError if there are none."""
    return hull([end for interval in intervals for end in interval])
