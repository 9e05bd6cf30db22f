"""Bits and special values of floating-point numbers: NaNs, subnormal numbers, the ends of a range."""

from __future__ import annotations

from typing import Any

import numpy as np

from ptxkit.machine.values.integers import select

NAN32 = np.uint32(0x7FFFFFFF).view(np.float32)
"""The NaN that single-precision instructions give for any NaN they are given."""

_SIGN, _ONE, _SUBNORMAL = np.uint32(0x80000000), np.uint32(1), np.uint32(0x00FFFFFF)
_TINY = 2.0**-126
_LEAST = 0x00FFFFFF
_ONES = np.array(1, np.uint32)


def canonical(x: Any) -> Any:
    """Single-precision numbers with every NaN the canonical one."""
    if not x.ndim:
        return x if x == x else NAN32
    # The least of numbers is a NaN if there is one: that takes half the time of looking at each.
    if not x.size or (least := x.item(x.argmin())) == least:
        return x
    return select(np.isnan(x), NAN32, x)


def are_small(x: Any) -> bool:
    """Whether a single-precision number is subnormal, or the least normal one."""
    if not x.ndim:
        value = float(x)
        return -_TINY <= value <= _TINY and value != 0
    # Twice the bits are without the sign; zero, less one, is large.
    bits = x.view(np.uint32)
    size = bits + bits
    size -= _ONES
    return bool(size.size) and size.item(size.argmin()) <= _LEAST


def flush(x: Any) -> Any:
    """Single-precision numbers with subnormal ones as zero of the same sign (`.ftz`)."""
    if not are_small(x):
        return x
    bits = x.view(np.uint32)
    small = (bits + bits) - _ONE < _SUBNORMAL
    return select(small, bits & _SIGN, bits).view(np.float32)


def flush_below(x: Any, least: float) -> Any:
    """Numbers of any dtype with those nearer to zero than the least normal one as zero of the same sign."""
    return select(np.absolute(x) < least, np.copysign(x.dtype.type(0), x), x)


def saturate(x: Any) -> Any:
    """Numbers clamped to [+0, 1], NaN as +0 (`.sat`)."""
    zero, one = x.dtype.type(0), x.dtype.type(1)
    return np.minimum(np.fmax(x, zero), one) + zero


def bfloat_to_single(bits: Any) -> Any:
    """bfloat16 numbers, as bits, as single-precision ones."""
    return (bits.astype(np.uint32) << 16).view(np.float32)


def half_to_single(bits: Any) -> Any:
    """Half-precision numbers, as such or as bits, as single-precision ones."""
    return bits.view(np.float16).astype(np.float32)
