"""Single precision, correctly rounded in all modes. NaN results are canonical."""

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
"""Block size in lanes for computations with temporary doubles."""

_KEPT = np.array(35)
"""A double shifted left by this many bits leaves the bits that rounding to single precision drops."""

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
    # a double represents every product exactly
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
        # vectors: one row for each lane, or one for all
        shape = np.broadcast_shapes(a.shape, b.shape, c.shape)
        return fma_to_nearest(*(np.broadcast_to(v, shape).reshape(-1) for v in (a, b, c))).reshape(shape)
    return canonical(fma_with_any_nan(a, b, c))


def fma_with_any_nan(a: Any, b: Any, c: Any) -> Any:
    """Like `fma_to_nearest` for one number in each lane; a NaN result may be any NaN."""
    shape = a.shape or b.shape or c.shape
    run = _kept.singles.get(shape)
    if run is not None:
        return run(a, b, c)
    return _fma_of_many(a, b, c, *shape) if shape else _fma_of_scalars(a, b, c)


def fma_of_count(count: int) -> Callable[..., Any]:
    """`fma_with_any_nan` specialized for this many lanes."""
    run = _kept.singles.get((count,))
    if run is not None:
        return run
    if count > fused.MOST or not fused.is_there(4):
        return fma_with_any_nan
    return fused.made(_kept.singles, (count,), np.float32, _fma_of_scalars)


def _fma_of_many(a: Any, b: Any, c: Any, count: int) -> Any:
    """Like `fma_with_any_nan`, for many lanes or a new number of lanes."""
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
    """Temporary arrays of doubles by length: not allocating them halves the time."""

    def __init__(self) -> None:
        self.known: dict[int, tuple[Any, Any, Any, Any]] = {}

    def of(self, count: int) -> tuple[Any, Any, Any, Any]:
        """Two arrays, and views of their bits."""
        found = self.known.get(count)
        if found is None:
            if len(self.known) >= _SCRATCHES:
                self.known.clear()
            total, other = np.empty(count), np.empty(count)
            found = self.known[count] = total, other, total.view(_INT64), other.view(_INT64)
        return found


_SCRATCHES = 16
"""Maximum number of lane counts whose temporary arrays are cached."""

_scratch = _Scratch()


def _fma_of_block(rounded: Any, a: Any, b: Any, c: Any) -> None:
    """Rounds to double and then to single precision, and corrects the few lanes where this may differ from rounding once: where the double
    is halfway between two singles, or the single is subnormal (or the least normal number, rounded up).

    Separate conversions and products are faster than NumPy's conversions within products.
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
    # the dropped bits, shifted up: exactly halfway they are the least integer
    np.left_shift(bits, _KEPT, dropped)
    if dropped[dropped.argmin()] == _HALFWAY:
        _mend(rounded, dropped == _HALFWAY, a, b, c)
    magnitude = np.absolute(rounded)
    # the position of the least element, or of a NaN if there is one
    if not magnitude[magnitude.argmin()] > _LEAST:
        _mend(rounded, (magnitude <= _LEAST) & (total != 0), a, b, c)


def _fma_of_scalars(a: Any, b: Any, c: Any) -> Any:
    """Like `fma_with_any_nan` for scalars."""
    total = float(a) * float(b) + float(c)
    rounded = _float32(total)
    value = float(rounded)
    # halfway between two singles, the rounding error is a power of two
    if (_TINY < value < _HUGE or -_HUGE < value < -_TINY) and _frexp(total - value)[0] not in _POWERS:
        return rounded
    if value != value:
        return NAN32
    if int(np.float64(total).view(_INT64)) & _DROPPED == _DROPPED_HALFWAY or (total and -_TINY <= value <= _TINY):
        return _fma_exactly(a, b, c, "rn")
    return rounded


def _mend(rounded: Any, doubtful: Any, a: Any, b: Any, c: Any) -> None:
    """Rounds lanes once whose sum in double precision is inexact."""
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
    # the sign of the remainder says on which side of a / b the rounded quotient is
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
"""Functions that return doubles which round to the same singles as the exact results, for operations that may need rounding of
subnormals."""

TO_NEAREST: dict[Callable[..., Any], tuple[Callable[..., Any], Callable[..., Any]]] = {
    add: (add_to_nearest, np.add),
    subtract: (subtract_to_nearest, np.subtract),
    multiply: (multiply_to_nearest, np.multiply),
    fma: (fma_to_nearest, fma_with_any_nan),
}
"""For functions with a rounding mode: the variant that rounds to nearest, and the same with arbitrary NaNs."""

OF_COUNT: dict[Callable[..., Any], tuple[Callable[[int], Callable[..., Any]], Callable[[Any], Any] | None]] = {
    fma_to_nearest: (fma_of_count, canonical),
    fma_with_any_nan: (fma_of_count, None),
}
"""For functions of lanes: what creates them for a number of lanes, called once for each number, and a function to apply to the result."""
