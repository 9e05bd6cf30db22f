"""The contents of registers of floating-point types: one or more numbers, each encoded as a code; conversion between codes and doubles."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from ptxkit.frozen import frozen
from ptxkit.machine.types import dtype_of
from ptxkit.machine.values.floats import canonical
from ptxkit.machine.values.formats import FORMATS, decode, encode, largest
from ptxkit.machine.values.half import to_bfloat, to_half, to_tf32
from ptxkit.machine.values.integers import select, some
from ptxkit.machine.values.packed import join, split
from ptxkit.machine.values.rounding import to_single

_DIRECT: dict[str, Callable[[Any, str], Any]] = {
    ".f32": lambda exact, mode: canonical(to_single(exact, mode)),
    ".f16": to_half,
    ".bf16": to_bfloat,
    ".tf32": to_tf32,
    ".f64": lambda exact, mode: exact,
}
"""Types that are rounded directly, without a scaled integer."""

_CODES: dict[str, np.dtype[Any]] = {
    ".f32": np.dtype(np.float32),
    ".f64": np.dtype(np.float64),
    ".f16": np.dtype(np.uint16),
    ".bf16": np.dtype(np.uint16),
    ".tf32": np.dtype(np.uint32),
}

_MEDIUM, _SPAN = np.uint16((127 - 50) << 7), np.uint16(100 << 7)

_FIXED = ".s2f6"
"""A fixed-point number in two's complement, in units of 1/64."""


@frozen
class Elements:
    """The numbers in a register of a type. Those of a packed type are along the last axis, the lowest bits first."""

    type: str
    base: str
    count: int

    @property
    def register(self) -> np.dtype[Any]:
        """The dtype of the register, as bits."""
        return np.dtype(f"u{dtype_of(self.type).itemsize}")

    @property
    def code(self) -> np.dtype[Any]:
        """The dtype of a code: unsigned; for `.f32` and `.f64` that of the number."""
        return _CODES.get(self.base, np.dtype(np.uint8))

    @property
    def least(self) -> float:
        """The least normal number."""
        exponents = {".f32": -126, ".f64": -1022}
        return 2.0 ** (exponents[self.base] if self.base in exponents else FORMATS[self.base].smallest_exponent)

    def codes(self, register: Any) -> Any:
        """The codes in a register."""
        if self.count == 1:
            return register.view(self.code)
        if self.base == ".e2m1":
            nibbles = [(register >> (4 * place)) & 15 for place in range(self.count)]
            return np.stack(np.broadcast_arrays(*nibbles), axis=-1).astype(np.uint8)
        return split(register, self.code)

    def joined(self, codes: Any) -> Any:
        """A register with these codes."""
        if self.count == 1:
            return codes
        if self.base == ".e2m1":
            places = np.arange(self.count, dtype=self.register) * self.register.type(4)
            return np.bitwise_or.reduce(codes.astype(self.register) << places, axis=-1)
        return join(codes.astype(self.code), self.register)

    def singles(self, codes: Any) -> Any | None:
        """Codes of half precision or bfloat16 as single precision; None if products of them, or sums of products, might leave its range."""
        if self.base == ".bf16":
            size = codes & np.uint16(0x7FFF)
            # From 2^-50 to 2^50, or zero.
            if some((size - _MEDIUM > _SPAN) & (size != 0)):
                return None
        return self.numbers(codes, np.float32) if self.base in (".f16", ".bf16") else None

    def numbers(self, codes: Any, dtype: Any = np.float64) -> Any:
        """Codes as doubles, or as numbers of another dtype that represents all of them."""
        if self.base == ".f16":
            return codes.view(np.float16).astype(dtype)
        if self.base in (".bf16", ".tf32"):
            shift = 16 if self.base == ".bf16" else 0
            return (codes.astype(np.uint32) << shift).view(np.float32).astype(dtype, copy=False)
        if self.base == _FIXED:
            return (codes.view(np.int8) / np.float64(64)).astype(dtype, copy=False)
        return (codes if self.base in (".f32", ".f64") else decode(codes, FORMATS[self.base])).astype(dtype, copy=False)

    def rounded(self, exact: Any, mode: str, *, finite: bool = False, random: Any = 0, random_bits: int = 16) -> Any:
        """Rounds doubles to codes; with `finite`, overflows become the largest number."""
        if self.base == _FIXED:
            steps = np.clip((np.rint if mode == "rn" else np.trunc)(exact * 64), -128, 127)
            return select(np.isnan(steps), 127, steps).astype(np.int8).view(np.uint8)
        if finite:
            exact = np.clip(exact, -largest(self.base), largest(self.base))
        if mode != "rs" and self.base in _DIRECT:
            return _DIRECT[self.base](exact, mode)
        return encode(exact, FORMATS[self.base], mode, random, random_bits).astype(self.code)


@cache
def elements_of(type: str) -> Elements:
    """The elements of a type: `.f16x2` has two of `.f16`."""
    base, _, count = type.partition("x") if type[-2] == "x" else (type, "", "1")
    return Elements(type, base, int(count))
