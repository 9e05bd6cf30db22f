"""Bits and special values of floating-point numbers: NaNs, subnormals, range limits."""

from __future__ import annotations

from typing import Any

import numpy as np

from ptxkit.machine.values.integers import select

NAN32 = np.uint32(0x7FFFFFFF).view(np.float32)
"""The NaN that single-precision instructions return for any NaN operand."""

_SIGN, _ONE, _SUBNORMAL = np.uint32(0x80000000), np.uint32(1), np.uint32(0x00FFFFFF)
_TINY = 2.0**-126
_LEAST = 0x00FFFFFF
_ONES = np.array(1, np.uint32)


def canonical(x: Any) -> Any:
    """Replaces NaNs in single precision by the canonical NaN."""
    if not x.ndim:
        return x if x == x else NAN32
    # the minimum is NaN if any element is, which is faster to find than a test of each element
    if not x.size or (least := x.item(x.argmin())) == least:
        return x
    return select(np.isnan(x), NAN32, x)


def are_small(x: Any) -> bool:
    """Whether any single-precision number is subnormal, or the least normal number."""
    if not x.ndim:
        value = float(x)
        return -_TINY <= value <= _TINY and value != 0
    # doubling removes the sign bit; zero minus one wraps around to a large number
    bits = x.view(np.uint32)
    size = bits + bits
    size -= _ONES
    return bool(size.size) and size.item(size.argmin()) <= _LEAST


def flush(x: Any) -> Any:
    """Flushes single-precision subnormals to zero with the same sign (`.ftz`)."""
    if not are_small(x):
        return x
    bits = x.view(np.uint32)
    small = (bits + bits) - _ONE < _SUBNORMAL
    return select(small, bits & _SIGN, bits).view(np.float32)


def flush_below(x: Any, least: float) -> Any:
    """Flushes numbers of any dtype that are smaller in magnitude than the least normal number to zero with the same sign."""
    return select(np.absolute(x) < least, np.copysign(x.dtype.type(0), x), x)


def saturate(x: Any) -> Any:
    """Numbers clamped to [+0, 1], NaN as +0 (`.sat`)."""
    zero, one = x.dtype.type(0), x.dtype.type(1)
    return np.minimum(np.fmax(x, zero), one) + zero


def bfloat_to_single(bits: Any) -> Any:
    """Converts bfloat16 numbers, given as bits, to single precision."""
    return (bits.astype(np.uint32) << 16).view(np.float32)


def half_to_single(bits: Any) -> Any:
    """Converts half-precision numbers, given as such or as bits, to single precision."""
    return bits.view(np.float16).astype(np.float32)
