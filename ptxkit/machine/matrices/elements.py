"""Elements of matrices: conversion from and to registers, and interpretation of their bits (ISA 5.2.3, 9.7.15.2).

A `Format` describes a floating-point type by tables over its bits, so that all types are handled alike: value, exponent by which a tensor
core aligns (for a subnormal, that of the least normal number), and exponent of the lowest set bit.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from ptxkit.frozen import frozen

Bits = np.ndarray[Any, Any]

BITS = {
    ".f64": 64,
    **dict.fromkeys((".f32", ".tf32", ".s32"), 32),
    **dict.fromkeys((".f16", ".bf16"), 16),
    **dict.fromkeys((".s8", ".u8", ".e4m3", ".e5m2", ".e3m2", ".e2m3", ".e2m1", ".ue8m0", ".ue4m3"), 8),
    **dict.fromkeys((".s4", ".u4"), 4),
    ".b1": 1,
}
"""Size of an element in a fragment, in bits. 6-bit and 4-bit floats occupy bytes, unless a kind packs them."""

NO_EXPONENT = -2000
"""The exponent of zero, below all others."""
NO_BIT = 2000
"""The lowest set bit of zero, above all others; that of infinities and NaNs is far below all others, so that sums with them are never
treated as exact."""


@frozen(eq=False)
class Format:
    """A floating-point type. The tables are indexed by `(bits & mask) >> shift`."""

    mask: int
    shift: int
    values: np.ndarray[Any, np.dtype[np.float64]]
    exponents: np.ndarray[Any, np.dtype[np.int16]]
    lowest: np.ndarray[Any, np.dtype[np.int16]]
    finite: bool
    single: np.ndarray[Any, np.dtype[np.float32]]
    """The values as float32, if they and their products are exact in it (`small`)."""

    @property
    def small(self) -> bool:
        return len(self.single) > 0

    @property
    def sign(self) -> int:
        """The sign bit of an element."""
        return (self.mask + (1 << self.shift)) >> 1

    def index(self, bits: Bits) -> Bits:
        """The table indices of elements given by their bits."""
        if self.shift == 0:
            return bits & self.mask if self.mask < np.iinfo(bits.dtype).max else bits
        return (bits & self.mask) >> self.shift


# exponent bits, fraction bits, and use of the highest exponent: numbers only, numbers and one NaN, or infinities and NaNs
_FLOATS = {
    ".f16": (5, 10, "ieee"),
    ".bf16": (8, 7, "ieee"),
    ".tf32": (8, 10, "ieee"),
    ".e5m2": (5, 2, "ieee"),
    ".e4m3": (4, 3, "nan"),
    ".e3m2": (3, 2, "numbers"),
    ".e2m3": (2, 3, "numbers"),
    ".e2m1": (2, 1, "numbers"),
}
_SHIFTS = {".tf32": 13, ".e2m1": 2}


@cache
def format_of(type: str, packed: bool = False) -> Format:
    """The format of a floating-point type; `.e2m1` is in the middle of its byte unless packed (ISA 9.7.15.2)."""
    exponent_bits, fraction_bits, top = _FLOATS[type]
    width = 1 + exponent_bits + fraction_bits
    shift = 0 if packed else _SHIFTS.get(type, 0)
    codes = np.arange(1 << width)
    exponent = (codes >> fraction_bits) & ((1 << exponent_bits) - 1)
    fraction = codes & ((1 << fraction_bits) - 1)
    significand = fraction + ((exponent > 0) << fraction_bits)
    unbiased = np.maximum(exponent, 1) - ((1 << (exponent_bits - 1)) - 1)
    values = np.ldexp(significand.astype(np.float64), unbiased - fraction_bits)
    highest = exponent == (1 << exponent_bits) - 1
    if top == "ieee":
        values[highest] = np.where(fraction[highest] == 0, np.inf, np.nan)
    elif top == "nan":
        values[highest & (fraction == (1 << fraction_bits) - 1)] = np.nan
    values = np.where(codes >> (width - 1), -values, values)
    zero = significand == 0
    finite = np.isfinite(values)
    trailing = np.zeros(codes.size, np.int64)
    for place in range(fraction_bits, 0, -1):
        trailing[significand % (1 << place) == 0] += 1
    exponents = np.where(zero, NO_EXPONENT, unbiased).astype(np.int16)
    lowest = np.where(zero, NO_BIT, np.where(finite, unbiased - fraction_bits + trailing, -NO_BIT)).astype(np.int16)
    return Format(
        ((1 << width) - 1) << shift,
        shift,
        values,
        exponents,
        lowest,
        bool(finite.all()),
        values.astype(np.float32) if exponent_bits <= 5 else np.empty(0, np.float32),
    )


@cache
def scale_format(type: str) -> Format:
    """The 256 codes of a scale: powers of two (`.ue8m0`) or small unsigned floats (`.ue4m3`)."""
    codes = np.arange(256)
    if type == ".ue8m0":
        values = np.where(codes == 255, np.nan, np.ldexp(1.0, codes - 127))
        exponents = (codes - 127).astype(np.int16)
        return Format(255, 0, values, exponents, exponents, False, np.empty(0, np.float32))
    small = format_of(".e4m3")
    return Format(
        255, 0, np.abs(small.values)[codes & 127], small.exponents[codes & 127], small.lowest[codes & 127], False, np.empty(0, np.float32)
    )


def unpacked(words: Bits, bits: int) -> Bits:
    """The elements in registers: (…, registers) of 32 or 64 bits to (…, elements), low ones first; 1-bit elements remain words."""
    words = np.ascontiguousarray(words)
    if bits == 4:
        octets = words.view(np.uint8)
        return np.stack((octets & 15, octets >> 4), -1).reshape(*octets.shape[:-1], -1)
    if bits == 1 or bits == words.dtype.itemsize * 8:
        return words
    return words.view(np.dtype(f"uint{bits}"))


def widened(octets: Bits, width: int) -> Bits:
    """Expands sixteen 4-bit or 6-bit elements at the start of 16 bytes (…, 16) with padding to bytes (`b4x16_p64`, `b6x16_p32`)."""
    if width == 4:
        return np.stack((octets[..., :8] & 15, octets[..., :8] >> 4), -1).reshape(octets.shape)
    triples = octets[..., :12].reshape(*octets.shape[:-1], 4, 3).astype(np.uint32)
    joined = triples[..., 0] | triples[..., 1] << 8 | triples[..., 2] << 16
    return (joined[..., None] >> np.arange(0, 24, 6, dtype=np.uint32) & 63).astype(np.uint8).reshape(octets.shape)


def packed(elements: Bits, register: np.dtype[Any]) -> Bits:
    """Packs elements (…, elements) into registers (…, registers) of this type."""
    return np.ascontiguousarray(elements).view(register)


def integers(elements: Bits, type: str) -> Bits:
    """The values of 4-bit or 8-bit integers, as `int8` or `uint8`."""
    if type == ".s8":
        return elements.view(np.int8)
    if type == ".s4":
        return ((elements ^ 8).astype(np.int8)) - np.int8(8)
    return elements
