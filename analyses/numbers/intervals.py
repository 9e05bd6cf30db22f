"""Intervals of integers of any size and sign."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class Interval(NamedTuple):
    """From `low` to `high`, inclusive."""

    low: int
    high: int

    def plus(self, other: Interval) -> Interval:
        """The range of a sum of two numbers."""
        return Interval(self.low + other.low, self.high + other.high)

    def shifted(self, by: int) -> Interval:
        """The interval, shifted."""
        return Interval(self.low + by, self.high + by)

    def times(self, factor: int) -> Interval:
        """The interval multiplied by a factor, which may be negative."""
        return Interval(self.low * factor, self.high * factor) if factor >= 0 else Interval(self.high * factor, self.low * factor)

    @property
    def length(self) -> int:
        """The difference between the ends."""
        return self.high - self.low

    def has(self, number: int) -> bool:
        return self.low <= number <= self.high

    def fits(self, width: int) -> bool:
        """Whether all numbers are unsigned with this many bits."""
        return self.low >= 0 and self.high < 1 << width


def just(number: int) -> Interval:
    """The interval of a single number."""
    return Interval(number, number)


def hull(numbers: Iterable[int]) -> Interval:
    """The smallest interval that contains some numbers. Raises ValueError if there are none."""
    found = tuple(numbers)
    return Interval(min(found), max(found))


def union(intervals: Iterable[Interval]) -> Interval:
    """The smallest interval that contains some intervals. Raises ValueError if there are none."""
    return hull([end for interval in intervals for end in interval])
