"""Rounding: exact results are kept as doubles rounded to odd, and rounded once more to the target format.

Rounding to odd takes, of the two doubles around a value that is not representable, the one with an odd last bit. Rounding the result to at
most 51 bits, in any mode, gives the same as rounding the exact value (Boldo and Melquiond, 2008).

Modes are named as in PTX: `rn` nearest, ties to even; `rz` towards zero; `rm` down; `rp` up; `rna` nearest, ties away from zero.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ptxkit.machine.values.integers import select, signed


def two_sum(a: Any, b: Any) -> tuple[Any, Any]:
    """The sum of two numbers, and its rounding error (Knuth)."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def odd(value: Any, rest: Any) -> Any:
    """Combines a rounded number and its rounding error into one number rounded to odd. Both are doubles, or singles."""
    integers = signed(value.dtype)
    bits = value.view(integers)
    # infinities and NaNs have a NaN error and are unchanged
    inexact = np.absolute(rest) > 0
    too_large = inexact & ((bits ^ rest.view(integers)) < 0)
    return ((bits - too_large) | inexact).view(value.dtype)


def sum_to_odd(a: Any, b: Any) -> Any:
    """The sum of two numbers, rounded to odd."""
    return odd(*two_sum(a, b))


def zero_of_sum(total: Any, a: Any, b: Any, mode: str) -> Any:
    """A sum with the correct sign of an exact zero: when rounding down, minus for operands of different signs."""
    if mode != "rm":
        return total
    return select((total == 0) & (np.signbit(a) != np.signbit(b)), total.dtype.type(-0.0), total)


def moved(rounded: Any, rest: Any, mode: str) -> Any:
    """Adjusts numbers rounded to nearest to another mode; `rest` has the sign of their rounding error, 0 if exact."""
    if mode == "rn":
        return rounded
    kind = rounded.dtype.type
    if mode == "rz":
        return select(np.where(np.signbit(rounded), rest > 0, rest < 0), np.nextafter(rounded, kind(0)), rounded)
    if mode == "rm":
        return select(rest < 0, np.nextafter(rounded, kind(-np.inf)), rounded)
    return select(rest > 0, np.nextafter(rounded, kind(np.inf)), rounded)


def to_single(exact: Any, mode: str) -> Any:
    """Doubles rounded to single precision."""
    rounded = exact.astype(np.float32)
    return rounded if mode == "rn" else moved(rounded, exact - rounded, mode)


def _halves(a: Any) -> tuple[Any, Any]:
    """Integers as sums of two exact doubles."""
    if a.dtype.itemsize < 8:
        return a.astype(np.float64), np.float64(0)
    return (a >> 32).astype(np.float64) * 2.0**32, (a & a.dtype.type(0xFFFFFFFF)).astype(np.float64)


def integer_to_odd(a: Any) -> Any:
    """Integers as doubles, rounded to odd."""
    return sum_to_odd(*_halves(a))


def nearest_of_integer(a: Any, mode: str) -> Any:
    """Integers rounded to double precision."""
    return moved(*two_sum(*_halves(a)), mode)
