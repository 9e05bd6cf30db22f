"""Synthesized contents and numbers."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("numpy")

from ptxkit.analyses.execution.contents import COUNT, REALS, RISING, SHUFFLED, Numbers


@pytest.mark.parametrize("size", [0, 4, 36, 4096])
def test_shuffled_words_all_differ_and_stay_near(size: int) -> None:
    words, count = SHUFFLED.data(size, 3).view(np.uint32), COUNT.data(size, 3).view(np.uint32)

    assert len(words) == len(count) == size // 4
    assert len(set(words.tolist())) == len(words)
    assert (abs(words.astype(int) - count.astype(int)) < 8).all()
    assert size < 64 or (words != count).any()


def test_rising_words_are_apart() -> None:
    words = RISING.data(4096, 3).view(np.uint32).astype(int)

    assert (np.diff(words) >= 0).all()
    assert 400 < np.diff(words).mean() < 600


def test_real_numbers_of_neighbouring_warps_differ_in_magnitude() -> None:
    large, small = abs(REALS.data(256, 3).view(np.float32)).reshape(2, 32).max(axis=1)

    assert large > 50 * small


def test_simpler_numbers_leave_out_one_value_each() -> None:
    numbers = Numbers(64).having({(0, 0, 4): 5, (1, 0, 4): 7})

    assert [one.chosen for one in numbers.simpler()] == [(((1, 0, 4), 7),), (((0, 0, 4), 5),)]
    assert list(Numbers(64).simpler()) == []
