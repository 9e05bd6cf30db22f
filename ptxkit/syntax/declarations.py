"""The parts of declarations and of function headers: declarators, parameters, attributes, initialisers."""

from __future__ import annotations

from ptxkit.syntax.constants import constant_integer
from ptxkit.syntax.leaves import Keyword, Linkage, Name, Numbers, Space, VectorWidth, integer_of, text_of
from ptxkit.syntax.tree import Composite, Node


class Align(Composite):
    """`.align 8`."""

    __slots__ = ()

    @property
    def bytes(self) -> int | None:
        return integer_of(self.children[0])


class Attribute(Composite):
    """`.attribute(.managed)` (5.4.8)."""

    __slots__ = ()

    @property
    def items(self) -> tuple[AttributeItem, ...]:
        return self.children  # type: ignore[return-value]


class AttributeItem(Composite):
    """One attribute with its arguments: `.unified(1, 2)`."""

    __slots__ = ()

    @property
    def name(self) -> str:
        return str(self.children[0].text)

    @property
    def arguments(self) -> tuple[Node, ...]:
        return self.children[1].children if len(self.children) > 1 else ()


class Pointer(Composite):
    """`.ptr .global .align 16` of a kernel parameter (7.1)."""

    __slots__ = ()

    @property
    def space(self) -> str | None:
        """The space pointed to; generic if none is written."""
        return text_of(self.children, Space)

    @property
    def align(self) -> int | None:
        found: Align | None = self.first(Align)
        return found.bytes if found else None


class Range(Composite):
    """`<100>` of `%r<100>`."""

    __slots__ = ()


class Dimension(Composite):
    """`[10]` or `[]` of an array."""

    __slots__ = ()

    @property
    def size(self) -> Node | None:
        """The number or expression between the brackets, if any."""
        return self.children[0] if self.children else None


class Braces(Composite):
    """`{…}` of an initialiser."""

    __slots__ = ()

    @property
    def elements(self) -> tuple[Node, ...]:
        if len(self.children) == 1 and isinstance(self.children[0], Numbers):
            return self.children[0].elements
        return self.children


class Setting(Composite):
    """`addr_mode_0 = wrap` in the initializer of a sampler or texture (5.3): both words are keywords of the language."""

    __slots__ = ()


class Declarator(Composite):
    """A name being declared with its count, dimensions and initial value."""

    __slots__ = ()

    @property
    def name(self) -> Name:
        return self.children[0]  # type: ignore[return-value]

    @property
    def count(self) -> int | None:
        """100 for `%r<100>`, which declares %r0 to %r99; None for a plain name, or for a count that is not constant."""
        found: Range | None = self.first(Range)
        return None if found is None else constant_integer(found.children[0])

    @property
    def dimensions(self) -> tuple[Dimension, ...]:
        return self.all(Dimension)

    @property
    def initializer(self) -> Node | None:
        return self.children[-1] if "=" in self.shape.tokens[-2] else None


class Declares:
    """The common part of declarations and parameters."""

    __slots__ = ()
    children: tuple[Node, ...]

    @property
    def linkage(self) -> str | None:
        return text_of(self.children, Linkage)

    @property
    def space(self) -> str | None:
        return text_of(self.children, Space)

    @property
    def vector(self) -> int:
        """2, 4 or 8 for `.v2`, `.v4`, `.v8`; 1 without."""
        return int((text_of(self.children, VectorWidth) or ".v1")[2:])

    @property
    def type(self) -> str | None:
        """The type with its dot, or None if the declaration has none."""
        plain = [child.text for child in self.children if type(child) is Keyword]
        return plain[-1] if plain else None

    @property
    def align(self) -> int | None:
        """The alignment in bytes, as written."""
        found = next((child for child in self.children if isinstance(child, Align)), None)
        return found.bytes if found else None

    @property
    def pointer(self) -> Pointer | None:
        """The `.ptr` attribute of a kernel parameter."""
        return next((child for child in self.children if isinstance(child, Pointer)), None)

    @property
    def attributes(self) -> tuple[AttributeItem, ...]:
        return tuple([item for child in self.children if isinstance(child, Attribute) for item in child.items])

    @property
    def declarators(self) -> tuple[Declarator, ...]:
        return tuple([child for child in self.children if isinstance(child, Declarator)])


class Parameter(Declares, Composite):
    """A parameter of a function, kernel or prototype (7.1)."""

    __slots__ = ()

    @property
    def declarator(self) -> Declarator:
        return self.children[-1]  # type: ignore[return-value]

    @property
    def name(self) -> str:
        return self.declarator.name.text


class Parameters(Composite):
    """A list of parameters in parentheses."""

    __slots__ = ()

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        return self.children  # type: ignore[return-value]


class PerformanceDirective(Composite):
    """`.maxntid 128, 1, 1` and similar directives, after a function's parameters (11.4, 11.7)."""

    __slots__ = ()

    @property
    def name(self) -> str:
        found = self.first(Keyword)
        return found.text if found else self.shape.tokens[0]

    @property
    def arguments(self) -> tuple[Node, ...]:
        return tuple([child for child in self.children if not isinstance(child, Keyword)])
