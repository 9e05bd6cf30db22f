"""Aligning sequences: pairs rise, are equal, and are as many as can be where that is promised."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from ptxkit.analyses.comparison import alignment
from ptxkit.analyses.comparison.alignment import align

SEQUENCES = st.lists(st.integers(0, 4), max_size=14)


def longest(a: list[int], b: list[int]) -> int:
    """The length of a longest common subsequence, by the table."""
    table = [[0] * (len(b) + 1) for _ in range(len(a) + 1)]
    for i, one in enumerate(a):
        for j, other in enumerate(b):
            table[i + 1][j + 1] = table[i][j] + 1 if one == other else max(table[i][j + 1], table[i + 1][j])
    return table[-1][-1]


@given(SEQUENCES, SEQUENCES)
def test_pairs_are_equal_and_rise(a: list[int], b: list[int]) -> None:
    pairs = align(a, b)

    assert all(a[i] == b[j] for i, j in pairs)
    assert all(one[0] < other[0] and one[1] < other[1] for one, other in itertools.pairwise(pairs))


@given(SEQUENCES, SEQUENCES)
def test_between_anchors_nothing_is_missed(a: list[int], b: list[int]) -> None:
    found = alignment._myers(a, b)

    assert found is not None
    assert len(found) == longest(a, b)


@given(st.lists(st.integers(), unique=True, max_size=20), st.data())
def test_one_deletion_is_one_deletion(a: list[int], data: st.DataObject) -> None:
    at = data.draw(st.integers(0, max(len(a) - 1, 0)))
    b = a[:at] + a[at + 1 :]

    assert len(align(a, b)) == len(b)


def test_much_that_differs_takes_no_square_time() -> None:
    compared = 0

    class Counted(int):
        def __eq__(self, other: object) -> bool:
            nonlocal compared
            compared += 1
            return int(self) == other

        __hash__ = int.__hash__

    count = 20_000
    pairs = align([Counted(i % 7) for i in range(count)], [Counted(i % 5) for i in range(count)])

    assert pairs and all(i % 7 == j % 5 for i, j in pairs)
    assert compared < 40 * count
