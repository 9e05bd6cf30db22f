"""Encoding and decoding of half precision, bfloat16, tf32, and 8-bit, 6-bit and 4-bit floats (ISA 5.2.3).

Inputs are doubles that are exact, or rounded to odd (`rounding.py`). Rounding modes are those of `rounding.py`, and `rs`: away from zero if
adding random bits to the dropped bits carries.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from ptxkit.frozen import frozen
from ptxkit.machine.values.integers import select


@frozen
class Format:
    """A binary floating-point format.

    `largest` is the code of the largest finite number. `infinity` and `nan` are codes, or -1 if there are none: without infinity an
    overflow gives NaN, without NaN it gives the largest number. `shift` is the position of codes in a register.
    """

    bits: int
    mantissa: int
    bias: int
    largest: int
    infinity: int = -1
    nan: int = -1
    has_sign: bool = True
    shift: int = 0

    @property
    def smallest_exponent(self) -> int:
        """The exponent of the least normal number. A format without mantissa has no zero: its code 0 is normal."""
        return 1 - self.bias if self.mantissa else -self.bias

    @property
    def sign(self) -> int:
        """The sign bit."""
        return 1 << (self.bits - 1) if self.has_sign else 0


FORMATS = {
    ".f16": Format(16, 10, 15, 0x7BFF, 0x7C00, 0x7FFF),
    ".bf16": Format(16, 7, 127, 0x7F7F, 0x7F80, 0x7FFF),
    ".tf32": Format(19, 10, 127, 0x3FBFF, 0x3FC00, 0x3FFFF, shift=13),
    ".e5m2": Format(8, 2, 15, 0x7B, 0x7C, 0x7F),
    ".e4m3": Format(8, 3, 7, 0x7E, nan=0x7F),
    ".e3m2": Format(6, 2, 3, 0x1F),
    ".e2m3": Format(6, 3, 1, 0x1F),
    ".e2m1": Format(4, 1, 1, 0x7),
    ".ue8m0": Format(8, 0, 127, 0xFE, nan=0xFF, has_sign=False),
    # No manual at hand says more of it than its name: as .e4m3, with a bit more exponent in place of the sign.
    ".ue5m3": Format(8, 3, 15, 0xFE, nan=0xFF, has_sign=False),
}
"""Formats by PTX type; packed types consist of several of these."""


def largest(type: str) -> float:
    """The largest finite number of a type."""
    return _number(FORMATS[type], FORMATS[type].largest)


def encode(x: Any, format: Format, mode: str, random: Any = 0, random_bits: int = 16) -> Any:
    """Doubles as codes of a format (`uint64`). A format without sign takes the absolute value.

    `random` are the random bits for mode `rs`, as integers of `random_bits` bits, aligned with the highest dropped bits.
    """
    negative = np.signbit(x) & np.bool_(format.has_sign)
    least = format.smallest_exponent
    size = np.absolute(x) if format.mantissa else np.maximum(np.absolute(x), 2.0**least)
    exponent = select(size == 0, least, np.maximum(np.frexp(size)[1] - 1, least))
    steps = _to_integer(np.ldexp(size, format.mantissa - exponent), mode, negative, random * 2.0**-random_bits)
    # a step beyond the mantissa carries into the exponent, as intended
    code = (exponent - least) * 2.0**format.mantissa + steps - (format.mantissa == 0)
    code = select(code > format.largest, _past_largest(format, mode, negative), code)
    code = select(np.isinf(x), _infinite(format), code)
    is_nan = np.isnan(x)
    code = select(is_nan, _nan(format), code)
    sign = select(negative & ~is_nan, np.uint64(format.sign), np.uint64(0))
    return (code.astype(np.uint64) | sign) << np.uint64(format.shift)


def _to_integer(y: Any, mode: str, negative: Any, fraction: Any) -> Any:
    if mode == "rn":
        return np.rint(y)
    if mode == "rna":
        return np.floor(y + 0.5)
    if mode == "rs":
        return np.floor(y + fraction)
    if mode == "rz":
        return np.floor(y)
    return select(negative if mode == "rm" else ~negative, np.ceil(y), np.floor(y))


def _infinite(format: Format) -> float:
    return float(format.infinity) if format.infinity >= 0 else _nan(format)


def _nan(format: Format) -> float:
    return float(format.nan if format.nan >= 0 else format.largest)


def _past_largest(format: Format, mode: str, negative: Any) -> Any:
    """The code of a finite number that is too large."""
    if mode == "rz":
        return float(format.largest)
    if mode in ("rm", "rp"):
        return select(negative if mode == "rm" else ~negative, _infinite(format), float(format.largest))
    return _infinite(format)


def decode(codes: Any, format: Format) -> Any:
    """Codes of a format of at most eight bits as doubles; higher bits are ignored."""
    return _numbers(format)[codes & codes.dtype.type((1 << format.bits) - 1)]


@cache
def _numbers(format: Format) -> Any:
    numbers = np.array([_number(format, code) for code in range(1 << format.bits)])
    numbers.flags.writeable = False
    return numbers


def _number(format: Format, code: int) -> float:
    size = code & ~format.sign
    if size == format.infinity:
        number = np.inf
    elif size > format.largest:
        return np.nan
    elif format.mantissa == 0:
        number = 2.0 ** (size - format.bias)
    else:
        exponent, mantissa = size >> format.mantissa, size & ((1 << format.mantissa) - 1)
        number = (mantissa + (exponent > 0) * 2.0**format.mantissa) * 2.0 ** (max(exponent, 1) - format.bias - format.mantissa)
    return -number if code & format.sign else number
