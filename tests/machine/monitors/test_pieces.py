"""Rows that are equal."""

import numpy as np
import pytest

from ptxkit.machine.monitors.pieces import LARGEST, distinct


@pytest.mark.parametrize("largest", [2, 50, LARGEST // 4])
def test_rows_that_are_equal_are_one(largest):
    lot = np.random.default_rng(1)
    columns = [lot.integers(0, 5, 200) * (largest // 5 + 1) for _ in range(3)]
    first, which = distinct(*columns)
    for column in columns:
        assert (column[first][which] == column).all()
    assert len(first) == len(set(zip(*[column.tolist() for column in columns], strict=True)))


def test_no_rows():
    first, which = distinct(np.zeros(0, np.int64), np.zeros(0, np.int64))
    assert not len(first) and not len(which)
