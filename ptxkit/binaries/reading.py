"""Bounds-checked reading of numbers and byte ranges."""

from __future__ import annotations

import struct
from typing import Any


class Damaged(Exception):
    """Bytes that are not what they claim to be: the problem, and its offset."""

    def __init__(self, message: str, offset: int) -> None:
        super().__init__(message, offset)
        self.message = message
        self.offset = offset

    def moved(self, by: int) -> Damaged:
        """The same, relative to another offset."""
        return Damaged(self.message, self.offset + by)

    def __str__(self) -> str:
        return f"at byte {self.offset:#x}: {self.message}"


def numbers(format_: str, data: memoryview, offset: int, what: str) -> tuple[Any, ...]:
    """The fields of a structure at an offset. Raises Damaged if the data ends before it does."""
    if offset < 0 or offset + struct.calcsize(format_) > len(data):
        raise Damaged(f"{what} is cut short", min(max(offset, 0), len(data)))
    return struct.unpack_from(format_, data, offset)


def stretch(data: memoryview, offset: int, size: int, what: str) -> memoryview:
    """`size` bytes at an offset. Raises Damaged if there are fewer."""
    if offset < 0 or size < 0 or offset + size > len(data):
        raise Damaged(f"{what} is cut short", min(max(offset, 0), len(data)))
    return data[offset : offset + size]


def word(data: memoryview, offset: int, most: int = 4096) -> str:
    """The text up to the next zero byte, at most `most` bytes; empty if the offset is out of range."""
    if not 0 <= offset < len(data):
        return ""
    return bytes(data[offset : offset + most]).partition(b"\0")[0].decode("utf-8", "replace")
