"""Values of literal numbers (4.5)."""

from __future__ import annotations

import struct
from functools import lru_cache


@lru_cache(maxsize=4096)
def number_value(text: str) -> int | float:
    """The value of a literal as written. Raises ValueError if it is invalid, or if it has thousands of digits."""
    sign, text = (-1, text[1:]) if text.startswith("-") else (1, text)
    head = text[:2].lower()
    if head == "0f" and len(text) == 10:
        return sign * float(struct.unpack(">f", bytes.fromhex(text[2:]))[0])
    if head == "0d" and len(text) == 18:
        return sign * float(struct.unpack(">d", bytes.fromhex(text[2:]))[0])
    digits = text.rstrip("U")
    if head == "0x":
        return sign * int(digits, 16)
    if head == "0b":
        return sign * int(digits, 2)
    if "." in digits or "e" in digits.lower():
        return sign * float(digits)
    if digits.startswith("0") and len(digits) > 1:
        return sign * int(digits, 8)
    return sign * int(digits)
