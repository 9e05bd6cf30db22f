"""Rounding to half precision, bfloat16 and tf32, from doubles that are exact or rounded to odd. Results are bits; NaNs are canonical."""

from __future__ import annotations

from typing import Any

import numpy as np

from ptxkit.machine.values.integers import select, some
from ptxkit.machine.values.rounding import moved

_DROPPED = np.uint64(0x1FFFFFFF)


def to_half(exact: Any, mode: str) -> Any:
    """Doubles or singles rounded to half precision, as `uint16`."""
    if mode != "rn":
        rounded = exact.astype(np.float16)
        bits = moved(rounded, exact - rounded.astype(exact.dtype), mode).view(np.uint16)
    else:
        bits = _nearest_half(exact if exact.dtype == np.float32 else _single_to_odd(exact))
    return _canonical(bits, exact, np.uint16(0x7FFF))


def _nearest_half(x: Any) -> Any:
    """Rounds single precision to half precision. (NumPy's conversion is sixty times slower for subnormal results.)"""
    bits = x.view(np.uint32)
    size = bits & np.uint32(0x7FFFFFFF)
    # changes the exponent bias to 15; the addition rounds to nearest, ties to even
    code = (size + np.uint32(0xC8000FFF) + ((size >> 13) & 1)) >> 13
    small = size < np.uint32(0x38800000)
    if some(small):
        # next to one half, the last bit of a single is the last bit of a subnormal half
        code = select(small, (np.absolute(x) + np.float32(0.5)).view(np.uint32) - np.uint32(0x3F000000), code)
    return (np.minimum(code, np.uint32(0x7C00)) | (bits >> 16 & np.uint32(0x8000))).astype(np.uint16)


def to_bfloat(exact: Any, mode: str) -> Any:
    """Doubles or singles rounded to bfloat16, as `uint16`."""
    return _canonical((_rounded(exact, 16, mode) >> 16).astype(np.uint16), exact, np.uint16(0x7FFF))


def to_tf32(exact: Any, mode: str) -> Any:
    """Doubles or singles rounded to tf32, as `uint32`: the bits of a single whose lowest thirteen bits are zero."""
    return _canonical(_rounded(exact, 13, mode) & np.uint32(0xFFFFE000), exact, np.uint32(0x7FFFE000))


def _rounded(exact: Any, dropped: int, mode: str) -> Any:
    """The bits of singles, rounded so that the bits above the dropped ones are correct."""
    bits = exact.view(np.uint32) if exact.dtype == np.float32 else _single_to_odd(exact).view(np.uint32)
    ones = np.uint32((1 << dropped) - 1)
    if mode == "rn":
        return bits + (ones >> 1) + ((bits >> dropped) & 1)
    if mode == "rna":
        return bits + (ones >> 1) + np.uint32(1)
    if mode == "rz":
        return bits
    negative = bits >> 31
    return bits + ones * (negative if mode == "rm" else 1 - negative)


def _single_to_odd(exact: Any) -> Any:
    """Doubles rounded to odd in single precision, never to infinity."""
    bits = exact.view(np.uint64)
    # the addition carries into the last bit that is kept if any dropped bit is set
    single = ((bits | ((bits & _DROPPED) + _DROPPED)) & ~_DROPPED).view(np.float64).astype(np.float32)
    size = single.view(np.uint32) << 1
    if some((size < np.uint32(0x01000000)) & (exact != 0)) or some(size >= np.uint32(0xFF000000)):
        truncated = moved(single, exact - single, "rz")
        return (truncated.view(np.uint32) | (truncated != exact)).view(np.float32)
    return single


def _canonical(bits: Any, exact: Any, nan: Any) -> Any:
    is_nan = np.isnan(exact)
    return select(is_nan, nan, bits) if some(is_nan) else bits
