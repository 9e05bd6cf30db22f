"""Single precision, correctly rounded in every mode. NaN results are the canonical one."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from ptxkit.machine.values import fused
from ptxkit.machine.values.floats import NAN32, canonical
from ptxkit.machine.values.integers import select, some
from ptxkit.machine.values.rounding import moved, sum_to_odd, to_single, zero_of_sum

_BLOCK = 16384
"""Lanes at a time where there are temporary values in double precision."""

_KEPT = np.array(35)
"""A double without so many of its upper bits is what rounding to single precision drops."""

_HALFWAY = np.int64(-(2**63))
_DROPPED, _DROPPED_HALFWAY = (1 << 29) - 1, 1 << 28
_INT64 = np.dtype(np.int64)
_TINY = 2.0**-126
_LEAST = np.float32(_TINY)
"""The least normal number."""

_HUGE = 2.0**127
_POWERS = (0.5, -0.5)
_float32, _frexp, _multiply, _kept = np.float32, math.frexp, np.multiply, fused.kept


def add(a: Any, b: Any, mode: str = "rn") -> Any:
    """a + b"""
    if mode == "rn":
        return add_to_nearest(a, b)
    x, y = a.astype(np.float64), b.astype(np.float64)
    return canonical(to_single(zero_of_sum(sum_to_odd(x, y), x, y, mode), mode))


def add_to_nearest(a: Any, b: Any) -> Any:
    """a + b, rounded to nearest."""
    return canonical(a + b)


def subtract(a: Any, b: Any, mode: str = "rn") -> Any:
    """a - b"""
    return add(a, -b, mode)


def subtract_to_nearest(a: Any, b: Any) -> Any:
    """a - b, rounded to nearest."""
    return canonical(a - b)


def multiply(a: Any, b: Any, mode: str = "rn") -> Any:
    """a b"""
    if mode == "rn":
        return multiply_to_nearest(a, b)
    # A double has all bits of a product.
    return canonical(to_single(np.multiply(a, b, dtype=np.float64), mode))


def multiply_to_nearest(a: Any, b: Any) -> Any:
    """a b, rounded to nearest."""
    return canonical(a * b)


def fma(a: Any, b: Any, c: Any, mode: str = "rn") -> Any:
    """a b + c, rounded once."""
    if mode == "rn":
        return fma_to_nearest(a, b, c)
    return canonical(_fma_exactly(a, b, c, mode))


def _fma_exactly(a: Any, b: Any, c: Any, mode: str) -> Any:
    product, summand = np.multiply(a, b, dtype=np.float64), c.astype(np.float64)
    return to_single(zero_of_sum(sum_to_odd(product, summand), product, summand, mode), mode)


def fma_to_nearest(a: Any, b: Any, c: Any) -> Any:
    """a b + c, rounded once to nearest."""
    if a.ndim > 1 or b.ndim > 1 or c.ndim > 1:
        # elements of vectors: a row for each lane, or one for all
        shape = np.broadcast_shapes(a.shape, b.shape, c.shape)
        return fma_to_nearest(*(np.broadcast_to(v, shape).reshape(-1) for v in (a, b, c))).reshape(shape)
    return canonical(fma_with_any_nan(a, b, c))


def fma_with_any_nan(a: Any, b: Any, c: Any) -> Any:
    """The same of lanes that hold one number each; a NaN may be any."""
    shape = a.shape or b.shape or c.shape
    run = _kept.singles.get(shape)
    if run is not None:
        return run(a, b, c)
    return _fma_of_many(a, b, c, *shape) if shape else _fma_of_scalars(a, b, c)


def fma_of_count(count: int) -> Callable[..., Any]:
    """`fma_with_any_nan` of so many lanes."""
    run = _kept.singles.get((count,))
    if run is not None:
        return run
    if count > fused.MOST or not fused.is_there(4):
        return fma_with_any_nan
    return fused.made(_kept.singles, (count,), np.float32, _fma_of_scalars)


def _fma_of_many(a: Any, b: Any, c: Any, count: int) -> Any:
    """The same of very many lanes, or of so many as have not been before."""
    if fused.is_there(4):
        if count > fused.MOST:
            return fused.total_of_many(a, b, c, count)
        return fma_of_count(count)(a, b, c)
    result = np.empty(count, np.float32)
    if count <= _BLOCK:
        _fma_of_block(result, a, b, c)
        return result
    for start in range(0, count, _BLOCK):
        x, y, z = (v[start : start + _BLOCK] if v.ndim else v for v in (a, b, c))
        _fma_of_block(result[start : start + _BLOCK], x, y, z)
    return result


class _Scratch(threading.local):
    """Doubles to calculate in, by how many: with no array to be made it takes half the time."""

    def __init__(self) -> None:
        self.known: dict[int, tuple[Any, Any, Any, Any]] = {}

    def of(self, count: int) -> tuple[Any, Any, Any, Any]:
        """Two arrays, and their bits."""
        found = self.known.get(count)
        if found is None:
            if len(self.known) >= _SCRATCHES:
                self.known.clear()
            total, other = np.empty(count), np.empty(count)
            found = self.known[count] = total, other, total.view(_INT64), other.view(_INT64)
        return found


_SCRATCHES = 16
"""So many numbers of lanes have their scratch kept."""

_scratch = _Scratch()


def _fma_of_block(rounded: Any, a: Any, b: Any, c: Any) -> None:
    """Rounds to double and then to single precision, and mends the few lanes where that may not be what rounding once gives: where the
    double is halfway between two singles, or the single subnormal (or the least normal one, rounded up to).

    Conversions apart from products take less time than NumPy's own within them.
    """
    total, other, bits, dropped = _scratch.of(len(rounded))
    if a.ndim:
        total[...] = a
        if b.ndim:
            other[...] = b
            np.multiply(total, other, total)
        else:
            np.multiply(total, float(b), total)
    else:
        total[...] = b
        np.multiply(total, float(a), total)
    if c.ndim:
        other[...] = c
        np.add(total, other, total)
    else:
        np.add(total, float(c), total)
    rounded[...] = total
    # The bits that are dropped, moved up: halfway they are the least integer.
    np.left_shift(bits, _KEPT, dropped)
    if dropped[dropped.argmin()] == _HALFWAY:
        _mend(rounded, dropped == _HALFWAY, a, b, c)
    magnitude = np.absolute(rounded)
    # The position of the least one, or of a NaN if there is any.
    if not magnitude[magnitude.argmin()] > _LEAST:
        _mend(rounded, (magnitude <= _LEAST) & (total != 0), a, b, c)


def _fma_of_scalars(a: Any, b: Any, c: Any) -> Any:
    """The same for one number each."""
    total = float(a) * float(b) + float(c)
    rounded = _float32(total)
    value = float(rounded)
    # Halfway between two singles, what rounding takes is a power of two.
    if (_TINY < value < _HUGE or -_HUGE < value < -_TINY) and _frexp(total - value)[0] not in _POWERS:
        return rounded
    if value != value:
        return NAN32
    if int(np.float64(total).view(_INT64)) & _DROPPED == _DROPPED_HALFWAY or (total and -_TINY <= value <= _TINY):
        return _fma_exactly(a, b, c, "rn")
    return rounded


def _mend(rounded: Any, doubtful: Any, a: Any, b: Any, c: Any) -> None:
    """Rounds lanes once of which the sum in double precision is not exact."""
    if not some(doubtful):
        return
    lanes = np.flatnonzero(doubtful)
    a, b, c = (v.take(lanes) if v.ndim else v for v in (a, b, c))
    product, summand = np.multiply(a, b, dtype=np.float64), c.astype(np.float64)
    total = product + summand
    if some((total - product != summand) | (total - summand != product)):
        rounded[lanes] = _fma_exactly(a, b, c, "rn")


def divide(a: Any, b: Any, mode: str = "rn") -> Any:
    """a / b"""
    quotient = a / b
    if mode == "rn":
        return canonical(quotient)
    # The sign of what is left of a says on which side of a / b the rounded quotient is.
    left = a.astype(np.float64) - np.multiply(quotient, b, dtype=np.float64)
    return canonical(moved(quotient, select(np.signbit(b), -left, left), mode))


def square_root(a: Any, mode: str = "rn") -> Any:
    """The square root."""
    root = np.sqrt(a)
    if mode == "rn":
        return canonical(root)
    return canonical(moved(root, a.astype(np.float64) - np.multiply(root, root, dtype=np.float64), mode))


EXACT: dict[Callable[..., Any], Callable[..., Any]] = {
    multiply: lambda a, b: np.multiply(a, b, dtype=np.float64),
    fma: lambda a, b, c: sum_to_odd(np.multiply(a, b, dtype=np.float64), c.astype(np.float64)),
    divide: lambda a, b: np.divide(a, b, dtype=np.float64),
}
"""Doubles that round to singles as the exact results do, for the functions whose results may need rounding where they are subnormal."""

TO_NEAREST: dict[Callable[..., Any], tuple[Callable[..., Any], Callable[..., Any]]] = {
    add: (add_to_nearest, np.add),
    subtract: (subtract_to_nearest, np.subtract),
    multiply: (multiply_to_nearest, np.multiply),
    fma: (fma_to_nearest, fma_with_any_nan),
}
"""Of functions that take a rounding mode what they are to the nearest number, and the same where a NaN may be any."""

OF_COUNT: dict[Callable[..., Any], tuple[Callable[[int], Callable[..., Any]], Callable[[Any], Any] | None]] = {
    fma_to_nearest: (fma_of_count, canonical),
    fma_with_any_nan: (fma_of_count, None),
}
"""Functions of lanes by what gives them for a number of lanes, which is asked once for all of them; and what is done to the result."""
