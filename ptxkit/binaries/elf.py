"""The sections of ELF files: programs, shared libraries, objects."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from ptxkit.binaries.reading import Damaged, numbers, stretch, word
from ptxkit.frozen import frozen

MAGIC = b"\x7fELF"
CUDA = 190
"""The machine number of cubins."""
NO_BITS = 8
"""The type of a section without contents in the file."""
EXTENDED = 0xFFFF
"""Marks a number that is too large for its field and is stored in the first section header."""


@frozen
class Section:
    """A section: its name and location, in bytes."""

    name: str
    offset: int
    data: memoryview


def machine(data: memoryview) -> int:
    """The machine number of the file. Raises Damaged."""
    order = ">" if numbers("B", data, 5, "the ELF header")[0] == 2 else "<"
    return int(numbers(f"{order}H", data, 18, "the ELF header")[0])


def sections(data: memoryview) -> Iterator[Section]:
    """The sections with contents, in the order of the section table. Raises Damaged."""
    wide, order = numbers("BB", data, 4, "the ELF header")
    form = ">" if order == 2 else "<"
    if wide == 1:
        start, _, _, _, _, size, count, names_at = numbers(f"{form}IIHHHHHH", data, 32, "the ELF header")
        entry = f"{form}IIIIIIIIII"
    else:
        start, _, _, _, _, size, count, names_at = numbers(f"{form}QIHHHHHH", data, 40, "the ELF header")
        entry = f"{form}IIQQQQIIQQ"
    if not start:
        return
    if size < struct.calcsize(entry):
        raise Damaged("a table of sections whose entries are too short", start)
    first = numbers(entry, data, start, "the table of sections")
    count = count or first[5]
    names_at = first[6] if names_at == EXTENDED else names_at
    names = numbers(entry, data, start + names_at * size, "the table of sections")
    strings = stretch(data, names[4], names[5], "the names of the sections")
    for i in range(count):
        name, kind, _, _, offset, length, *_ = numbers(entry, data, start + i * size, "the table of sections")
        if kind != NO_BITS and length:
            # a truncated section is read as far as it goes: its contents show where they break off
            yield Section(word(strings, name), offset, data[offset : offset + length])
