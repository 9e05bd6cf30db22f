"""Operations on byte ranges, given as columns of address and size: division into pieces, and overlaps."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
LARGEST = 1 << 62
DENSE = 4
"""Pieces are counted in a table if their average distance is below this."""
SPAN = 32
"""Keys are ranked in a table if their average distance is below this."""


def expanded(at: Array, size: Array, origin: int, grain: int) -> tuple[Array, Array]:
    """The pieces of byte ranges, and the row of each. `grain` is a power of two."""
    shift = grain.bit_length() - 1
    start = at - origin
    first = start >> shift
    each, odd = int(size.max(initial=1)), int(np.bitwise_or.reduce(start)) & (grain - 1)
    if odd + each <= grain or (not odd and each == size.min()):
        # the common case: addresses are multiples of the access size
        rows, most = np.arange(len(at)), -(-each // grain)
        return (first, rows) if most == 1 else ((first[:, None] + np.arange(most)).ravel(), np.repeat(rows, most))
    counts = ((start + (size - 1)) >> shift) - first + 1
    row = np.repeat(np.arange(len(at)), counts)
    return first[row] + np.arange(len(row)) - np.repeat(np.cumsum(counts) - counts, counts), row


def overlaps(at: Array, size: Any, other: Array, other_size: Array) -> tuple[Array, Array]:
    """The pairs of rows of two lists that overlap."""
    order = np.argsort(other, kind="stable")
    starts = other[order]
    low = np.searchsorted(starts, at - int(other_size.max(initial=1)), "right")
    counts = np.maximum(np.searchsorted(starts, at + size, "left") - low, 0)
    which = np.repeat(np.arange(len(at)), counts)
    found = order[low[which] + np.arange(len(which)) - np.repeat(np.cumsum(counts) - counts, counts)]
    exact = np.flatnonzero(other[found] + other_size[found] > at[which])
    return which[exact], found[exact]


def matching(piece: Array, other: Array) -> tuple[Array, Array, Array]:
    """A sort order of pieces, and for each of the `other` pieces the range of equal pieces in that order."""
    order = np.argsort(piece, kind="stable")
    least = int(piece.min(initial=LARGEST))
    span = int(piece.max(initial=0)) - least + 1
    if not len(piece) or span > DENSE * (len(piece) + len(other)):
        arranged = piece[order]
        return order, np.searchsorted(arranged, other, "left"), np.searchsorted(arranged, other, "right")
    ends = np.cumsum(np.bincount(piece - least, minlength=span))
    starts = np.concatenate([[0], ends, ends[-1:]])
    # values below or above all pieces map to the ends, where there are none
    at = np.clip(other - least, -1, span)
    return order, starts[np.maximum(at, 0)], starts[at + 1]


def runs(*columns: Array) -> tuple[Array, Array]:
    """The first row of each run of rows that are equal in all columns, and the length of each run."""
    count = len(columns[0])
    begins = np.ones(count, bool)
    np.not_equal(columns[0][1:], columns[0][:-1], out=begins[1:])
    for column in columns[1:]:
        begins[1:] |= column[1:] != column[:-1]
    first = np.flatnonzero(begins)
    return first, np.diff(first, append=count)


def distinct(*columns: Array) -> tuple[Array, Array]:
    """One representative for each set of rows that are equal in all columns (of small integers), and the representative of each row."""
    count = len(columns[0])
    key, span = np.zeros(count, np.int64), 1
    for column in columns:
        least = int(column.min(initial=LARGEST))
        width = int(column.max(initial=least)) - least + 1
        if width == 1:
            continue
        if span > SPAN * (count + 1):
            present, _, key = _ranked(key, span)
            span = len(present)
        key = key * width + (column - least)
        span *= width
    if span == 1:
        return np.arange(min(1, count)), key
    _, first, which = _ranked(key, span)
    return first, which


def _ranked(key: Array, span: int) -> tuple[Array, Array, Array]:
    """The keys that occur, all below `span`, in order; the first position of each; and the rank of each row's key."""
    if span > SPAN * (len(key) + 1):
        return np.unique(key, return_index=True, return_inverse=True)
    at = np.full(span, -1)
    at[key[::-1]] = np.arange(len(key) - 1, -1, -1)
    present = np.flatnonzero(at >= 0)
    first = at[present]
    at[present] = np.arange(len(present))
    return present, first, at[key]
