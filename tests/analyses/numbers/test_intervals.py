"""Intervals of whole numbers."""

from __future__ import annotations

import pytest

from ptxkit.analyses.numbers.intervals import Interval, hull, just, union


def test_hull_and_union() -> None:
    assert just(-3) == Interval(-3, -3)
    assert hull([5, -2, 4]) == Interval(-2, 5)
    assert union([Interval(0, 3), Interval(10, 12)]) == Interval(0, 12)
    for of_nothing in (hull, union):
        with pytest.raises(ValueError, match="empty"):
            of_nothing([])


def test_arithmetic() -> None:
    assert Interval(1, 3).plus(Interval(-5, 10)) == Interval(-4, 13)
    assert Interval(1, 3).times(-2) == Interval(-6, -2)
    assert Interval(1, 3).shifted(4) == Interval(5, 7)
    assert Interval(1, 3).length == 2


def test_members_and_widths() -> None:
    assert [Interval(1, 3).has(number) for number in range(5)] == [False, True, True, True, False]
    assert [one.fits(8) for one in (Interval(0, 255), Interval(0, 256), Interval(-1, 5))] == [True, False, False]
