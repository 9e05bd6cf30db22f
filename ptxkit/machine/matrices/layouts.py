"""Layouts of fragments: for each lane and element, the row and column in the matrix.

ISA 9.7.15.4, 9.7.15.5, 9.7.16.5.1.1.

All shapes except `m8n8k4` follow one pattern. A warp has eight groups of four lanes; a register holds `32 / bits` adjacent elements (one,
if they are wider); a group holds one row of A or C and one column of B; further registers hold the rows eight below, then the elements that
follow along K.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from ptxkit.frozen import frozen
from ptxkit.machine.matrices.elements import BITS

Index = np.ndarray[Any, np.dtype[np.intp]]


@frozen(eq=False)
class Layout:
    """A matrix of `shape` (rows, columns) over the lanes of a warp or warpgroup; `rows` and `columns` are (lanes, elements)."""

    shape: tuple[int, int]
    rows: Index
    columns: Index

    @property
    def source(self) -> Index:
        """For each matrix element in row-major order, `lane * elements + element` of a lane that holds it."""
        return _source(self)

    @property
    def target(self) -> Index:
        """For each `lane * elements + element`, its row-major index in the matrix."""
        return _target(self)


def _layout(shape: tuple[int, int], rows: Index, columns: Index) -> Layout:
    return Layout(shape, *np.broadcast_arrays(rows, columns))


@cache
def _source(layout: Layout) -> Index:
    places = np.full(layout.shape[0] * layout.shape[1], -1, np.intp)
    flat = _target(layout)
    places[flat[::-1]] = np.arange(flat.size, dtype=np.intp)[::-1]
    return places


@cache
def _target(layout: Layout) -> Index:
    return (layout.rows * layout.shape[1] + layout.columns).reshape(-1)


def _lanes(count: int, elements: int) -> tuple[Index, Index, Index, Index]:
    """Warp, group and lane within the group as (count, 1) arrays, and the elements as (1, elements)."""
    lane = np.arange(count, dtype=np.intp)[:, None]
    return lane // 32, lane % 32 // 4, lane % 4, np.arange(elements, dtype=np.intp)[None, :]


def _per_register(bits: int) -> int:
    return max(1, 32 // bits)


@cache
def multiplicand_a(m: int, k: int, bits: int) -> Layout:
    """A of an MMA with `m` rows (8 or 16 for a warp, 64 for a warpgroup) and `k` columns of elements of `bits` bits."""
    lanes = 32 * max(1, m // 16)
    warp, group, within, i = _lanes(lanes, m * k // lanes)
    packed = _per_register(bits)
    register, element = i // packed, i % packed
    high = 0 if m == 8 else register % 2
    step = register if m == 8 else register // 2
    return _layout((m, k), warp * 16 + group + 8 * high, within * packed + element + 4 * packed * step)


@cache
def multiplicand_b(k: int, n: int, bits: int) -> Layout:
    """B of an MMA of a warp, eight columns wide."""
    _, group, within, i = _lanes(32, k * n // 32)
    packed = _per_register(bits)
    return _layout((k, n), within * packed + i % packed + 4 * packed * (i // packed), group)


@cache
def accumulator(m: int, n: int) -> Layout:
    """C and D: pairs of columns, then the row eight below, then the next eight columns."""
    lanes = 32 * max(1, m // 16)
    warp, group, within, i = _lanes(lanes, m * n // lanes)
    if m == 8:
        return _layout((m, n), group, 2 * within + i % 2 + 8 * (i // 2))
    return _layout((m, n), warp * 16 + group + 8 * (i // 2 % 2), 2 * within + i % 2 + 8 * (i // 4))


# m8n8k4: four products by quarters of a warp, lanes 4q .. 4q+3 and the 16 that follow. They are stacked: rows 8q .. 8q+7 belong to quarter
# q.


@cache
def quarter_a(by_rows: bool, elements: int = 4) -> Layout:
    """A of the four products of `m8n8k4`, as a matrix of 32 rows (ISA 9.7.15.4.1)."""
    lane, i, quarter, high = _quarters(elements)
    if by_rows:
        return _layout((32, 4), 8 * quarter + lane % 4 + high, i)
    return _layout((32, 4), 8 * quarter + i % 4 + high, lane % 4)


@cache
def quarter_b(by_rows: bool, elements: int = 4) -> Layout:
    """B of the four products, transposed: rows 8q .. 8q+7 are the columns of quarter q."""
    lane, i, quarter, high = _quarters(elements)
    if by_rows:
        return _layout((32, 4), 8 * quarter + i + high, lane % 4)
    return _layout((32, 4), 8 * quarter + lane % 4 + high, i)


@cache
def quarter_c(bits: int) -> Layout:
    """C and D of the four products: `.f16` by rows, `.f32` in a pattern of its own."""
    lane, i, quarter, high = _quarters(8)
    if bits == 16:
        return _layout((32, 8), 8 * quarter + lane % 4 + high, i)
    return _layout((32, 8), 8 * quarter + lane % 2 + i // 2 % 2 * 2 + high, i // 4 * 4 + lane // 2 % 2 * 2 + i % 2)


def _quarters(elements: int) -> tuple[Index, Index, Index, Index]:
    lane = np.arange(32, dtype=np.intp)[:, None]
    return lane, np.arange(elements, dtype=np.intp)[None, :], lane % 16 // 4, lane // 16 * 4


# matrices that are moved, not multiplied


@cache
def moved(rows: int, columns: int, bits: int) -> Layout:
    """A matrix for `ldmatrix`, `stmatrix` and `movmatrix`: a group of four lanes has a row of `4 * 32 / bits` elements; a second
    register has the row eight below."""
    _, group, within, i = _lanes(32, rows * columns // 32)
    packed = 32 // bits
    return _layout((rows, columns), group + 8 * (i // packed), within * packed + i % packed)


def transposed(layout: Layout) -> Layout:
    """The same lanes with rows and columns exchanged."""
    return _transposed(layout)


@cache
def _transposed(layout: Layout) -> Layout:
    return _layout((layout.shape[1], layout.shape[0]), layout.columns, layout.rows)


def joined(*parts: Layout, axis: int) -> Layout:
    """Layouts side by side (`axis` 1) or stacked (0), each with its own elements, in this order."""
    rows, columns, along = [], [], 0
    for part in parts:
        rows.append(part.rows + (along if axis == 0 else 0))
        columns.append(part.columns + (along if axis == 1 else 0))
        along += part.shape[axis]
    across = parts[0].shape[1 - axis]
    shape = (along, across) if axis == 0 else (across, along)
    return _layout(shape, np.concatenate(rows, 1), np.concatenate(columns, 1))


def to_matrix(layout: Layout, elements: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Fragments (groups, lanes, elements) as matrices (groups, rows, columns)."""
    flat = elements.reshape(elements.shape[0], -1)
    return flat.take(layout.source, axis=1).reshape(-1, *layout.shape)


