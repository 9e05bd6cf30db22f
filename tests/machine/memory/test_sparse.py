"""Zeros of small pages."""

import numpy as np
import pytest

from ptxkit.machine.memory.sparse import LARGE, zeros


@pytest.mark.parametrize("count", [0, 10, LARGE // 8, LARGE])
def test_zeros_can_be_written(count):
    found = zeros(count, np.int64)
    assert found.dtype == np.int64 and len(found) == count and not found[:100].any() and not found[-100:].any()
    found[-1:] = 3
    assert found.sum() == (3 if count else 0)
