"""Integer arithmetic that NumPy lacks: high halves of products, saturation, bit counts and reversal."""

from __future__ import annotations

from typing import Any

import numpy as np

from ptxkit.machine.values.blocks import in_blocks

WIDER = {np.dtype(f"{kind}int{bits}"): np.dtype(f"{kind}int{2 * bits}") for kind in ("", "u") for bits in (8, 16, 32)}
"""The dtype of twice the size, except for 64-bit dtypes."""

_BLOCK = 8192

_LOW32 = np.uint64(0xFFFFFFFF)


some = getattr(np.count_nonzero, "__wrapped__", np.count_nonzero)
"""Counts the true elements of a `bool` array. Faster than `any` for few lanes, and without NumPy's dispatch."""


def select(condition: Any, a: Any, b: Any) -> Any:
    """`a` where the condition holds, otherwise `b`; a scalar if all operands are scalars."""
    return np.where(condition, a, b)[()]


def clamp(x: Any, dtype: Any) -> Any:
    """Clamps integers of a wider dtype to the range of a narrower one."""
    limits = np.iinfo(dtype)
    return np.clip(x, limits.min, limits.max).astype(dtype)


def unsigned(dtype: Any) -> np.dtype[Any]:
    """The unsigned dtype of the same size."""
    return np.dtype(f"u{np.dtype(dtype).itemsize}")


def signed(dtype: Any) -> np.dtype[Any]:
    """The signed dtype of the same size."""
    return np.dtype(f"i{np.dtype(dtype).itemsize}")


def high(a: Any, b: Any, dtype: np.dtype[Any]) -> Any:
    """The high half of the product of two integers of a dtype."""
    if dtype in WIDER:
        return (np.multiply(a, b, dtype=WIDER[dtype]) >> (8 * dtype.itemsize)).astype(dtype)
    if dtype == np.uint64:
        return in_blocks(_high64, _BLOCK, a, b)
    ua, ub = a.view(np.uint64), b.view(np.uint64)
    # a negative factor is its bits minus 2^64, so subtract the other factor
    return (in_blocks(_high64, _BLOCK, ua, ub) - select(a < 0, ub, 0) - select(b < 0, ua, 0)).view(np.int64)


def _high64(a: Any, b: Any) -> Any:
    a0, a1, b0, b1 = a & _LOW32, a >> 32, b & _LOW32, b >> 32
    middle = a1 * b0 + (a0 * b0 >> 32)
    low = a0 * b1 + (middle & _LOW32)
    return a1 * b1 + (middle >> 32) + (low >> 32)


def bit_length(a: Any) -> Any:
    """The position after the highest set bit, 0 for zero; as `uint32`."""
    if a.dtype.itemsize < 8:
        # the exponent of an exact conversion
        return np.frexp(a.astype(np.float64))[1].astype(np.uint32)
    upper = bit_length((a >> 32).astype(np.uint32))
    return select(upper > 0, upper + 32, bit_length(a.astype(np.uint32)))


def reverse(a: Any) -> Any:
    """The bits in reverse order; unsigned."""
    for shift, mask in ((1, 0x5555555555555555), (2, 0x3333333333333333), (4, 0x0F0F0F0F0F0F0F0F)):
        kept = a.dtype.type(mask & np.iinfo(a.dtype).max)
        a = ((a >> shift) & kept) | ((a & kept) << shift)
    return a.byteswap()
