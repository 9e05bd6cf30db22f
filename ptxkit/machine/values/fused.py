"""Products and sums rounded once by an instruction of this computer, where NumPy has one to give.

Of `(a + ci) (b - i)` the real part is `a b - (c * -1)`. NumPy multiplies complex numbers by such an instruction where the processor has
one: `c * -1` is exact, and the rest is rounded once. That is tried before it is used; elsewhere what is exact is put together of doubles.
"""

from __future__ import annotations

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


class _Kept(threading.local):
    """By the number of lanes: the real and imaginary parts to be filled, the factors, the product, and its real part."""

    def __init__(self) -> None:
        self.singles: dict[int, tuple[Array, ...]] = {}
        self.doubles: dict[int, tuple[Array, ...]] = {}


_kept = _Kept()


def _made(known: dict[int, tuple[Array, ...]], count: int, dtype: Any) -> tuple[Array, ...]:
    if len(known) >= _KEPT:
        known.clear()
    left, right, product = (np.zeros(count, _COMPLEX[np.dtype(dtype)]) for _ in range(3))
    right.imag = -1
    found = known[count] = (left.real, right.real, left.imag, left, right, product, product.real)
    return found


def singles(a: Any, b: Any, c: Any, count: int) -> Array:
    """a b + c of so many lanes, `MOST` at most. A NaN may be any."""
    known = _kept.singles
    first, second, summand, left, right, product, total = known.get(count) or _made(known, count, np.float32)
    first[...] = a
    second[...] = b
    summand[...] = c
    _multiply(left, right, product)
    return total.copy()


def doubles(a: Any, b: Any, c: Any, count: int) -> Array:
    """The same of doubles."""
    known = _kept.doubles
    first, second, summand, left, right, product, total = known.get(count) or _made(known, count, np.float64)
    first[...] = a
    second[...] = b
    summand[...] = c
    _multiply(left, right, product)
    return total.copy()


@cache
def is_there(size: int) -> bool:
    """Whether such an instruction is there for numbers of so many bytes, and for any number of lanes."""
    dtype = np.dtype(f"f{size}")
    of, least = (singles, 2.0**-23) if size == 4 else (doubles, 2.0**-52)
    for count in range(1, 70):
        i, j = np.arange(1, count + 1), 5 + 3 * np.arange(count)
        x, y, z = ((1 + n * least).astype(dtype) for n in (i, j, i + j))
        # rounded twice it would be nothing
        if not (of(x, y, -z, count) == i * j * least * least).all():
            return False
    return True
