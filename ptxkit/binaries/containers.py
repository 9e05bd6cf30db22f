"""Which texts a file of any kind holds, and what each is called."""

from __future__ import annotations

from collections.abc import Iterator

import attrs

from ptxkit.binaries import archive, debugtext, elf, fatbin, pe, zipped
from ptxkit.binaries.fatbin import Entry
from ptxkit.binaries.reading import Damaged

EXECUTABLE = (".nv_fatbin", ".nv_fatb")
"""The section whose codes a program loads, by its names in ELF and, eight bytes long, PE files."""
RELOCATABLE = ("__nv_relfatbin", "__nv_rel")
"""The section whose codes are still to be linked (`nvcc -rdc=true`), by its names; a linked program has them left over."""
NESTED = 3
"""How many archives may stand one in the other: a wheel, a static archive, an object."""


@attrs.frozen
class Member:
    """A text in a file. `name` tells it from the others: `3.sm_90a.ptx`, in an archive `reduce.o!3.sm_90a.ptx`."""

    name: str
    number: int
    """Counted from 1 through the file."""
    part: str
    """The archive's member that it is in, or empty."""
    entry: Entry
    is_relocatable: bool
    """Whether it is still to be linked with others."""


@attrs.frozen
class Contents:
    """The texts of a file, and what is damaged in it."""

    members: tuple[Member, ...]
    damages: tuple[str, ...]


@attrs.frozen
class _Text:
    entry: Entry
    is_relocatable: bool


def is_binary(data: bytes) -> bool:
    """Whether this is a file that may hold PTX beside other things: no PTX text starts as these do."""
    if data.startswith((elf.MAGIC, fatbin.MAGIC, archive.MAGIC, archive.THIN, zipped.MAGIC)):
        return True
    view = memoryview(data)
    return pe.is_pe(view) or pe.is_object(view)


def contents(data: bytes, every: bool = False) -> Contents:
    """The PTX texts of a file in their order. It raises nothing: what is damaged is listed, and what is not damaged is there.

    Code that is still to be linked is left out where a program has linked code with PTX besides, unless `every` text is asked for.
    """
    members: list[Member] = []
    damages: list[str] = []
    for part, found in _texts_of_parts(data):
        if isinstance(found, Damaged):
            damages.append(f"{part}: {found}" if part else str(found))
            continue
        keep = [one for one in found if every or one.is_relocatable == found[0].is_relocatable]
        for text in keep:
            name = f"{len(members) + 1}.{text.entry.target}.ptx"
            members.append(Member(f"{part}!{name}" if part else name, len(members) + 1, part, text.entry, text.is_relocatable))
    return Contents(tuple(members), tuple(damages))


def _texts_of_parts(data: bytes) -> Iterator[tuple[str, list[_Text] | Damaged]]:
    """For each file that is no archive its name and its texts, and what is damaged."""
    stack: list[Iterator[tuple[str, memoryview, int]]] = [iter([("", memoryview(data), 0)])]
    while stack:
        try:
            part, body, base = next(stack[-1])
        except StopIteration:
            stack.pop()
            continue
        except Damaged as error:
            stack.pop()
            yield "", error
            continue
        if len(stack) <= NESTED and body[: len(archive.MAGIC)] in (archive.MAGIC, archive.THIN):
            stack.append(_named(part, base, archive.members(body)))
        elif len(stack) <= NESTED and zipped.is_zip(body):
            stack.append(_named(part, base, zipped.members(body)))
        else:
            texts: list[_Text] = []
            for found in _texts(body, base):
                if isinstance(found, Damaged):
                    yield part, found
                else:
                    texts.append(found)
            yield part, texts


def _named(part: str, base: int, members: Iterator[archive.Part]) -> Iterator[tuple[str, memoryview, int]]:
    for member in members:
        yield f"{part}!{member.name}" if part else member.name, member.data, base + member.offset


def _texts(data: memoryview, base: int) -> Iterator[_Text | Damaged]:
    """The texts of one file that is no archive, executable ones first."""
    if data[:4] == fatbin.MAGIC:
        yield from _entries(data, base, False)
        return
    try:
        sections = list(_sections(data))
        is_cubin = data[:4] == elf.MAGIC and elf.machine(data) == elf.CUDA
    except Damaged as error:
        yield error.moved(base)
        return
    for names in (EXECUTABLE, RELOCATABLE):
        end = 0
        for section in sorted([one for one in sections if one.name in names], key=lambda one: one.offset):
            if section.offset < end:
                # such a file is made to be read without end
                yield Damaged("sections that overlap", base + section.offset)
                break
            end = section.offset + len(section.data)
            yield from _entries(section.data, base + section.offset, names is RELOCATABLE)
    for section in sections if is_cubin else ():
        if section.name == debugtext.SECTION:
            yield _Text(debugtext.entry(section.data, base + section.offset), False)


def _sections(data: memoryview) -> Iterator[elf.Section]:
    if data[:4] == elf.MAGIC:
        yield from elf.sections(data)
    elif pe.is_pe(data):
        yield from pe.sections(data)
    elif pe.is_object(data):
        yield from pe.table(data, 0)


def _entries(data: memoryview, base: int, is_relocatable: bool) -> Iterator[_Text | Damaged]:
    for entry in fatbin.entries(data, base):
        yield entry if isinstance(entry, Damaged) else _Text(entry, is_relocatable)
