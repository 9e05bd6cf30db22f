"""Parameter names from the DWARF 2 to 4 in `.section` directives (11.5), as written by `nvcc -G` and `triton`."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.frozen import frozen
from ptxkit.memo import per_object
from ptxkit.syntax import Function, Module, Section

_SIZES = {".b8": 1, ".u8": 1, ".b16": 2, ".u16": 2, ".b32": 4, ".u32": 4, ".b64": 8, ".u64": 8}
_FIXED = {0x01: 8, 0x05: 2, 0x06: 4, 0x07: 8, 0x0B: 1, 0x0C: 1, 0x0E: 4, 0x10: 4, 0x11: 1, 0x12: 2, 0x13: 4, 0x14: 8, 0x17: 4, 0x20: 8}
"""Bytes of the fixed-size forms (DWARF 4, 7.5.4)."""
_COUNTED = {0x03: 2, 0x04: 4, 0x0A: 1}
"""Bytes of the length prefix of blocks."""
_STRING, _BLOCK, _SIGNED, _UNSIGNED, _REFERENCE, _EXPRESSION, _PRESENT = 0x08, 0x09, 0x0D, 0x0F, 0x15, 0x18, 0x19
_SUBPROGRAM, _PARAMETER = 0x2E, 0x05
_NAME, _LOW, _LINKAGE, _LINKAGE_MIPS, _STRP = 0x03, 0x11, 0x6E, 0x2007, 0x0E


@frozen
class _Data:
    """The bytes of a section, and the symbols whose addresses are in it."""

    bytes_: bytes
    symbols: dict[int, str]


@frozen
class _Shape:
    """What an abbreviation says about an entry."""

    tag: int
    has_children: bool
    attributes: tuple[tuple[int, int], ...]


class _Damaged(Exception):
    """Invalid or unsupported DWARF."""


@per_object
def parameter_names(module: Module) -> dict[str, tuple[str, ...]]:
    """The names of parameters by the function's name in the PTX; empty without debug information."""
    sections = {child.name: child for child in module.children if isinstance(child, Section)}
    if ".debug_info" not in sections or ".debug_abbrev" not in sections:
        return {}
    try:
        info, shapes, strings = (_data(sections.get(name)) for name in (".debug_info", ".debug_abbrev", ".debug_str"))
        functions = {child.name for child in module.children if isinstance(child, Function)}
        found = dict(_functions(info, shapes.bytes_, strings.bytes_))
    except (_Damaged, IndexError, ValueError):
        return {}
    return {name: names for name, names in found.items() if name in functions}


def _data(section: Section | None) -> _Data:
    found, symbols = bytearray(), dict[int, str]()
    for line in section.text.splitlines() if section is not None else ():
        words = line.split("//")[0].strip("{} \t;").replace(",", " ").split()
        if not words or words[0] not in _SIZES:
            continue
        size = _SIZES[words[0]]
        for word in words[1:]:
            try:
                value = int(word, 0)
            except ValueError:
                symbols[len(found)] = word
                value = 0
            found += (value % (1 << (8 * size))).to_bytes(size, "little")
    return _Data(bytes(found), symbols)


def _functions(info: _Data, shapes: bytes, strings: bytes) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The subprograms of all units with a name in the PTX, with the names of their parameters."""
    data, at = info.bytes_, 0
    while at + 11 <= len(data):
        end = at + 4 + int.from_bytes(data[at : at + 4], "little")
        version = int.from_bytes(data[at + 4 : at + 6], "little")
        if not 2 <= version <= 4:
            raise _Damaged
        table = _abbreviations(shapes, int.from_bytes(data[at + 6 : at + 10], "little"))
        address = data[at + 10]
        at += 11
        depth, owner, inside = 0, "", 0
        names: list[str] = []
        while at < min(end, len(data)):
            number, at = _leb(data, at)
            if number == 0:
                depth -= 1
                if owner and depth < inside:
                    yield owner, tuple(names)
                    owner = ""
                continue
            shape = table[number] if number in table else _refuse()
            name = linkage = ""
            for attribute, form in shape.attributes:
                if attribute == _NAME:
                    name = _string(data, at, form, strings)
                elif attribute in (_LINKAGE, _LINKAGE_MIPS):
                    linkage = _string(data, at, form, strings)
                elif attribute == _LOW and at in info.symbols and not linkage and shape.tag == _SUBPROGRAM:
                    linkage = info.symbols[at]
                at = _after(data, at, form, address)
            if shape.tag == _SUBPROGRAM and shape.has_children and not owner:
                owner, names, inside = linkage or name, [], depth + 1
            elif shape.tag == _PARAMETER and depth == inside and owner:
                names.append(name)
            depth += shape.has_children
        at = end


def _refuse() -> _Shape:
    raise _Damaged


def _abbreviations(data: bytes, at: int) -> dict[int, _Shape]:
    found: dict[int, _Shape] = {}
    while True:
        number, at = _leb(data, at)
        if number == 0:
            return found
        tag, at = _leb(data, at)
        has_children, at = bool(data[at]), at + 1
        attributes = []
        while True:
            attribute, at = _leb(data, at)
            form, at = _leb(data, at)
            if attribute == form == 0:
                break
            attributes.append((attribute, form))
        found[number] = _Shape(tag, has_children, tuple(attributes))


def _leb(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at


def _string(data: bytes, at: int, form: int, strings: bytes) -> str:
    if form == _STRP:
        start = int.from_bytes(data[at : at + 4], "little")
        return strings[start : strings.index(0, start)].decode("utf-8", "replace") if start < len(strings) else ""
    return data[at : data.index(0, at)].decode("utf-8", "replace") if form == _STRING else ""


def _after(data: bytes, at: int, form: int, address: int) -> int:
    """The offset at which an attribute ends."""
    if form == _STRING:
        return data.index(0, at) + 1
    if form == 0x01:
        return at + address
    if form in _FIXED:
        return at + _FIXED[form]
    if form in _COUNTED:
        size = _COUNTED[form]
        return at + size + int.from_bytes(data[at : at + size], "little")
    if form in (_BLOCK, _EXPRESSION):
        length, at = _leb(data, at)
        return at + length
    if form in (_SIGNED, _UNSIGNED, _REFERENCE):
        return _leb(data, at)[1]
    if form == _PRESENT:
        return at
    raise _Damaged