def to_fragments(layout: Layout, matrices: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Matrices (groups, rows, columns) as fragments (groups, lanes, elements)."""
    flat = matrices.reshape(matrices.shape[0], -1)
    return flat.take(layout.target, axis=1).reshape(-1, *layout.rows.shape)


# Fragments of wmma are opaque; here they are those of mma, as many as the shape needs. Surplus registers (of halves) hold copies.


@cache
def opaque(matrix: str, shape: tuple[int, int, int], type: str) -> Layout:
    """The `wmma` fragment of matrix `a`, `b` or `c` (also d) of a product M, N, K with elements of a type (ISA 9.7.15.3.1)."""
    m, n, k = shape
    bits = BITS[type]
    if (m, n) == (8, 32) and (matrix == "c" or type == ".bf16"):  # computed as the transposed product, of sixteen rows
        part = accumulator(16, 8) if matrix == "c" else multiplicand_a(16, k, bits)
        if matrix in "bc":
            return joined(transposed(part), transposed(part), axis=1)
    if matrix == "b":
        return joined(*[multiplicand_b(k, 8, bits)] * (n // 8), axis=1)
    if matrix == "c":
        return joined(accumulator(16, n), accumulator(16, n), axis=0) if m == 32 else accumulator(m, n)
    return joined(*[multiplicand_a(min(m, 16), k, bits)] * max(1, m // 16), axis=0)
