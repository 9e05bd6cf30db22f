"""The numbers of an array, each once."""

from __future__ import annotations

import numpy as np
import pytest

from ptxkit.machine.values.distinct import are_among, distinct_numbers


@pytest.mark.parametrize("given", [[], [3], [3, 1, 3, 2, 1], [[1, 0], [0, 1]], [True, False, True], [-1, 2**62, -1]])
def test_each_number_is_there_once_and_in_order(given: list[int]) -> None:
    assert distinct_numbers(np.array(given)).tolist() == np.unique(np.array(given)).tolist()


def test_a_number_that_is_repeated_in_no_memory() -> None:
    assert distinct_numbers(np.broadcast_to(np.int64(7), 1000)).tolist() == [7]
    assert distinct_numbers(np.int64(7)).tolist() == [7]
    assert distinct_numbers(np.broadcast_to(np.int64(7), 0)).tolist() == []


@pytest.mark.parametrize(("values", "others"), [([3, 1, 3, 0], [3, 7]), ([], [1]), ([1], []), ([1 << 40, 2], [2, 1 << 40]), ([5], [4])])
def test_which_numbers_are_among_others(values: list[int], others: list[int]) -> None:
    given = np.array(values, np.int64), np.array(others, np.int64)
    assert are_among(*given).tolist() == np.isin(*given).tolist()
