"""The instruction table: the forms of each mnemonic. An entry is read when one of its forms is first requested."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

from ptxkit.frozen import frozen
from ptxkit.isa import resources
from ptxkit.isa.forms import Form
from ptxkit.isa.notation import parse_entries
from ptxkit.memo import expression

NOT_INSTRUCTIONS = frozenset(("types.isa", "targets.isa", "registers.isa", "directives.isa"))


_NAMING = expression(r"^(?:\S|[ \t]+\.).*", re.M)
"""The lines of an entry that name modifiers: those of its forms, and those with the choices of a slot."""
_MODIFIER = expression(r"\.[\w:]+")
_RANGE = expression(r"\.[\w:]*\{\d+\.\.")
"""Modifiers that an entry names without spelling them out."""


@frozen
class _Entry:
    """The location of an entry: the offset of its text in a file, and its line."""

    file: str
    line: int
    start: int
    end: int


@cache
def forms(mnemonic: str, modifiers: tuple[str, ...] = ()) -> tuple[Form, ...]:
    """The forms of a mnemonic (`ld`, `mbarrier`), none for an unknown one; entries that do not name all these modifiers are skipped.

    Raises NotationError for an invalid entry.
    """
    found = []
    for entry, named, is_open in _entries(mnemonic):
        if is_open or named.issuperset(modifiers):
            found += [form for form in _forms_at(entry) if form.mnemonic == mnemonic]
    return tuple(found)


@cache
def _entries(mnemonic: str) -> tuple[tuple[_Entry, frozenset[str], bool], ...]:
    """The entries of a mnemonic: the location of each, the modifiers it spells out, and whether it names others."""
    found = []
    for entry in _index().get(mnemonic, ()):
        lines = "\n".join(_NAMING.findall(_text(entry.file)[entry.start : entry.end]))
        found.append((entry, frozenset(_MODIFIER.findall(lines)), _RANGE.search(lines) is not None))
    return tuple(found)


@cache
def _forms_at(entry: _Entry) -> tuple[Form, ...]:
    return tuple(parse_entries(_text(entry.file)[entry.start : entry.end], entry.file, entry.line))


@cache
def mnemonics() -> frozenset[str]:
    """Every mnemonic of the table."""
    return frozenset(_index())


def all_forms() -> Iterator[Form]:
    """Every form of the table. Reads all of it."""
    for mnemonic in sorted(_index()):
        yield from forms(mnemonic)


@cache
def _text(file: str) -> str:
    return resources.read(file)


@cache
def _index() -> dict[str, tuple[_Entry, ...]]:
    """The location of the entries of each mnemonic."""
    index: dict[str, list[_Entry]] = {}
    for file in resources.names():
        if file in NOT_INSTRUCTIONS:
            continue
        for names, entry in _entries_of_file(file):
            for name in names:
                index.setdefault(name, []).append(entry)
    return {name: tuple(entries) for name, entries in index.items()}


def _entries_of_file(file: str) -> Iterator[tuple[set[str], _Entry]]:
    """The entries of a file, with the mnemonics of their form lines: examines column 0 only."""
    names: set[str] = set()
    in_body = False
    line = start = offset = 0
    for number, text in enumerate(_text(file).split("\n"), 1):
        first = text[:1]
        if first in (" ", "\t"):
            in_body = True
        elif first not in ("", "#", "\r"):
            if names and in_body:
                yield names, _Entry(file, line, start, offset)
                names = set()
            if not names:
                line, start, in_body = number, offset, False
            names.add(text.split(None, 1)[0].split(".", 1)[0].split("{", 1)[0])
        offset += len(text) + 1
    if names:
        yield names, _Entry(file, line, start, offset)


def entry_text(form: Form) -> str:
    """The entry that declares a form, as in its file, without surrounding blank lines and comments."""
    entry = next(p for p in _index()[form.mnemonic] if (p.file, p.line) == (form.file, form.entry))
    lines = _text(entry.file)[entry.start : entry.end].splitlines()
    return "\n".join(line.rstrip() for line in lines if line.strip() and not line.lstrip().startswith("#"))
