"""Single precision, correctly rounded in every mode. NaN results are the canonical one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ptxkit.machine.values.blocks import in_blocks
from ptxkit.machine.values.floats import canonical
from ptxkit.machine.values.integers import select, some
from ptxkit.machine.values.rounding import moved, sum_to_odd, to_single, zero_of_sum

_BLOCK = 8192
"""Lanes at a time where there are temporary values in double precision."""

_DROPPED, _HALFWAY = np.uint64(0x1FFFFFFF), np.uint64(0x10000000)
_NEXT_EXPONENT, _TWO_EXPONENTS = np.uint32(0x01000000), np.uint32(0x02000000)


def add(a: Any, b: Any, mode: str = "rn") -> Any:
    """a + b"""
    if mode == "rn":
        return canonical(a + b)
    x, y = a.astype(np.float64), b.astype(np.float64)
    return canonical(to_single(zero_of_sum(sum_to_odd(x, y), x, y, mode), mode))


def multiply(a: Any, b: Any, mode: str = "rn") -> Any:
    """a b"""
    if mode == "rn":
        return canonical(a * b)
    # A double has all bits of a product.
    return canonical(to_single(np.multiply(a, b, dtype=np.float64), mode))


def fma(a: Any, b: Any, c: Any, mode: str = "rn") -> Any:
    """a b + c, rounded once."""
    if mode == "rn":
        return in_blocks(_fma_to_nearest, _BLOCK, a, b, c)
    return canonical(_fma_exactly(a, b, c, mode))


def _fma_exactly(a: Any, b: Any, c: Any, mode: str) -> Any:
    product, summand = np.multiply(a, b, dtype=np.float64), c.astype(np.float64)
    return to_single(zero_of_sum(sum_to_odd(product, summand), product, summand, mode), mode)


def _fma_to_nearest(a: Any, b: Any, c: Any) -> Any:
    """Rounded to double and then to single precision: right unless the double is halfway between two singles, or the single subnormal."""
    total = np.multiply(a, b, dtype=np.float64) + c
    result = total.astype(np.float32)
    halfway = (total.view(np.uint64) & _DROPPED) == _HALFWAY
    if some(halfway):
        result = select(halfway, _fma_exactly(a, b, c, "rn"), result)
    # The exponent is 0 or 255: zero, subnormal, infinite or NaN.
    bits = result.view(np.uint32)
    special = (bits + bits) + _NEXT_EXPONENT < _TWO_EXPONENTS
    if some(special):
        if some(special & (np.absolute(total) < 2.0**-125) & (total != 0)):
            result = _fma_exactly(a, b, c, "rn")
        result = canonical(result)
    return result


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
