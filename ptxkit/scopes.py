"""Symbols, and the scopes that contain them (4.4, 5.4).

A `{}` opens a scope; an inner declaration hides an outer one. `%r<100>` declares %r0 to %r99 without listing them.
"""

from __future__ import annotations

import enum

import attrs

from ptxkit.frozen import frozen
from ptxkit.syntax import Node, Path

DIGITS = "0123456789"


class Kind(enum.StrEnum):
    """The kind of a symbol."""

    REGISTER = "register"
    VARIABLE = "variable"
    PARAMETER = "parameter"
    LABEL = "label"
    FUNCTION = "function"


_members: dict[str, list[str]] = {}
"""By stem: names of members of register families, which most scopes have in common."""

MOST_STEMS = 64
MOST_MEMBERS = 1 << 16
"""So many stems, and names for each, are kept."""


def members(stem: str, count: int) -> list[str]:
    """The names of a register family: `%r0`, `%r1`…"""
    known = _members.get(stem, [])
    if len(known) < count:
        known = [*known, *[f"{stem}{number}" for number in range(len(known), count)]]
        if count <= MOST_MEMBERS:
            if len(_members) >= MOST_STEMS:
                _members.clear()
            _members[stem] = known
    return known[:count]


MANY_EACH = 16
"""A family is enumerated if it has at most so many members for each name that is looked up."""


@frozen(eq=False)
class Symbol:
    """A declared name. For `%r<100>`, `count` is 100 and `name` is `%r`. Sizes and types are those of one element."""

    name: str
    kind: Kind
    path: Path
    """The path of the name in its declaration."""
    space: str | None = None
    type: str | None = None
    vector: int = 1
    align: int | None = None
    dimensions: tuple[int | None, ...] = ()
    """The sizes of an array's dimensions, None if unsized; empty for a scalar."""
    count: int | None = None
    linkage: str | None = None
    declares: Node | None = attrs.field(default=None, repr=False)
    """The function, label, declaration or parameter that declares it."""

    @property
    def is_open_ended(self) -> bool:
        """Whether a variable may be longer than its declaration says: a `.extern` one, or shared memory of length zero, which LLVM
        declares as a single `.b8` with the alignment of what it holds (and a byte as `.u8`). What follows the latter is dynamic."""
        is_empty = self.type == ".b8" and not self.dimensions and (self.align or 1) > 1
        return self.linkage == ".extern" or (is_empty and (self.space or "").startswith(".shared"))


@frozen(eq=False)
class Scope:
    """The names declared in a module, function or block."""

    path: Path
    parent: Scope | None
    symbols: dict[str, Symbol]
    ranges: dict[str, list[Symbol]]
    _found: dict[str, Symbol | None] = attrs.field(factory=dict, repr=False, init=False)

    def meanings(self, names: set[str]) -> tuple[list[Symbol], dict[str, Symbol | None]]:
        """Looks up names in bulk: the families of this scope (`%r<100>`) that declare some of them, and what each of the others means.

        Numbers among the names are left out.
        """
        own = self.symbols.keys() & names
        rest = names - own
        met: list[Symbol] = []
        for symbol in self._families() if self.ranges else ():
            count, before = symbol.count or 0, len(rest)
            if count > MANY_EACH * before:
                break
            rest.difference_update(members(symbol.name, count))
            if len(rest) < before:
                met.append(symbol)
        return met, {name: self.lookup(name) for name in sorted(own | rest) if not name[0].isdecimal()}

    def _families(self) -> list[Symbol]:
        """The families, each before those that declare a name only if it does not."""
        ordered = sorted(self.ranges, key=lambda stem: (len(self.ranges[stem]) > 1 or stem[-1:].isdecimal(), -len(stem)))
        return [symbol for stem in ordered for symbol in self.ranges[stem]]

    def local(self, name: str) -> Symbol | None:
        """The symbol of that name declared in this scope itself."""
        found = self.symbols.get(name)
        if found is not None or not self.ranges:
            return found
        stem = name.rstrip(DIGITS)
        if stem == name:
            return None
        family = self.ranges.get(stem)
        if family is not None and len(family) == 1:
            digits, only = name[len(stem) :], family[0]
            if (digits[0] != "0" or digits == "0") and len(digits) < 19 and int(digits) < (only.count or 0):
                return only
        return self._member(name)

    def _member(self, name: str) -> Symbol | None:
        """The family that declares a name, for any split of its digits: `%r1<5>` also declares %r12."""
        at = len(name)
        while at and len(name) - at < 18 and name[at - 1].isdecimal():
            at -= 1
            family = self.ranges.get(name[:at])
            digits = name[at:]
            if family is None or (len(digits) > 1 and digits[0] == "0"):
                continue
            number = int(digits)
            for symbol in family:
                if symbol.count is not None and number < symbol.count:
                    return symbol
        return None

    def lookup(self, name: str) -> Symbol | None:
        """The symbol of a name in this scope, or None."""
        known = self._found.get(name, self)
        if known is not self:
            return known  # type: ignore[return-value]
        found = self.local(name)
        if found is None and self.parent is not None:
            found = self.parent.lookup(name)
        self._found[name] = found
        return found
