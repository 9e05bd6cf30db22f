"""Sets of small numbers as bits."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ptxkit.analyses.numbers.bits import bits, mask_of


def test_the_empty_set() -> None:
    assert mask_of([]) == 0
    assert list(bits(0)) == []


def test_numbers_ascend_and_stand_once() -> None:
    assert mask_of([5, 0, 5, 3]) == 0b101001
    assert list(bits(0b101001)) == [0, 3, 5]


@given(st.frozensets(st.integers(0, 300)))
def test_there_and_back(numbers: frozenset[int]) -> None:
    assert tuple(bits(mask_of(numbers))) == tuple(sorted(numbers))
