"""Sets of threads by degree of certainty."""

from __future__ import annotations

import itertools

import pytest

from ptxkit.analyses.threads.thread_sets import Execution, Runs, all_but, all_same, first_of, just


def test_all_do_the_same() -> None:
    for runs in Runs:
        assert list(all_same(runs, 3)) == [runs] * 3


def test_some_of_them() -> None:
    assert list(just(0b0110, 4)) == [Runs.NEVER, Runs.ALWAYS, Runs.ALWAYS, Runs.NEVER]
    assert list(all_but(0b0110, 4)) == [Runs.ALWAYS, Runs.NEVER, Runs.NEVER, Runs.ALWAYS]
    assert just(0b0110, 4).never == all_but(0b0110, 4).sure == 0b1001


def test_and_is_the_lesser_or_the_greater() -> None:
    for a, b in itertools.product(Runs, Runs):
        assert list(all_same(a, 2) & all_same(b, 2)) == [min(a, b)] * 2
        assert list(all_same(a, 2) | all_same(b, 2)) == [max(a, b)] * 2


def test_thread_by_thread() -> None:
    # thread 0 always, thread 1 for some parameters, thread 2 perhaps, thread 3 never
    mixed = Execution(4, may=0b0111, some=0b0011, sure=0b0001)

    assert list(mixed) == [Runs.ALWAYS, Runs.MAYBE, Runs.UNKNOWN, Runs.NEVER]
    assert mixed.most is Runs.ALWAYS
    assert (mixed & all_but(0b0001, 4)).most is Runs.MAYBE
    assert len(mixed) == 4
    with pytest.raises(IndexError):
        mixed[4]


@pytest.mark.parametrize(("threads", "first"), [(0b1, 0), (0b1100, 2), (1 << 1023, 1023)])
def test_the_first(threads: int, first: int) -> None:
    assert first_of(threads) == first
