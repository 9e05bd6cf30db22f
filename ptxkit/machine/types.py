"""PTX types as NumPy dtypes (ISA 5.2)."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from ptxkit.isa.types import types

B128 = np.dtype([("lo", "<u8"), ("hi", "<u8")])
"""A 128-bit value."""

_NATIVE = {
    **{f".{kind}{bits}": f"{name}{bits}" for kind, name in (("u", "uint"), ("b", "uint"), ("s", "int")) for bits in (8, 16, 32, 64)},
    ".f16": "float16",
    ".f32": "float32",
    ".f64": "float64",
    ".pred": "bool",
}


@cache
def dtype_of(type: str) -> np.dtype[Any]:
    """The dtype of a PTX type: the native one if NumPy has it, otherwise an unsigned integer with its bits."""
    if type in _NATIVE:
        return np.dtype(_NATIVE[type])
    bits = types()[type].bits if type in types() else 64
    return B128 if bits == 128 else np.dtype(f"uint{max(8, 1 << (bits - 1).bit_length())}")


def element_bytes(type: str | None) -> int:
    """Size of one element of a variable in bytes; 8 for opaque types."""
    known = types().get(type or "")
    if known is None:
        return 8
    return 8 if known.kind == "opaque" else max(1, known.bytes)
