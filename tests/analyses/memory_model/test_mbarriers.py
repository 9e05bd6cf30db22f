"""An mbarrier as a word."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ptxkit.analyses.memory_model.mbarriers import (
    arrived,
    awaiting,
    completed,
    dropped,
    expecting,
    is_over,
    is_over_by_parity,
    made,
    operand,
    pending_count,
)


def test_the_last_arrival_completes_a_phase() -> None:
    first = made(2)
    second = arrived(first, operand(1, 0))
    assert pending_count(second) == 1
    assert not is_over(second, first)
    third = arrived(second, operand(1, 0))
    assert is_over(third, first)
    assert is_over_by_parity(third, 0)
    assert not is_over_by_parity(third, 1)
    assert pending_count(third) == 2


def test_a_phase_waits_for_its_bytes() -> None:
    word = arrived(made(1), operand(1, 32))
    assert not is_over_by_parity(word, 0)
    word = completed(word, 16)
    assert not is_over_by_parity(word, 0)
    assert is_over_by_parity(completed(word, 16), 0)


def test_bytes_may_come_before_they_are_expected() -> None:
    word = completed(made(1), 16)
    assert not is_over_by_parity(word, 0)
    assert is_over_by_parity(arrived(word, operand(1, 16)), 0)
    assert not is_over_by_parity(expecting(word, 16), 0)


def test_a_drop_counts_for_later_phases() -> None:
    word = arrived(dropped(made(2), operand(1, 0)), operand(1, 0))
    assert is_over_by_parity(word, 0)
    assert pending_count(word) == 1


def test_one_more_arrival_is_pending_in_this_phase_only() -> None:
    word = awaiting(made(1), 1)
    assert pending_count(word) == 2
    word = arrived(arrived(word, operand(1, 0)), operand(1, 0))
    assert is_over_by_parity(word, 0)
    assert pending_count(word) == 1


@given(st.integers(1, 1000), st.lists(st.integers(1, 4096), max_size=6), st.randoms(use_true_random=False))
def test_the_order_of_what_a_phase_waits_for_does_not_matter(count: int, copies: list[int], random: object) -> None:
    steps = [(arrived, operand(1, 0))] * (count - 1) + [(arrived, operand(1, sum(copies)))] + [(completed, one) for one in copies]
    random.shuffle(steps)  # type: ignore[attr-defined]
    word = made(count)
    for i, (step, value) in enumerate(steps):
        assert not is_over_by_parity(word, 0), i
        word = step(word, value)
    assert word == made(count) | 1 << 63
