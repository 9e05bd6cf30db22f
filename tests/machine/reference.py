"""What numbers must be, by fractions: rounded exactly, to any binary format and in any mode."""

from __future__ import annotations

import math
from fractions import Fraction

MODES = ("rn", "rz", "rm", "rp")


def rounded(exact: Fraction, mode: str, precision: int, least: int, most: int) -> float:
    """An exact number that is not zero, rounded to a format of so many bits, of steps not below 2^least and numbers below 2^most."""
    size = abs(exact)
    step = max(size.numerator.bit_length() - size.denominator.bit_length() - precision - 1, least)
    while size >= Fraction(2) ** (step + precision):
        step += 1
    count = size / Fraction(2) ** step
    whole, rest = math.floor(count), count - math.floor(count)
    half = Fraction(1, 2)
    whole += {
        "rn": rest > half or (rest == half and whole % 2 == 1),
        "rna": rest >= half,
        "rz": False,
        "rm": rest > 0 and exact < 0,
        "rp": rest > 0 and exact > 0,
    }[mode]
    result = Fraction(whole) * Fraction(2) ** step
    if result >= Fraction(2) ** most:
        outwards = mode in ("rn", "rna") or (mode == "rm" and exact < 0) or (mode == "rp" and exact > 0)
        result_float = math.inf if outwards else float((2**precision - 1) * Fraction(2) ** (most - precision))
    else:
        result_float = float(result)
    return math.copysign(result_float, 1 if exact > 0 else -1)


SINGLE = (24, -149, 128)
DOUBLE = (53, -1074, 1024)
HALF = (11, -24, 16)
BFLOAT = (8, -133, 128)
"""The arguments of `rounded` for these formats."""


def zero_of_sum(a: float, b: float, mode: str) -> float:
    """A sum that is exactly zero."""
    if a == b == 0 and math.copysign(1, a) == math.copysign(1, b):
        return a
    return -0.0 if mode == "rm" else 0.0


def same(a: float, b: float) -> bool:
    """Whether two numbers are the same, signs of zeros too; NaNs are."""
    return (a != a and b != b) or (a == b and math.copysign(1, a) == math.copysign(1, b))
