from __future__ import annotations

import numpy as np
import pytest

from ptxkit.machine.monitors.pieces import matching


@pytest.mark.parametrize("span", [40, 1 << 40])
def test_pieces_are_matched_with_equal_ones(span: int) -> None:
    lot = np.random.default_rng(1)
    piece, other = lot.integers(0, span, 60), lot.integers(-5, span + 5, 80)
    other[:10] = piece[:10]
    order, low, high = matching(piece, other)
    found = [sorted(order[start:end].tolist()) for start, end in zip(low.tolist(), high.tolist(), strict=True)]
    assert found == [np.flatnonzero(piece == one).tolist() for one in other.tolist()]
