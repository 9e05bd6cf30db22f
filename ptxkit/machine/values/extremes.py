"""Minimum and maximum of floating-point numbers as PTX defines them (ISA 9.7.3.11): a NaN loses or wins, -0 is less than +0."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ptxkit.machine.values.integers import select, some, unsigned


def extreme(which: str, *, nan: bool, xorsign: bool, magnitude: bool) -> Callable[..., Any]:
    """The function `min` or `max` of two or three numbers of a dtype.

    `nan`: a NaN if any of them is; else one only if all are. `magnitude`: of the absolute values; `xorsign`: with the product of the signs.
    """
    lower = which == "min"
    ufunc = {(True, False): np.fmin, (True, True): np.minimum, (False, False): np.fmax, (False, True): np.maximum}[lower, nan]

    def of_two(a: Any, b: Any) -> Any:
        result = ufunc(a, b)
        is_nan = np.isnan(result)
        if not nan and some(is_nan):
            # C's function of a signalling NaN and a number is a NaN.
            result = select(is_nan, select(np.isnan(a), b, a), result)
        zero = result == 0
        if not some(zero):
            return result
        # Of two zeros NumPy takes any: minus if one is (for a maximum, if both are).
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
