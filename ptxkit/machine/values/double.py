"""Double precision, correctly rounded in all modes, and the fused multiply-add that NumPy lacks.

The rounding error of a sum or product is itself a double if no exponent is near the ends of the range. Other lanes are computed one by one
with fractions.

If an operand is NaN, the result is one of the NaN operands, made quiet. A fused multiply-add returns the second factor, or else the
summand, or else the first factor (measured on sm_90).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from ptxkit.machine.values import fused
from ptxkit.machine.values.blocks import in_blocks
from ptxkit.machine.values.integers import select, some
from ptxkit.machine.values.rounding import moved, odd, two_sum, zero_of_sum

_BLOCK = 4096
"""Block size in lanes for the fused multiply-add."""

_QUIET = np.uint64(0x0008000000000000)
_INVALID = np.uint64(0xFFF8000000000000).view(np.float64)
"""The result of an invalid operation."""

_SPLITTER = 2.0**27 + 1


def _quiet(x: Any) -> Any:
    """Makes NaNs quiet."""
    return (x.view(np.uint64) | _QUIET).view(np.float64)


def quiet_nans(x: Any) -> Any:
    """Makes NaNs quiet; other values are unchanged."""
    is_nan = np.isnan(x)
    return select(is_nan, _quiet(x), x) if some(is_nan) else x


def _with_nans(result: Any, *operands: Any) -> Any:
    """Replaces NaN results by the first NaN operand, made quiet; if no operand is NaN, by the NaN of invalid operations."""
    is_nan = np.isnan(result)
    if not some(is_nan):
        return result
    nan: Any = _INVALID
    for operand in reversed(operands):
        nan = select(np.isnan(operand), _quiet(operand), nan)
    return select(is_nan, nan, result)


def add(a: Any, b: Any, mode: str = "rn") -> Any:
    """a + b"""
    return _with_nans(_add(a, b, mode), b, a)


def subtract(a: Any, b: Any, mode: str = "rn") -> Any:
    """a - b"""
    return _with_nans(_add(a, -b, mode), b, a)


def _add(a: Any, b: Any, mode: str) -> Any:
    if mode == "rn":
        return a + b
    total, rest = two_sum(a, b)
    # the sum overflowed by rounding
    rest = select(np.isinf(total) & np.isfinite(a) & np.isfinite(b), -total, rest)
    return zero_of_sum(moved(total, rest, mode), a, b, mode)


def multiply(a: Any, b: Any, mode: str = "rn") -> Any:
    """a b"""
    return _with_nans(_multiply(a, b, mode), b, a)


def _multiply(a: Any, b: Any, mode: str) -> Any:
    if mode == "rn":
        return a * b
    product, rest = _two_product(a, b)
    hard = ~_medium(a, b) & np.isfinite(a) & np.isfinite(b)
    return _mended(moved(product, rest, mode), hard, lambda x, y: _nearest(Fraction(x) * Fraction(y), x * y), mode, a, b)


def fma(a: Any, b: Any, c: Any, mode: str = "rn") -> Any:
    """a b + c, rounded once."""
    if mode == "rn" and fused.is_there(8):
        return _with_nans(_fma_at_once(a, b, c), b, c, a)
    return _with_nans(in_blocks(partial(_fma, mode=mode), _BLOCK, a, b, c), b, c, a)


def _fma_at_once(a: Any, b: Any, c: Any) -> Any:
    shape = np.broadcast_shapes(a.shape, b.shape, c.shape)
    if len(shape) < 2:
        return in_blocks(_fma_of_block, _BLOCK, a, b, c)
    return in_blocks(_fma_of_block, _BLOCK, *(np.broadcast_to(v, shape).reshape(-1) for v in (a, b, c))).reshape(shape)


def _fma_of_block(a: Any, b: Any, c: Any) -> Any:
    shape, known = a.shape or b.shape or c.shape, fused.kept.doubles
    return (known.get(shape) or fused.made(known, shape, np.float64))(a, b, c)[()]


def _fma(a: Any, b: Any, c: Any, mode: str) -> Any:
    """The exact product and sum as three doubles, the lower two rounded to odd (Boldo and Melquiond, 2008)."""
    upper, lower = _two_product(a, b)
    middle, low = two_sum(c, lower)
    high, rest = two_sum(upper, middle)
    rest = odd(*two_sum(low, rest))
    result = high + rest if mode == "rn" else moved(*two_sum(high, rest), mode)
    zero = result == 0
    if some(zero):
        result = select(zero, _sign_of_zero(a, b, c, mode), result)
    # check the ends of the range first: usually nothing needs correction
    size = np.absolute(upper)
    if size.min() > 2.0**-800 and max(np.max(np.absolute(x)) for x in (a, b)) < 2.0**400 and np.max(np.absolute(c)) < 2.0**1000:
        return result
    finite = np.isfinite(a) & np.isfinite(b)
    hard = finite & np.isfinite(c) & ~(_medium(a, b) & (np.absolute(c) < 2.0**1000))
    result = _mended(result, hard, partial(_fma_of_fractions, mode=mode), mode, a, b, c)
    # a finite product may overflow, which does not matter next to an infinite summand
    return select(finite & np.isfinite(c), result, select(finite, c, a * b + c))


def _sign_of_zero(a: Any, b: Any, c: Any, mode: str) -> Any:
    """A zero with the sign of a sum of zeros, or of a cancellation."""
    differ = np.signbit(a) ^ np.signbit(b) ^ np.signbit(c)
    return select(select(differ, mode == "rm", np.signbit(c)), -0.0, 0.0)


def divide(a: Any, b: Any, mode: str = "rn") -> Any:
    """a / b"""
    quotient = a / b
    if mode == "rn":
        return quotient
    product, lower = _two_product(quotient, b)
    left = (a - product) - lower
    hard = ~(_medium(a, b) & _medium(quotient, b)) & np.isfinite(a) & np.isfinite(b) & (b != 0)
    result = moved(quotient, select(np.signbit(b), -left, left), mode)
    return _mended(result, hard, lambda x, y: _nearest(Fraction(x) / Fraction(y), math.copysign(0.0, x) * y), mode, a, b)


def square_root(a: Any, mode: str = "rn") -> Any:
    """The square root."""
    root = np.sqrt(a)
    if mode == "rn":
        return root
    product, lower = _two_product(root, root)
    hard = ~_medium(a, root) & np.isfinite(a) & (a > 0)
    return _mended(moved(root, (a - product) - lower, mode), hard, _root_of_fraction, mode, a)


def reciprocal_square_root(a: Any) -> Any:
    """The reciprocal of the square root, almost always correctly rounded: NumPy's result improved by one Newton step."""
    exponent = np.frexp(a)[1] & ~1
    scaled = np.ldexp(a, -exponent)
    root = 1 / np.sqrt(scaled)
    square, rest = _two_product(root, root)
    product, lower = _two_product(scaled, square)
    left = ((1 - product) - lower) - scaled * rest
    better = np.ldexp(root + root * left / 2, -(exponent // 2))
    return select(np.isfinite(better) & (a > 0), better, quiet_nans(1 / np.sqrt(a)))


def _two_product(a: Any, b: Any) -> tuple[Any, Any]:
    """The product of two doubles, and its rounding error (Dekker)."""
    product = a * b
    a1, a0 = _halves(a)
    b1, b0 = _halves(b)
    return product, a0 * b0 - (((product - a1 * b1) - a0 * b1) - a1 * b0)


def _halves(x: Any) -> tuple[Any, Any]:
    scaled = x * _SPLITTER
    upper = scaled - (scaled - x)
    return upper, x - upper


def _medium(a: Any, b: Any) -> Any:
    """Whether the exponents are far from the ends of the range, or a factor is zero."""
    x, y = np.absolute(a), np.absolute(b)
    return ((x > 2.0**-400) & (x < 2.0**400) & (y > 2.0**-400) & (y < 2.0**400)) | (((x == 0) | (y == 0)) & (x < 2.0**400) & (y < 2.0**400))


def _mended(result: Any, hard: Any, function: Callable[..., tuple[float, int]], mode: str, *values: Any) -> Any:
    """Recomputes the hard lanes with a function of floats, which returns the nearest number and the sign of its rounding error."""
    if not some(hard):
        return result
    mended = np.array(result, ndmin=1)
    lanes = np.nonzero(np.ravel(hard))[0]
    columns = [np.broadcast_to(v, mended.shape).ravel()[lanes].tolist() for v in values]
    nearest, rest = zip(*(function(*row) for row in zip(*columns, strict=True)), strict=True)
    mended.ravel()[lanes] = moved(np.array(nearest), np.array(rest), mode)
    return mended.reshape(np.shape(result))[()]


def _nearest(exact: Fraction, zero: float) -> tuple[float, int]:
    if exact == 0:
        return zero, 0
    try:
        nearest = float(exact)
    except OverflowError:
        return (math.inf, -1) if exact > 0 else (-math.inf, 1)
    if nearest == 0:
        nearest = 0.0 if exact > 0 else -0.0
    rest = exact - Fraction(nearest)
    return nearest, (rest > 0) - (rest < 0)


def _fma_of_fractions(a: float, b: float, c: float, mode: str) -> tuple[float, int]:
    zero = float(_sign_of_zero(np.float64(a), np.float64(b), np.float64(c), mode))
    return _nearest(Fraction(a) * Fraction(b) + Fraction(c), zero)


def _root_of_fraction(a: float) -> tuple[float, int]:
    root = math.sqrt(a)
    rest = Fraction(a) - Fraction(root) ** 2
    return root, (rest > 0) - (rest < 0)
