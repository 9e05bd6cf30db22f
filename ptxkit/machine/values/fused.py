"""Products and sums rounded once by an instruction of this computer, where NumPy has one to give.

Of `(a + ci) (b - i)` the real part is `a b - (c * -1)`. NumPy multiplies complex numbers by such an instruction where the processor has
one: `c * -1` is exact, and the rest is rounded once. That is tried before it is used; elsewhere what is exact is put together of doubles.
"""

from __future__ import annotations

import math
import threading
from functools import cache
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

MOST = 4096
"""So many lanes at a time, at most."""

_COMPLEX = {np.dtype(np.float32): np.dtype(np.complex64), np.dtype(np.float64): np.dtype(np.complex128)}
_KEPT = 32
"""So many numbers of lanes have their arrays kept."""

_multiply = np.multiply


class Kept(threading.local):
    """Arrays by the shape of the lanes, made when first needed: the real and imaginary parts to be filled, the factors, the product, and
    its real part."""

    def __init__(self) -> None:
        self.singles: dict[tuple[int, ...], tuple[Array, ...]] = {}
        self.doubles: dict[tuple[int, ...], tuple[Array, ...]] = {}


kept = Kept()


def made(known: dict[tuple[int, ...], tuple[Array, ...]], shape: tuple[int, ...], dtype: Any) -> tuple[Array, ...]:
    """The arrays of one more number of lanes."""
    if len(known) >= _KEPT:
        known.clear()
    left, right, product = (np.zeros(shape, _COMPLEX[np.dtype(dtype)]) for _ in range(3))
    right.imag = -1
    found = known[shape] = (left.real, right.real, left.imag, left, right, product, product.real)
    return found


def total(arrays: tuple[Array, ...], a: Any, b: Any, c: Any) -> Array:
    """a b + c. A NaN may be any."""
    first, second, summand, left, right, product, found = arrays
    first[...] = a
    second[...] = b
    summand[...] = c
    _multiply(left, right, product)
    return found.copy()


@cache
def is_there(size: int) -> bool:
    """Whether such an instruction is there for numbers of so many bytes, and for any number of lanes."""
    dtype = np.dtype(f"f{size}")
    least = 2.0**-23 if size == 4 else 2.0**-52
    for shape in ((), *[(count,) for count in range(1, 70)]):
        count = math.prod(shape)
        i, j = np.arange(1, count + 1), 5 + 3 * np.arange(count)
        x, y, z = ((1 + n * least).astype(dtype).reshape(shape) for n in (i, j, i + j))
        # rounded twice it would be nothing
        if not (total(made({}, shape, dtype), x, y, -z) == i * j * least * least).all():
            return False
    return True
