"""Operands of instructions, and their parts."""

from __future__ import annotations

from ptxkit.syntax.leaves import Name, Selector
from ptxkit.syntax.tree import Composite, Node


class Guard(Composite):
    """`@p` or `@!p` (9.3)."""

    __slots__ = ()

    @property
    def predicate(self) -> Name:
        return self.children[0]  # type: ignore[return-value]

    @property
    def negated(self) -> bool:
        return "!" in self.shape.tokens[0]


class Component(Composite):
    """A part of a register: `%tid.x`, `v.y`, `a.b0`."""

    __slots__ = ()

    @property
    def base(self) -> Name:
        return self.children[0]  # type: ignore[return-value]

    @property
    def selector(self) -> str:
        return self.children[1].text


class Pair(Composite):
    """`p|q`: two destinations."""

    __slots__ = ()

    @property
    def destinations(self) -> tuple[Node, Node]:
        left, right = self.children
        return left, right


class Vector(Composite):
    """`{a, b}` as an operand."""

    __slots__ = ()

    @property
    def elements(self) -> tuple[Node, ...]:
        return self.children


class Address(Composite):
    """`[a]`, `[a+4]`, `[map, {x, y}]`: an operand in brackets."""

    __slots__ = ()

    @property
    def _has_offset(self) -> bool:
        return len(self.children) > 1 and self.shape.tokens[1] in ("+", "-")

    @property
    def base(self) -> Node:
        """The base of the address: a register, a variable, a number."""
        return self.children[0]

    @property
    def offset(self) -> Node | None:
        """The offset added to the base (or subtracted, see `offset_sign`)."""
        return self.children[1] if self._has_offset else None

    @property
    def offset_sign(self) -> int:
        """1, or -1 in `[a-4]`."""
        return -1 if self._has_offset and self.shape.tokens[1] == "-" else 1

    @property
    def parts(self) -> tuple[Node, ...]:
        """The parts between commas; the first is the base, without offset."""
        rest = self.children[2 if self._has_offset else 1 :]
        return (self.base, *[part for part in rest if not isinstance(part, Selector)])


class Element(Composite):
    """`a[3]`: an array element by index, denoting its address (6.4.2).

    The index is a constant expression, or a register with or without a constant added.
    """

    __slots__ = ()

    @property
    def base(self) -> Name:
        """The array."""
        return self.children[0]  # type: ignore[return-value]

    @property
    def number(self) -> Node:
        """The index of the element."""
        return self.children[1]


class Unary(Composite):
    """`-a`, `!p`, `~x`."""

    __slots__ = ()

    @property
    def operator(self) -> str:
        return self.shape.tokens[0][:1]

    @property
    def operand(self) -> Node:
        return self.children[0]


class Expression(Composite):
    """Terms with operators between them, flat; `ptxkit.syntax.constants` gives its value with the right precedence (4.5)."""

    __slots__ = ()

    @property
    def terms(self) -> tuple[Node, ...]:
        return self.children[::2]

    @property
    def operators(self) -> tuple[str, ...]:
        return tuple([child.text for child in self.children[1::2]])


class Conditional(Composite):
    """`a ? b : c`."""

    __slots__ = ()

    @property
    def condition(self) -> Node:
        return self.children[0]

    @property
    def then(self) -> Node:
        return self.children[1]

    @property
    def otherwise(self) -> Node:
        return self.children[2]


class Cast(Composite):
    """`(.s64) a`."""

    __slots__ = ()

    @property
    def type(self) -> str:
        return str(self.children[0].text)

    @property
    def operand(self) -> Node:
        return self.children[1]


class Apply(Composite):
    """`generic(x)` or the mask `0xff00(x)` of an initializer (5.4.4)."""

    __slots__ = ()

    @property
    def function(self) -> Node:
        """The name `generic`, or the mask."""
        return self.children[0]

    @property
    def arguments(self) -> tuple[Node, ...]:
        return self.children[1].children


class Group(Composite):
    """A parenthesized operand: the arguments of a call, or one expression."""

    __slots__ = ()

    @property
    def elements(self) -> tuple[Node, ...]:
        return self.children
