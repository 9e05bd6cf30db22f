from __future__ import annotations

from itertools import groupby

import numpy as np
import pytest

from ptxkit.machine.monitors.pieces import distinct, expanded, matching, runs


@pytest.mark.parametrize("span", [40, 1 << 40])
def test_pieces_are_matched_with_equal_ones(span: int) -> None:
    lot = np.random.default_rng(1)
    piece, other = lot.integers(0, span, 60), lot.integers(-5, span + 5, 80)
    other[:10] = piece[:10]
    order, low, high = matching(piece, other)
    found = [sorted(order[start:end].tolist()) for start, end in zip(low.tolist(), high.tolist(), strict=True)]
    assert found == [np.flatnonzero(piece == one).tolist() for one in other.tolist()]


@pytest.mark.parametrize("sizes", [[4], [8], [1, 4, 16]])
@pytest.mark.parametrize("grain", [1, 4])
def test_the_pieces_of_bytes(sizes: list[int], grain: int) -> None:
    lot = np.random.default_rng(2)
    size = lot.choice(sizes, 50)
    at = 64 + lot.integers(0, 100, 50) * size
    piece, row = expanded(at, size, 64, grain)
    expected = [(n, one) for n in range(50) for one in range((at[n] - 64) // grain, (at[n] + size[n] - 1 - 64) // grain + 1)]
    assert list(zip(row.tolist(), piece.tolist(), strict=True)) == expected


@pytest.mark.parametrize("span", [1, 4, 1 << 30])
def test_rows_that_differ(span: int) -> None:
    lot = np.random.default_rng(3)
    columns = lot.integers(0, span, 60), 7 + lot.integers(0, 3, 60), lot.integers(0, span, 60)
    first, which = distinct(*columns)
    rows = list(zip(*[column.tolist() for column in columns], strict=True))
    assert [rows[n] for n in first] == sorted(set(rows))
    assert first.tolist() == [rows.index(row) for row in sorted(set(rows))]
    assert [rows[first[n]] for n in which] == rows


def test_no_rows_differ_in_nothing() -> None:
    first, which = distinct(np.zeros(0, np.int64), np.zeros(0, np.int64))
    assert len(first) == len(which) == 0


@pytest.mark.parametrize("count", [0, 1, 50])
def test_runs_of_equal_rows(count: int) -> None:
    lot = np.random.default_rng(4)
    columns = np.sort(lot.integers(0, 4, count)), lot.integers(0, 2, count)
    first, length = runs(*columns)
    expected = [(key, len(list(rows))) for key, rows in groupby(zip(*[column.tolist() for column in columns], strict=True))]
    assert [((columns[0][n], columns[1][n]), many) for n, many in zip(first.tolist(), length.tolist(), strict=True)] == expected
