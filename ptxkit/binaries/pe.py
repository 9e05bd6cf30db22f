"""The sections of PE files: Windows programs and libraries."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.binaries.elf import Section
from ptxkit.binaries.reading import numbers, word

MAGIC = b"MZ"
SIGNATURE = b"PE\0\0"
MACHINES = (b"\x64\x86", b"\x64\xaa")
"""x86-64 and Arm64."""


def is_pe(data: memoryview) -> bool:
    """Whether this is a PE file: a DOS header that locates a PE signature."""
    if len(data) < 64 or data[:2] != MAGIC:
        return False
    (at,) = numbers("<I", data, 60, "the DOS header")
    return bytes(data[at : at + 4]) == SIGNATURE


def is_object(data: memoryview) -> bool:
    """Whether this may be a Windows object, whose only magic number is that of its machine."""
    return bytes(data[:2]) in MACHINES and len(data) > 20


def sections(data: memoryview) -> Iterator[Section]:
    """The sections with contents, in the order of the section table. Raises Damaged."""
    (at,) = numbers("<I", data, 60, "the DOS header")
    yield from table(data, at + 4)


def table(data: memoryview, at: int) -> Iterator[Section]:
    """The sections of a COFF header at `at`: that of an object, or of a PE file after its signature. Raises Damaged."""
    _, count, _, symbols, symbol_count, optional, _ = numbers("<HHIIIHH", data, at, "the COFF header")
    strings = symbols + 18 * symbol_count
    for i in range(count):
        name, _, _, length, offset, *_ = numbers("<8sIIIIIIHHI", data, at + 20 + optional + 40 * i, "the table of sections")
        text = name.rstrip(b"\0").decode("utf-8", "replace")
        if text[:1] == "/" and text[1:].isdecimal():
            # names longer than eight bytes are in the string table
            text = word(data, strings + int(text[1:]))
        if length and offset:
            yield Section(text, offset, data[offset : offset + length])
