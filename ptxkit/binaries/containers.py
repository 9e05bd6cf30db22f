"""The PTX texts in a file of any kind, and their names."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.binaries import archive, debugtext, elf, fatbin, pe, zipped
from ptxkit.binaries.fatbin import Entry
from ptxkit.binaries.reading import Damaged
from ptxkit.frozen import frozen

EXECUTABLE = (".nv_fatbin", ".nv_fatb")
"""The section whose code a program loads, by its names in ELF and (limited to eight bytes) PE files."""
RELOCATABLE = ("__nv_relfatbin", "__nv_rel")
"""The section of code that is still to be linked (`nvcc -rdc=true`), by its names; it remains in a linked program."""
NESTED = 3
"""Maximum nesting of archives: a wheel, a static archive, an object."""


@frozen
class Member:
    """A text in a file. `name` identifies it: `3.sm_90a.ptx`, or in an archive `reduce.o!3.sm_90a.ptx`."""

    name: str
    number: int
    """Counted from 1 over the whole file."""
    part: str
    """The archive member that contains it, or empty."""
    entry: Entry
    is_relocatable: bool
    """Whether it is still to be linked with others."""


@frozen
class Contents:
    """The texts of a file, and its damaged parts."""

    members: tuple[Member, ...]
    damages: tuple[str, ...]


@frozen
class _Text:
    entry: Entry
    is_relocatable: bool


def is_binary(data: bytes) -> bool:
    """Whether this is a file that may contain PTX among other data: no PTX text has such a prefix."""
    if data.startswith((elf.MAGIC, fatbin.MAGIC, archive.MAGIC, archive.THIN, zipped.MAGIC)):
        return True
    view = memoryview(data)
    return pe.is_pe(view) or pe.is_object(view)


def contents(data: bytes, every: bool = False) -> Contents:
    """The PTX texts of a file in order. Never raises: damaged parts are listed, and the others returned.

    Code that is still to be linked is left out if a program also has linked code with PTX, unless `every` text is requested.
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
    """For each file that is not an archive, its name and texts, or its damage."""
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
    """The texts of one file that is not an archive, executable ones first."""
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
                # such a file is crafted to make reading endless
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
