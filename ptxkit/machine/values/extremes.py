"""Minimum and maximum of floating-point numbers as defined by PTX (ISA 9.7.3.11): with or without NaN propagation, and -0 less than +0."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ptxkit.machine.values.integers import select, some, unsigned


def extreme(which: str, *, nan: bool, xorsign: bool, magnitude: bool) -> Callable[..., Any]:
    """The function `min` or `max` of two or three numbers of a dtype.

    `nan`: the result is NaN if any operand is; otherwise only if all are. `magnitude`: of the absolute values; `xorsign`: with the product
    of the signs.
    """
    lower = which == "min"
    ufunc = {(True, False): np.fmin, (True, True): np.minimum, (False, False): np.fmax, (False, True): np.maximum}[lower, nan]

    def of_two(a: Any, b: Any) -> Any:
        result = ufunc(a, b)
        is_nan = np.isnan(result)
        if not nan and some(is_nan):
            # NumPy's fmin and fmax return NaN for a signalling NaN and a number
            result = select(is_nan, select(np.isnan(a), b, a), result)
        zero = result == 0
        if not some(zero):
            return result
        # for two zeros NumPy may return either; the result is -0 if one is (for a maximum, if both are)
        bits = unsigned(result.dtype)
        x, y = a.view(bits), b.view(bits)
        return select(zero & (a == b), x | y if lower else x & y, result.view(bits)).view(result.dtype)

    def run(first: Any, *others: Any) -> Any:
        result = np.absolute(first) if magnitude else first
        for other in others:
            result = of_two(result, np.absolute(other) if magnitude else other)
        if not xorsign:
            return result
        negative = np.signbit(first)
        for other in others:
            negative = negative ^ np.signbit(other)
        return select(np.isnan(result), result, select(negative, -np.absolute(result), np.absolute(result)))

    return run
