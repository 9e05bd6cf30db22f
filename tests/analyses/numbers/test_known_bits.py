"""Known bits and intervals of numbers of 8 bits, worked out by hand. That they hold of every operator is tested in test_values."""

from __future__ import annotations

import pytest

from ptxkit.analyses.numbers.known_bits import Known, between, bits, constant, join, low_known, result, signed_bounds, top, unsigned_bounds


class TestBetween:
    def test_the_upper_bits_that_both_ends_share_are_known(self) -> None:
        # 8 = 0b1000 and 11 = 0b1011
        assert between(8, 11, 8) == Known(zeros=0b11110100, ones=0b1000, low=8, span=3)

    def test_ends_that_share_no_bit_leave_all_open(self) -> None:
        assert between(127, 128, 8) == Known(0, 0, 127, 1)

    def test_through_zero(self) -> None:
        assert between(-4, 3, 8) == Known(0, 0, 252, 7)

    def test_one_number(self) -> None:
        assert between(-1, -1, 8) == constant(255, 8) == Known(0, 255, 255, 0)

    def test_all_numbers(self) -> None:
        assert between(0, 255, 8) == between(-128, 127, 8) == top(8) == Known(0, 0, 0, 255)


class TestBits:
    def test_bits_bound_the_number(self) -> None:
        # 0b1??0: 8, 10, 12 or 14
        assert bits(0b11110001, 0b1000, 8) == Known(0b11110001, 0b1000, 8, 6)

    def test_low_bits_that_are_known(self) -> None:
        assert low_known(bits(0b001, 0b010, 8), 8) == 2
        assert low_known(bits(0b110, 0, 8), 8) == 0
        assert low_known(constant(77, 8), 8) == 8


@pytest.mark.parametrize(
    ("known", "unsigned", "signed"),
    [
        (constant(200, 8), (200, 200), (-56, -56)),
        (between(100, 120, 8), (100, 120), (100, 120)),
        # through 128, where signed numbers jump, and through 0, where unsigned ones do
        (between(100, 200, 8), (100, 200), (-128, 127)),
        (between(-4, 3, 8), (0, 255), (-4, 3)),
        (top(8), (0, 255), (-128, 127)),
    ],
)
def test_bounds(known: Known, unsigned: tuple[int, int], signed: tuple[int, int]) -> None:
    assert unsigned_bounds(known, 8) == unsigned
    assert signed_bounds(known, 8) == signed


class TestJoin:
    def test_the_shorter_arc_of_the_circle(self) -> None:
        # from 250 over 0 to 5, not from 5 to 250
        assert join([constant(5, 8), constant(250, 8)], 8) == Known(0, 0, 250, 11)

    def test_bits_in_which_both_are_equal(self) -> None:
        # 4 = 0b0100 and 12 = 0b1100
        assert join([constant(4, 8), constant(12, 8)], 8) == Known(0b11110011, 0b0100, 4, 8)


def test_an_operator_that_is_not_listed_says_nothing() -> None:
    assert result("brev", 8, [constant(1, 8)], [8]) == top(8)
