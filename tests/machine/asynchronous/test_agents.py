"""What operations in flight access."""

from __future__ import annotations

import numpy as np

from ptxkit.machine.asynchronous.agents import Footprint, coalesced


def _footprint(*rows: tuple[int, int, int], signal: list[int] | None = None) -> Footprint:
    """Rows of lane, address and size."""
    lane, at, size = np.array(rows, np.int64).T
    return Footprint("write", ".shared", lane, at, size, None if signal is None else np.array(signal))


def _rows(one: Footprint) -> list[tuple[int, int, int]]:
    return list(zip(one.lane.tolist(), one.at.tolist(), one.size.tolist(), strict=True))


def test_bytes_that_follow_one_another_are_one_row_whatever_their_order() -> None:
    assert _rows(coalesced(_footprint((0, 32, 16), (0, 0, 16), (0, 16, 16), (0, 64, 16)))) == [(0, 0, 48), (0, 64, 16)]


def test_bytes_of_other_lanes_and_other_signals_stay_apart() -> None:
    lanes = _footprint((0, 0, 16), (1, 16, 16))
    signals = _footprint((0, 0, 16), (0, 16, 16), (0, 32, 16), signal=[8, 8, 24])

    assert _rows(coalesced(lanes)) == [(0, 0, 16), (1, 16, 16)]
    assert _rows(coalesced(signals)) == [(0, 0, 32), (0, 32, 16)]
    assert coalesced(signals).signal.tolist() == [8, 24]  # type: ignore[union-attr]


def test_bytes_that_are_written_twice_still_overlap() -> None:
    one = coalesced(_footprint((0, 0, 16), (0, 8, 16), (0, 24, 8)))

    assert _rows(one) == [(0, 0, 16), (0, 8, 24)]
