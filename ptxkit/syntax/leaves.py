"""Leaf nodes: names, numbers, strings, opcodes and dotted words."""

from __future__ import annotations

from ptxkit.syntax import lexical
from ptxkit.syntax.literals import number_value
from ptxkit.syntax.tree import Leaf, Node


class Name(Leaf):
    """An identifier: a register, variable, label, function, special register, or `_`. `ptxkit.names` resolves it."""

    __slots__ = ()


class Number(Leaf):
    """A literal number as written, with the sign if directly attached."""

    __slots__ = ()

    @property
    def value(self) -> int | float:
        """The number: an int, or a float for `1.5`, `0f…` and `0d…`. Raises ValueError for an invalid literal such as `09`."""
        return number_value(self.text)


class Numbers(Leaf):
    """Eight or more plain numbers separated by commas, kept as one leaf because tables have thousands."""

    __slots__ = ()

    def with_element(self, i: int, number: str) -> Numbers:
        """The same numbers and layout with another number at this index. Raises IndexError, or ValueError if the text is not a number."""
        number_value(number)
        parts = self.text.split(",")
        old = parts[i]
        parts[i] = old[: len(old) - len(old.lstrip())] + number + old[len(old.rstrip()) :]
        return Numbers(",".join(parts))

    @property
    def elements(self) -> tuple[Number, ...]:
        return tuple(Number(text.strip()) for text in self.text.split(","))


class String(Leaf):
    """A string with its quotes."""

    __slots__ = ()

    @property
    def value(self) -> str:
        return self.text[1:-1]


class Opcode(Leaf):
    """The operation with its modifiers, which queries treat as unordered."""

    __slots__ = ()

    @property
    def mnemonic(self) -> str:
        """The text before the first dot."""
        return self._plain.partition(".")[0]

    @property
    def modifiers(self) -> tuple[str, ...]:
        """The modifiers as written, each with its dot."""
        return tuple(["." + part for part in self._plain.split(".")[1:]])

    @property
    def _plain(self) -> str:
        """The text without white space and comments."""
        text = self.text
        return text if text.replace(".", "_").replace(":", "_").isidentifier() else lexical.without_trivia(text)

    def has(self, *modifiers: str) -> bool:
        """Whether all of these modifiers are present."""
        present = self.modifiers
        return all(modifier in present for modifier in modifiers)


class Keyword(Leaf):
    """A word that starts with a dot: a directive, a type."""

    __slots__ = ()


class Linkage(Keyword):
    """`.extern`, `.visible`, `.weak` or `.common`."""

    __slots__ = ()


class Space(Keyword):
    """A state space."""

    __slots__ = ()


class VectorWidth(Keyword):
    """`.v2`, `.v4`, `.v8` of a declaration."""

    __slots__ = ()


class FunctionKind(Keyword):
    """`.entry` or `.func`."""

    __slots__ = ()


class DataType(Keyword):
    """`.b8` and so on at the start of a line of DWARF data."""

    __slots__ = ()


class Selector(Keyword):
    """A selector of a part: `.x` of a vector, `.b0` or `.h1` of a video operand, `.unified` of an address."""

    __slots__ = ()


class SectionName(Leaf):
    """The name of a `.section`."""

    __slots__ = ()


class Operator(Leaf):
    """An operator between two terms."""

    __slots__ = ()


def integer_of(node: Node) -> int | None:
    """The value of a number if it is an integer; otherwise None."""
    try:
        value = node.value if isinstance(node, Number) else None
    except ValueError:
        return None
    return value if isinstance(value, int) else None


def text_of(children: tuple[Node, ...], kind: type[Leaf]) -> str | None:
    return next((child.text for child in children if isinstance(child, kind)), None)
