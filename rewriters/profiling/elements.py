"""Device number types and their encoding."""

from __future__ import annotations

import array
import math
import struct
from collections.abc import Iterable, Sequence

INTEGERS = {"i8": (1, True), "u8": (1, False), "i16": (2, True), "u16": (2, False), "i32": (4, True), "u32": (4, False)}
INTEGERS |= {"i64": (8, True), "u64": (8, False)}
FLOATS = {"f16": 2, "bf16": 2, "f32": 4, "f64": 8}
SIZES = {name: size for name, (size, _) in INTEGERS.items()} | FLOATS
"""Bytes of each type."""
CODES = {"i8": "b", "u8": "B", "i16": "h", "u16": "H", "i32": "i", "u32": "I", "i64": "q", "u64": "Q", "f16": "e", "f32": "f", "f64": "d"}


def packed(type_: str, values: Iterable[int | float]) -> bytes:
    """Encodes numbers as they are on the device. Raises OverflowError for a float that is too large."""
    if type_ == "bf16":
        full = packed("f32", values)
        return b"".join([full[at + 2 : at + 4] for at in range(0, len(full), 4)])
    if type_ == "f16":
        numbers = list(values)
        return struct.pack(f"<{len(numbers)}e", *numbers)
    return array.array(CODES[type_], values).tobytes()


def unpacked(type_: str, data: bytes) -> Sequence[int | float]:
    """Decodes numbers."""
    if type_ == "bf16":
        return unpacked("f32", b"".join([b"\0\0" + data[at : at + 2] for at in range(0, len(data), 2)]))
    if type_ == "f16":
        return struct.unpack(f"<{len(data) // 2}e", data)
    numbers = array.array(CODES[type_])
    numbers.frombytes(data)
    return numbers


def fits(type_: str, value: float) -> bool:
    """Whether a float is in the range of a floating-point type."""
    try:
        (found,) = unpacked(type_, packed(type_, [value]))
    except OverflowError:
        return False
    return math.isinf(value) == math.isinf(found)
