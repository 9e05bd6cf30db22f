"""Half precision, bfloat16 and tf32: rounded from doubles (exact, or rounded to odd), as bits. NaNs are the canonical ones."""

from __future__ import annotations

from typing import Any

import numpy as np

from ptxkit.machine.values.integers import select
from ptxkit.machine.values.rounding import moved


def to_half(exact: Any, mode: str) -> Any:
    """Doubles rounded to half precision, as `uint16`."""
    rounded = exact.astype(np.float16)
    if mode != "rn":
        rounded = moved(rounded, exact - rounded.astype(exact.dtype), mode)
    return _canonical(rounded.view(np.uint16), exact, np.uint16(0x7FFF))


def to_bfloat(exact: Any, mode: str) -> Any:
    """Doubles rounded to bfloat16, as `uint16`."""
    return _canonical((_rounded(exact, 16, mode) >> 16).astype(np.uint16), exact, np.uint16(0x7FFF))


def to_tf32(exact: Any, mode: str) -> Any:
    """Doubles rounded to tf32, as `uint32`: the bits of a single of which the lowest thirteen are zero."""
    return _canonical(_rounded(exact, 13, mode) & np.uint32(0xFFFFE000), exact, np.uint32(0x7FFFFFFF))


def _rounded(exact: Any, dropped: int, mode: str) -> Any:
    """The bits of singles, rounded so that those above the ones dropped are right."""
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
    """Doubles rounded to odd in single precision; never to infinity."""
    nearest = exact.astype(np.float32)
    truncated = moved(nearest, exact - nearest, "rz")
    return (truncated.view(np.uint32) | (truncated != exact)).view(np.float32)


def _canonical(bits: Any, exact: Any, nan: Any) -> Any:
    is_nan = np.isnan(exact)
    return select(is_nan, nan, bits) if is_nan.any() else bits
