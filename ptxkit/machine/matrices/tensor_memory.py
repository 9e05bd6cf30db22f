"""Tensor memory: 128 lanes of 512 32-bit cells for each CTA, its allocation, and the layout of matrices in it (ISA 9.1: 9.7.16.1 ff.).

An address has the lane in its upper half and the column in its lower half.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Index = np.ndarray[Any, np.dtype[np.intp]]

LANES, COLUMNS = 128, 512
LANE_BITS = 16
"""The lowest bit of the lane in an address."""

CELL = 4
"""Size of a cell in bytes."""
SPACE = ".tensor"
"""Its name for monitors."""

UNDEFINED = 0xFFFF_FFFF
"""Initial contents of cells: NaN as a float of any width."""


class TensorMemory:
    """The tensor memory of a CTA."""

    def __init__(self) -> None:
        self.cells = np.full((LANES, COLUMNS), UNDEFINED, np.uint32)
        self.taken: dict[int, int] = {}
        """The number of columns of each allocation, by its first column."""
        self.permit = True
        self.has_allocated = False

    def room(self, columns: int) -> int:
        """The first of this many free columns, or -1 if there are none."""
        free = np.ones(COLUMNS, bool)
        for first, count in self.taken.items():
            free[first : first + count] = False
        starts = [at for at in range(0, COLUMNS - columns + 1, columns) if free[at : at + columns].all()]
        return starts[0] if starts else -1

    def allocated(self, first: int, last: int) -> bool:
        """Whether all columns from the first to the last are allocated."""
        columns = np.zeros(max(COLUMNS, last + 1), bool)
        for start, count in self.taken.items():
            columns[start : start + count] = True
        return bool(columns[first : last + 1].all())


def offsets(cta: int, rows: Array, columns: Array) -> Array:
    """The positions of cells in bytes, if the tensor memories of the resident CTAs are concatenated."""
    found: Array = ((cta * LANES + rows) * COLUMNS + columns).astype(np.int64) * CELL
    return found


def split(address: int) -> tuple[int, int]:
    """Lane and column."""
    return address >> LANE_BITS & 0xFFFF, address & 0xFFFF


@cache
def cells_of_lanes(shape: str, registers: int, packed: bool, offset: int = 0) -> tuple[Index, Index]:
    """For each lane of a warp and each register of `tcgen05.ld` and `.st`, the lane and column relative to the address.

    A packed register covers this column and the next, half of each. `offset` is that of the second half of `.16x32bx2`.
    """
    lane, register = np.arange(32)[:, None], np.arange(registers)[None, :]
    width = 2 if packed else 1
    if shape == ".32x32b":
        row, column = lane, register
    elif shape == ".16x32bx2":
        row, column = lane % 16, register
    elif shape == ".16x64b":
        row, column = lane // 4 + 8 * (lane % 2), lane // 2 % 2 + 2 * register
    elif shape == ".16x128b":
        row, column = lane // 4 + 8 * (register % 2), lane % 4 + 4 * (register // 2)
    else:
        row, column = lane // 4 + 8 * (register // 2 % 2), register % 2 + 2 * (lane % 4) + 8 * (register // 4)
    column = column * width
    if shape == ".16x32bx2":
        column = column + lane // 16 * offset
    rows, columns = np.broadcast_arrays(row, column)
    return rows, columns


@cache
def accumulator(rows: int, columns: int, stationary: bool, pair: bool, sparse: bool) -> tuple[Index, Index]:
    """Lane and column of each element of D (rows, columns) in a CTA; `rows` are those of this CTA (layouts A to G of the manual).

    With fewer rows than lanes, 64 rows use half of the lanes of each warp, or groups of columns are stacked.
    """
    row, column = np.arange(rows)[:, None], np.arange(columns)[None, :]
    folded = stationary or (pair and not sparse)
    if rows == LANES:
        lane, place = row, column
    elif folded:
        parts = LANES // rows
        lane, place = row + rows * (column // (columns // parts)), column % (columns // parts)
    else:
        lane, place = row % 16 + 32 * (row // 16), column
    lanes, places = np.broadcast_arrays(lane, place)
    return lanes, places


@cache
def rows_of(rows: int, folded: bool) -> Index:
    """The lanes of the rows of A in tensor memory."""
    row = np.arange(rows)
    return row if rows == LANES or folded else row % 16 + 32 * (row // 16)


def metadata(cells: Array, lane: int, column: int, rows: int, words: int, folded: bool) -> Array:
    """The indices of a sparse A, 16 bits each: (1, rows, 2 words), from this many columns.

    Sixteen rows use sixteen lanes: the first eight hold the indices of the first half of a word's chunks, the others those of the second
    half; rows `r` are in the lower half of a cell, rows `r + 8` in the upper half.
    """
    group, inside = np.arange(rows) // 16, np.arange(rows) % 16
    base = group * (16 if rows == LANES or folded else 32)
    found = []
    for word in range(words):
        for half in range(2):
            cell = cells[lane + base + 8 * half + inside % 8, column + word]
            found.append(np.where(inside < 8, cell & 0xFFFF, cell >> 16))
    return np.stack(found, -1)[None].astype(np.uint32)


def scales(cells: Array, column: int, byte: int, rows: int, count: int) -> Array:
    """The codes of block scales (rows, count): row r is in lane r mod 32, column r / 32, from this byte on."""
    row = np.arange(rows)
    word = cells[row % 32, column + row // 32]
    return (word[:, None] >> (8 * (byte + np.arange(count, dtype=np.uint32)))).astype(np.uint8)


def moved_down(matrix: Array) -> Array:
    """The rows moved down by one: the last row is dropped, and the first one is duplicated."""
    result = matrix.copy()
    result[1:] = matrix[:-1]
    return result
