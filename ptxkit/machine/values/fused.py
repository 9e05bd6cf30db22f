"""Fused multiply-add by an instruction of the host processor, if NumPy makes use of one.

The imaginary part of `(a + ci) (1 + bi)` is `a b + (c * 1)`. NumPy multiplies complex numbers with such an instruction if the processor has
one: `c * 1` is exact, and the rest is rounded once. This is tested before it is used; otherwise the result is computed in double precision.
"""

from __future__ import annotations

import math
import sys
import threading
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

MOST = 4096
"""Maximum number of lanes that are computed at once by the functions of `made`."""

BLOCK = 16384
"""Block size in lanes for larger arrays."""

_COMPLEX = {np.dtype(np.float32): np.dtype(np.complex64), np.dtype(np.float64): np.dtype(np.complex128)}
_KEPT = 32
"""Maximum number of lane counts whose arrays are cached."""

_multiply = np.multiply


Fused = Callable[[Any, Any, Any], Array]
"""a b + c for lanes of one shape. A NaN result may be any NaN."""


class Kept(threading.local):
    """Caches by the shape of the lanes."""

    def __init__(self) -> None:
        self.singles: dict[tuple[int, ...], Fused] = {}
        self.doubles: dict[tuple[int, ...], Fused] = {}
        self.blocks: dict[tuple[int, ...], list[Any]] = {}


kept = Kept()


def made(known: dict[tuple[int, ...], Fused], shape: tuple[int, ...], dtype: Any, alone: Fused | None = None) -> Fused:
    """Creates the function for a new number of lanes; `alone` is the function for scalars.

    Operands that are the same arrays as in the last call, or the last result, need not be copied again: the product becomes the next left
    factor. Arrays in registers are immutable. A scalar factor comes second.
    """
    if len(known) >= _KEPT:
        known.clear()
    left, product, right = (np.ones(shape, _COMPLEX[np.dtype(dtype)]) for _ in range(3))
    first, third, other, result, second = left.real, left.imag, product.real, product.imag, right.imag
    factor: Any = None
    last: Array = first

    def run(a: Any, b: Any, c: Any) -> Array:
        nonlocal left, product, first, third, other, result, factor, last
        if not a.ndim:
            if alone is not None and not b.ndim and not c.ndim:
                return alone(a, b, c)
            a, b = b, a
        if c is not last:
            third[...] = c
        first[...] = a
        if b is not factor:
            second[...] = factor = b
        _multiply(left, right, product)
        left, product, first, third, other, result = product, left, other, result, first, third
        last = third.copy()
        return last

    known[shape] = run
    return run


def total_of_many(a: Any, b: Any, c: Any, count: int) -> Array:
    """Like `made` for more single-precision numbers, block by block, as the real part of `(a + ci) (b - i)`. That is the lower half of a
    pair as one word, and converting words is faster than copying every other number."""
    if not a.ndim:
        a, b = b, a
    result = np.empty(count, np.float32)
    words = result.view(np.uint32)
    for start in range(0, count, BLOCK):
        part = slice(start, start + BLOCK)
        found = words[part]
        shape = found.shape
        arrays = kept.blocks.get(shape) or _made_of_words(shape)
        left, first, third, pairs, right, second, product, totals, factor = arrays
        if a.ndim:
            pairs[...] = a[part].view(np.uint32)
        else:
            first[...] = a
        if b.ndim:
            second[...], arrays[-1] = b[part], None
        elif b is not factor:
            second[...] = arrays[-1] = b
        third[...] = c[part] if c.ndim else c
        _multiply(left, right, product)
        found[...] = totals
    return result


def _made_of_words(shape: tuple[int, ...]) -> list[Any]:
    """The arrays of a block: the left factor with its parts and words; the right factor and its real part; the product and its words;
    and the scalar that the right factor is filled with."""
    if len(kept.blocks) >= _KEPT:
        kept.blocks.clear()
    left, right, product = (np.full(shape, -1j, np.complex64) for _ in range(3))
    found = [left, left.real, left.imag, left.view(np.uint64), right, right.real, product, product.view(np.uint64), None]
    kept.blocks[shape] = found
    return found


@cache
def is_there(size: int) -> bool:
    """Whether the host has such an instruction for numbers of `size` bytes, for any number of lanes."""
    if size == 4 and sys.byteorder != "little":
        return False
    dtype = np.dtype(f"f{size}")
    least = 2.0**-23 if size == 4 else 2.0**-52
    for shape in ((), *[(count,) for count in range(1, 70)]):
        count = math.prod(shape)
        i, j = np.arange(1, count + 1), 5 + 3 * np.arange(count)
        x, y, z = ((1 + n * least).astype(dtype).reshape(shape) for n in (i, j, i + j))
        # rounded twice, it would be zero
        if not (made({}, shape, dtype)(x, y, -z) == i * j * least * least).all():
            return False
        if size == 4 and count in (7, 16, 69) and not (total_of_many(x, y, -z, count) == i * j * least * least).all():
            return False
    return True
