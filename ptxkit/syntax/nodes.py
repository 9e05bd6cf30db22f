"""The tree: immutable, lossless, without positions.

Every node is a *leaf* that holds its text, a *composite* that holds a shape (the literal text between its children) and the children,
or a *container* that holds statements. So printing, editing and finding positions are the same three lines for all of them, and every
byte of a file belongs to exactly one leaf or one piece of literal text.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self

import attrs

from ptxkit.syntax.literals import number_value

if TYPE_CHECKING:
    from ptxkit.diagnostics import Diagnostic

Path = tuple[int, ...]
"""Where a node stands: the index of a child, of its child, and so on, from the module (or from the node that was asked)."""

_COMMENT = re.compile(r"//[^\n]*+|/\*.*?\*/", re.S)


@attrs.frozen(slots=True, weakref_slot=False)
class Shape:
    """The literal text around and between the children of a composite: one more piece than there are children."""

    literals: tuple[str, ...]
    template: str = attrs.field(init=False, eq=False, repr=False)
    tokens: tuple[str, ...] = attrs.field(init=False, eq=False, repr=False)
    """The pieces without white space and comments, which may stand anywhere in them."""

    @template.default
    def _template(self) -> str:
        return "%s".join([literal.replace("%", "%%") for literal in self.literals])

    @tokens.default
    def _tokens(self) -> tuple[str, ...]:
        return tuple(["".join((_COMMENT.sub(" ", literal) if "/" in literal else literal).split()) for literal in self.literals])


@functools.lru_cache(maxsize=65536)
def shape(*literals: str) -> Shape:
    """The shape with these pieces of text; the same object for the same pieces, which keeps trees small."""
    return Shape(literals)


class Node:
    """What all nodes can do. `text` prints, `children` are the nodes inside, in order."""

    __slots__ = ()
    text: str | Any

    @property
    def children(self) -> tuple[Node, ...]:
        return ()

    def with_children(self, children: Sequence[Node]) -> Self:
        """The same node with other children; as many as it has, except in containers."""
        if children:
            raise ValueError(f"a {type(self).__name__} has no children")
        return self

    def pieces(self) -> Iterator[str | Node]:
        """The text in order, cut into literal pieces (maybe empty) and child nodes."""
        yield self.text

    def at(self, path: Path) -> Node:
        """The node at a path. Raises IndexError where there is none."""
        node: Node = self
        for step in path:
            node = node.children[step]
        return node

    def replace(self, path: Path, *nodes: Node) -> Self:
        """A new tree with these nodes in place of the one at `path`; all else is shared with this one.

        Where a statement stands there may be any number of nodes, none removes it; elsewhere exactly one.
        """
        if not path:
            (node,) = nodes
            return node  # type: ignore[return-value]
        parents: list[Node] = [self]
        for step in path[:-1]:
            parents.append(parents[-1].children[step])
        for parent, step in zip(reversed(parents), reversed(path), strict=True):
            children = parent.children
            if not -len(children) <= step < len(children):
                raise IndexError(f"no child {step} at {path}")
            step %= len(children)
            nodes = (parent.with_children((*children[:step], *nodes, *children[step + 1 :])),)
        (node,) = nodes
        return node  # type: ignore[return-value]

    def insert_before(self, path: Path, *nodes: Node) -> Self:
        """A new tree with these statements before the one at `path`."""
        return self.replace(path, *nodes, self.at(path))

    def insert_after(self, path: Path, *nodes: Node) -> Self:
        """A new tree with these statements after the one at `path`."""
        return self.replace(path, self.at(path), *nodes)

    def remove(self, path: Path) -> Self:
        """A new tree without the statement at `path`."""
        return self.replace(path)

    def append(self, path: Path, *nodes: Node) -> Self:
        """A new tree with these statements at the end of the block (or the module, or node of statements) at `path`; it may be empty."""
        container = self.at(path)
        return self.replace(path, container.with_children((*container.children, *nodes)))

    def edit(self, edits: Mapping[Path, Sequence[Node]]) -> Self:
        """A new tree with the nodes that stand for each path in place of the one there, for any number of edits at once.

        All paths count in this tree; as in `replace`, no nodes remove a statement and several insert. Raises ValueError for an edit
        inside of what another edit replaces, IndexError where a path leads nowhere.
        """
        below: dict[int, dict[Path, Sequence[Node]]] = {}
        count = len(self.children)
        for path, nodes in edits.items():
            if not path:
                raise ValueError("the whole tree cannot be one of several edits")
            below.setdefault(range(count)[path[0]], {})[path[1:]] = nodes
        children: list[Node] = []
        for i, child in enumerate(self.children):
            inner = below.get(i)
            if inner is None:
                children.append(child)
            elif () not in inner:
                children.append(child.edit(inner))
            elif len(inner) == 1:
                children += inner[()]
            else:
                raise ValueError(f"edits inside of child {i}, which another edit replaces")
        return self.with_children(children)

    def walk(self) -> Iterator[tuple[Path, Node]]:
        """This node and all below it with their paths, in document order, parents first."""
        stack: list[tuple[Path, Node]] = [((), self)]
        while stack:
            path, node = stack.pop()
            yield path, node
            stack.extend(reversed([((*path, i), child) for i, child in enumerate(node.children)]))

    def find(self, kind: type[Node] | tuple[type[Node], ...]) -> Iterator[Any]:
        """All nodes of this kind in the tree, this one included, in document order."""
        return (node for _, node in self.walk() if isinstance(node, kind))

    def dump(self, depth: int = 100) -> str:
        """The subtree, a node a line, indented: for people."""
        lines = []
        for path, node in self.walk():
            if len(path) <= depth:
                text = node.text if isinstance(node, Leaf) else ""
                lines.append("  " * len(path) + type(node).__name__ + (f" {text!r}" if text else ""))
        return "\n".join(lines)

    def first(self, kind: type[Any]) -> Any:
        """The first child of a kind, or None."""
        return next((child for child in self.children if isinstance(child, kind)), None)

    def all(self, kind: type[Any]) -> tuple[Any, ...]:
        """The children of a kind."""
        return tuple([child for child in self.children if isinstance(child, kind)])

    def __repr__(self) -> str:
        text = self.text
        return f"<{type(self).__name__} {text if len(text) < 80 else text[:77] + '...'!r}>"

    def __str__(self) -> str:
        return str(self.text)


if TYPE_CHECKING:
    from attrs import frozen as node
else:
    node = attrs.frozen(slots=True, weakref_slot=False, repr=False, str=False)


# --- leaves -----------------------------------------------------------------------------------------------------------------------


@node
class Leaf(Node):
    """A node that is its text."""

    text: str


class Name(Leaf):
    """An identifier: a register, variable, label, function, special register, or `_`. What it means, `ptxkit.names` tells."""

    __slots__ = ()


class Number(Leaf):
    """A literal number as written, with the sign if that stands right before it."""

    __slots__ = ()

    @property
    def value(self) -> int | float:
        """The number: an int, or a float for `1.5`, `0f…` and `0d…`. Raises ValueError for what only looks like one, such as `09`."""
        return number_value(self.text)


class Numbers(Leaf):
    """A run of eight or more plain numbers with commas between them, kept as one leaf because tables have thousands."""

    __slots__ = ()

    def with_element(self, i: int, number: str) -> Numbers:
        """The same run and layout with another number at this index. Raises IndexError, or ValueError if the text is no number."""
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
    """The operation with its modifiers, which are a bag: questions do not depend on their order."""

    __slots__ = ()

    @property
    def mnemonic(self) -> str:
        """What stands before the first dot."""
        return self._plain.partition(".")[0]

    @property
    def modifiers(self) -> tuple[str, ...]:
        """The modifiers as written, each with its dot."""
        return tuple(["." + part for part in self._plain.split(".")[1:]])

    @property
    def _plain(self) -> str:
        """The text without the white space and the comments in it."""
        text = self.text
        return text if text.replace(".", "_").replace(":", "_").isidentifier() else _without_trivia(text)

    def has(self, *modifiers: str) -> bool:
        """Whether all of these modifiers are there."""
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
    """What picks a part: `.x` of a vector, `.b0` or `.h1` of a video operand, `.unified` of an address."""

    __slots__ = ()


class SectionName(Leaf):
    """The name of a `.section`."""

    __slots__ = ()


# --- composites -------------------------------------------------------------------------------------------------------------------


@node
class Composite(Node):
    """A node made of children and the literal text around them."""

    shape: Shape
    children: tuple[Node, ...]

    @property
    def text(self) -> str:  # type: ignore[override]
        return self.shape.template % tuple([child.text for child in self.children])

    def with_children(self, children: Sequence[Node]) -> Self:
        if len(children) != len(self.children):
            raise ValueError(f"a {type(self).__name__} takes exactly as many children as it has ({len(self.children)})")
        return attrs.evolve(self, children=tuple(children))

    def pieces(self) -> Iterator[str | Node]:
        literals = self.shape.literals
        yield literals[0]
        for child, literal in zip(self.children, literals[1:], strict=True):
            yield child
            yield literal


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
    """`[a]`, `[a+4]`, `[map, {x, y}]`: what stands in brackets."""

    __slots__ = ()

    @property
    def _has_offset(self) -> bool:
        return len(self.children) > 1 and self.shape.tokens[1] in ("+", "-")

    @property
    def base(self) -> Node:
        """What the address starts from: a register, a variable, a number."""
        return self.children[0]

    @property
    def offset(self) -> Node | None:
        """What is added to the base (or taken off, see `offset_sign`)."""
        return self.children[1] if self._has_offset else None

    @property
    def offset_sign(self) -> int:
        """1, or -1 in `[a-4]`."""
        return -1 if self._has_offset and self.shape.tokens[1] == "-" else 1

    @property
    def parts(self) -> tuple[Node, ...]:
        """The parts between commas; the first is the base, whatever is added to it."""
        rest = self.children[2 if self._has_offset else 1 :]
        return (self.base, *[part for part in rest if not isinstance(part, Selector)])


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


class Operator(Leaf):
    """An operator between two terms."""

    __slots__ = ()


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
    """`generic(x)` or the mask `0xff00(x)` of an initialiser (5.4.4)."""

    __slots__ = ()

    @property
    def function(self) -> Node:
        """The name `generic`, or the mask."""
        return self.children[0]

    @property
    def arguments(self) -> tuple[Node, ...]:
        return self.children[1].children


class Group(Composite):
    """What stands in parentheses: the arguments of a call, or one expression."""

    __slots__ = ()

    @property
    def elements(self) -> tuple[Node, ...]:
        return self.children


class Align(Composite):
    """`.align 8`."""

    __slots__ = ()

    @property
    def bytes(self) -> int | None:
        return _integer(self.children[0])


class Attribute(Composite):
    """`.attribute(.managed)` (5.4.8)."""

    __slots__ = ()

    @property
    def items(self) -> tuple[AttributeItem, ...]:
        return self.children  # type: ignore[return-value]


class AttributeItem(Composite):
    """One attribute with what it takes: `.unified(1, 2)`."""

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
        """The space pointed to; generic where none is written."""
        return _text(self.children, Space)

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
    """`addr_mode_0 = wrap` in the initialiser of a sampler or texture (5.3): both words are the language's, not the program's."""

    __slots__ = ()


class Declarator(Composite):
    """A name being declared with its count, dimensions and initial value."""

    __slots__ = ()

    @property
    def name(self) -> Name:
        return self.children[0]  # type: ignore[return-value]

    @property
    def count(self) -> int | None:
        """100 for `%r<100>`, which declares %r0 to %r99; None for a plain name, or a count that is no constant."""
        found: Range | None = self.first(Range)
        if found is None:
            return None
        count = found.children[0]
        return _integer(count) if isinstance(count, Number) else _constant_integer(count)

    @property
    def dimensions(self) -> tuple[Dimension, ...]:
        return self.all(Dimension)

    @property
    def initializer(self) -> Node | None:
        return self.children[-1] if "=" in self.shape.tokens[-2] else None


def _integer(node: Node) -> int | None:
    """The value of a number that is an integer; None for anything else."""
    try:
        value = node.value if isinstance(node, Number) else None
    except ValueError:
        return None
    return value if isinstance(value, int) else None


def _constant_integer(node: Node) -> int | None:
    """The value of a constant expression (4.5) that is an integer; None for anything else."""
    from ptxkit.syntax.constants import constant_value

    value = constant_value(node)
    return value if isinstance(value, int) else None


class _Declares:
    """What a declaration and a parameter have in common."""

    __slots__ = ()
    children: tuple[Node, ...]

    @property
    def linkage(self) -> str | None:
        return _text(self.children, Linkage)

    @property
    def space(self) -> str | None:
        return _text(self.children, Space)

    @property
    def vector(self) -> int:
        """2, 4 or 8 for `.v2`, `.v4`, `.v8`; 1 without."""
        return int((_text(self.children, VectorWidth) or ".v1")[2:])

    @property
    def type(self) -> str | None:
        """The type with its dot, or None where the declaration names none."""
        plain = [child.text for child in self.children if type(child) is Keyword]
        return plain[-1] if plain else None

    @property
    def align(self) -> int | None:
        """The alignment in bytes that is written there."""
        found = next((child for child in self.children if isinstance(child, Align)), None)
        return found.bytes if found else None

    @property
    def pointer(self) -> Pointer | None:
        """What `.ptr` says of a kernel parameter."""
        return next((child for child in self.children if isinstance(child, Pointer)), None)

    @property
    def attributes(self) -> tuple[AttributeItem, ...]:
        return tuple([item for child in self.children if isinstance(child, Attribute) for item in child.items])

    @property
    def declarators(self) -> tuple[Declarator, ...]:
        return tuple([child for child in self.children if isinstance(child, Declarator)])


def _without_trivia(text: str) -> str:
    from ptxkit.syntax.shapes import TRIVIA

    return re.sub(TRIVIA, "", text)


def _trivia(text: str) -> str:
    from ptxkit.syntax.shapes import END, TOKEN

    match = TOKEN.match(text)
    if match is None or match.lastindex != END:
        raise ValueError(f"not white space and comments: {text!r}")
    return text


def _text(children: tuple[Node, ...], kind: type[Leaf]) -> str | None:
    return next((child.text for child in children if isinstance(child, kind)), None)


class Parameter(_Declares, Composite):
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
    """`.maxntid 128, 1, 1` and its like, after a function's parameters (11.4, 11.7)."""

    __slots__ = ()

    @property
    def name(self) -> str:
        found = self.first(Keyword)
        return found.text if found else self.shape.tokens[0]

    @property
    def arguments(self) -> tuple[Node, ...]:
        return tuple([child for child in self.children if not isinstance(child, Keyword)])


# --- statements -------------------------------------------------------------------------------------------------------------------


@node
class Statement(Node):
    """What stands in a module or a block. `leading` is the white space and the comments before it."""

    leading: str
    shape: Shape
    children: tuple[Node, ...]

    keyword: ClassVar[str] = ""

    @property
    def text(self) -> str:  # type: ignore[override]
        return self.leading + self.shape.template % tuple([child.text for child in self.children])

    @property
    def body_text(self) -> str:
        """The text without what leads it."""
        return self.shape.template % tuple([child.text for child in self.children])

    def with_children(self, children: Sequence[Node]) -> Self:
        if len(children) != len(self.children):
            raise ValueError(f"a {type(self).__name__} takes exactly as many children as it has ({len(self.children)})")
        return attrs.evolve(self, children=tuple(children))

    def with_leading(self, leading: str) -> Self:
        """The same statement after other white space and comments. Raises ValueError if it is not only that."""
        return attrs.evolve(self, leading=_trivia(leading))

    def pieces(self) -> Iterator[str | Node]:
        literals = self.shape.literals
        yield self.leading
        yield literals[0]
        for child, literal in zip(self.children, literals[1:], strict=True):
            yield child
            yield literal


class Instruction(Statement):
    """An instruction: an optional guard, the opcode, the operands."""

    __slots__ = ()

    @property
    def guard(self) -> Guard | None:
        first = self.children[0]
        return first if type(first) is Guard else None

    @property
    def opcode(self) -> Opcode:
        first = self.children[0]
        return self.children[1] if type(first) is Guard else first  # type: ignore[return-value]

    @property
    def operands(self) -> tuple[Node, ...]:
        children = self.children
        return children[2 if type(children[0]) is Guard else 1 :]

    def with_opcode(self, opcode: str) -> Instruction:
        """The same instruction, layout and operands with another opcode. Raises ValueError if it is none."""
        from ptxkit.syntax.parsing import is_opcode

        if not is_opcode(opcode):
            raise ValueError(f"not an opcode: {opcode!r}")
        i = 1 if self.guard else 0
        return self.with_children((*self.children[:i], Opcode(opcode), *self.children[i + 1 :]))

    def with_operand(self, i: int, operand: Node | str) -> Instruction:
        """The same instruction and layout with another operand; a text is parsed. Raises ValueError if it is no operand."""
        from ptxkit.syntax.parsing import parse_operand

        found = parse_operand(operand) if isinstance(operand, str) else operand
        at = range(len(self.children))[len(self.children) - len(self.operands) :][i]
        return self.with_children((*self.children[:at], found, *self.children[at + 1 :]))


class Label(Statement):
    """`name:`."""

    __slots__ = ()

    @property
    def name(self) -> Name:
        return self.children[0]  # type: ignore[return-value]


class Declaration(_Declares, Statement):
    """A variable, register or parameter declaration (5.4)."""

    __slots__ = ()


class Header(Statement):
    """All of a function before its body."""

    __slots__ = ()

    @property
    def linkage(self) -> str | None:
        return _text(self.children, Linkage)

    @property
    def is_entry(self) -> bool:
        return _text(self.children, FunctionKind) == ".entry"

    @property
    def name(self) -> Name:
        found: Name = self.first(Name)
        return found

    def _name_at(self) -> int:
        return next(i for i, child in enumerate(self.children) if isinstance(child, Name))

    @property
    def returns(self) -> tuple[Parameter, ...]:
        before = [child for child in self.children[: self._name_at()] if isinstance(child, Parameters)]
        return before[0].parameters if before else ()

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        after = [child for child in self.children[self._name_at() :] if isinstance(child, Parameters)]
        return after[0].parameters if after else ()

    @property
    def directives(self) -> tuple[PerformanceDirective, ...]:
        """What stands after the parameters, `.pragma` too."""
        return self.all(PerformanceDirective)

    @property
    def attributes(self) -> tuple[AttributeItem, ...]:
        return tuple([item for child in self.all(Attribute) for item in child.items])

    @property
    def is_noreturn(self) -> bool:
        return any(".noreturn" in token for token in self.shape.tokens) or any(
            directive.name == ".noreturn" for directive in self.directives
        )


class Prototype(Header):
    """`.callprototype` (11.3.3), named by the label before it."""

    __slots__ = ()


class Version(Statement):
    """`.version 8.5` (11.1.1)."""

    __slots__ = ()

    keyword = ".version"

    @property
    def number(self) -> tuple[int, int] | None:
        """Major and minor, or None if they are not two numbers."""
        major, _, minor = str(self.children[0].text).partition(".")
        if len(major) > 9 or len(minor) > 9:
            return None
        return (int(major), int(minor)) if major.isdecimal() and minor.isdecimal() else None


class Target(Statement):
    """`.target sm_90a, debug` (11.1.2)."""

    __slots__ = ()

    keyword = ".target"

    @property
    def words(self) -> tuple[str, ...]:
        return tuple([child.text for child in self.children])


class AddressSize(Statement):
    """`.address_size 64` (11.1.3)."""

    __slots__ = ()

    keyword = ".address_size"

    @property
    def bits(self) -> int:
        return 32 if self.children[0].text == "32" else 64


class Pragma(Statement):
    """`.pragma "nounroll";` (11.4.11)."""

    __slots__ = ()

    keyword = ".pragma"

    @property
    def strings(self) -> tuple[str, ...]:
        """The pragmas, without their quotes."""
        return tuple([child.value for child in self.all(String)])


class Alias(Statement):
    """`.alias other, function;` (11.6.1)."""

    __slots__ = ()

    keyword = ".alias"

    @property
    def name(self) -> Name:
        """The new name."""
        return self.children[0]  # type: ignore[return-value]

    @property
    def aliased(self) -> Name:
        """The function that it stands for."""
        return self.children[1]  # type: ignore[return-value]


class Targets(Statement):
    """`.branchtargets` or `.calltargets` (11.3), named by the label before it."""

    __slots__ = ()

    @property
    def are_labels(self) -> bool:
        """Whether these are labels of branches, not functions."""
        return self.shape.tokens[0] == ".branchtargets"

    @property
    def names(self) -> tuple[Name, ...]:
        return self.children  # type: ignore[return-value]


class File(Statement):
    """`.file 1 "a.cu"`, maybe with time, or time and size (11.5.3)."""

    __slots__ = ()

    keyword = ".file"

    @property
    def index(self) -> int:
        return _integer(self.children[0]) or 0

    @property
    def name(self) -> str:
        """The path of the source file."""
        return self.children[1].value  # type: ignore[attr-defined,no-any-return]

    @property
    def timestamp(self) -> int | None:
        return _integer(self.children[2]) if len(self.children) > 2 else None

    @property
    def size(self) -> int | None:
        return _integer(self.children[3]) if len(self.children) > 3 else None


class Loc(Statement):
    """`.loc` (11.5.4): the source position of what follows."""

    __slots__ = ()

    keyword = ".loc"

    @property
    def file(self) -> int:
        return _integer(self.children[0]) or 0

    @property
    def line(self) -> int:
        return _integer(self.children[1]) or 0

    @property
    def column(self) -> int:
        return _integer(self.children[2]) or 0

    @property
    def function_name(self) -> str | None:
        """The label of the inlined function's name in .debug_str, if written."""
        return _text(self.children, Name)

    @property
    def inlined_at(self) -> tuple[int, int, int] | None:
        """File, line and column of the call that was inlined, if written."""
        if "inlined_at" not in self.shape.template:
            return None
        file, line, column = [_integer(child) or 0 for child in self.children[-3:]]
        return file, line, column


class SectionHeader(Statement):
    """`.section .debug_info` (11.5.2)."""

    __slots__ = ()

    keyword = ".section"

    @property
    def name(self) -> str:
        return str(self.children[0].text)


class Data(Statement):
    """A line of DWARF data: `.b8 1, 2`, `.b64 label+4` (11.5.1)."""

    __slots__ = ()

    @property
    def type(self) -> str:
        return str(self.children[0].text)

    @property
    def elements(self) -> tuple[Node, ...]:
        """The numbers, names and `Datum` of the line."""
        return tuple([e for child in self.children[1:] for e in (child.elements if isinstance(child, Numbers) else (child,))])


class Datum(Composite):
    """`label+4` or `a-b` in a line of DWARF data."""

    __slots__ = ()

    @property
    def base(self) -> Node:
        return self.children[0]

    @property
    def offset(self) -> Node:
        return self.children[1]

    @property
    def sign(self) -> int:
        """1, or -1 where the offset is taken off."""
        return -1 if self.shape.tokens[1] == "-" else 1


class Unknown(Statement):
    """A directive that no rule of the grammar knows."""

    __slots__ = ()

    @property
    def word(self) -> str:
        return str(self.children[0].text)


class Line(Statement):
    """`#line …`, `@@DWARF …`: a line that is kept as it is."""

    __slots__ = ()


class Empty(Statement):
    """A lone semicolon."""

    __slots__ = ()


@node
class Error(Node):
    """Text that is not PTX, kept. `offset` is where in `body_text` the trouble was seen, `rule` the id of the finding."""

    leading: str
    body_text: str
    message: str
    offset: int
    rule: str = "E001"

    @property
    def text(self) -> str:  # type: ignore[override]
        return self.leading + self.body_text

    def pieces(self) -> Iterator[str | Node]:
        yield self.leading
        yield self.body_text

    def with_leading(self, leading: str) -> Self:
        return attrs.evolve(self, leading=_trivia(leading))


# --- containers -------------------------------------------------------------------------------------------------------------------


@node
class Block(Node):
    """`{ … }`: a scope. `close` is the closing brace with what leads it, empty where the brace is missing."""

    leading: str
    children: tuple[Node, ...]
    close: str

    @property
    def statements(self) -> tuple[Node, ...]:
        return self.children

    def __repr__(self) -> str:
        return f"<Block of {len(self.children)} statements>"

    @property
    def text(self) -> str:  # type: ignore[override]
        return self.leading + "{" + "".join([child.text for child in self.children]) + self.close

    def with_children(self, children: Sequence[Node]) -> Self:
        return attrs.evolve(self, children=tuple(children))

    def with_leading(self, leading: str) -> Self:
        return attrs.evolve(self, leading=_trivia(leading))

    def pieces(self) -> Iterator[str | Node]:
        yield self.leading
        yield "{"
        yield from self.children
        yield self.close


@node
class _Headed(Node):
    """A header statement and the block that belongs to it, if there is one."""

    children: tuple[Node, ...]

    @property
    def leading(self) -> str:
        return self.children[0].leading  # type: ignore[attr-defined,no-any-return]

    @property
    def text(self) -> str:  # type: ignore[override]
        return "".join([child.text for child in self.children])

    @property
    def body(self) -> Block | None:
        return self.children[1] if len(self.children) > 1 else None  # type: ignore[return-value]

    def with_children(self, children: Sequence[Node]) -> Self:
        if len(children) != len(self.children):
            raise ValueError(f"a {type(self).__name__} takes exactly as many children as it has ({len(self.children)})")
        return attrs.evolve(self, children=tuple(children))

    def pieces(self) -> Iterator[str | Node]:
        yield from self.children


@attrs.frozen(slots=True, weakref_slot=True, repr=False, str=False)
class Function(_Headed):
    """A kernel or device function: its header, and its body unless it is only declared."""

    @property
    def header(self) -> Header:
        return self.children[0]  # type: ignore[return-value]

    def __repr__(self) -> str:
        return f"<Function {self.name}>"

    @property
    def name(self) -> str:
        return self.header.name.text

    @property
    def is_entry(self) -> bool:
        return self.header.is_entry

    def statements(self) -> Iterator[tuple[Path, Node]]:
        """All statements of the body with their paths from this function, in document order, inner scopes included."""
        if self.body is None:
            return
        stack: list[tuple[Path, Iterator[tuple[int, Node]]]] = [((1,), iter(enumerate(self.body.children)))]
        while stack:
            path, rest = stack[-1]
            for i, statement in rest:
                yield (*path, i), statement
                if isinstance(statement, Block):
                    stack.append(((*path, i), iter(enumerate(statement.children))))
                    break
            else:
                stack.pop()

    @property
    def instructions(self) -> tuple[Instruction, ...]:
        """The instructions in document order, those of inner scopes included."""
        found: list[Instruction] = []
        stack: list[Iterator[Node]] = [iter(self.body.children)] if self.body else []
        while stack:
            for statement in stack[-1]:
                if type(statement) is Instruction:
                    found.append(statement)
                elif type(statement) is Block:
                    stack.append(iter(statement.children))
                    break
            else:
                stack.pop()
        return tuple(found)


class Section(_Headed):
    """`.section .debug_info { … }` (11.5.2)."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"<Section {self.name}>"

    @property
    def name(self) -> str:
        return self.children[0].children[0].text


@attrs.frozen(slots=True, weakref_slot=True, repr=False, str=False, eq=True)
class Module(Node):
    """A PTX file. `trailing` is the white space and the comments after the last statement."""

    children: tuple[Node, ...]
    trailing: str = ""
    path: str | None = attrs.field(default=None, eq=False)

    def __repr__(self) -> str:
        return f"<Module {self.path or ''} of {len(self.children)} statements>".replace("  ", " ")

    @property
    def statements(self) -> tuple[Node, ...]:
        return self.children

    @property
    def text(self) -> str:  # type: ignore[override]
        return "".join([child.text for child in self.children]) + self.trailing

    def with_children(self, children: Sequence[Node]) -> Self:
        return attrs.evolve(self, children=tuple(children))

    def pieces(self) -> Iterator[str | Node]:
        yield from self.children
        yield self.trailing

    @property
    def functions(self) -> tuple[Function, ...]:
        """All functions, kernels included, declarations too, in document order."""
        return tuple([child for child in self.children if type(child) is Function])

    @property
    def kernels(self) -> tuple[Function, ...]:
        """The functions that are entries and have a body."""
        return tuple([function for function in self.functions if function.is_entry and function.body])

    @property
    def declarations(self) -> tuple[Declaration, ...]:
        """The declarations at module scope."""
        return tuple([child for child in self.children if type(child) is Declaration])

    def function(self, name: str) -> Function:
        """The function of that name, with a body if there is one. Raises KeyError."""
        found = [function for function in self.functions if function.name == name]
        if not found:
            raise KeyError(name)
        return next((function for function in found if function.body), found[0])

    @property
    def version(self) -> tuple[int, int] | None:
        """The PTX version that the file claims, such as (8, 5)."""
        return next((child.number for child in self.children if type(child) is Version), None)

    @property
    def targets(self) -> tuple[str, ...]:
        """The words of `.target`."""
        return tuple([word for child in self.children if type(child) is Target for word in child.words])

    @property
    def address_size(self) -> int:
        """32 or 64; 32 where the file says nothing (11.1.3)."""
        return next((child.bits for child in self.children if type(child) is AddressSize), 32)

    @property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """The syntax errors."""
        from ptxkit.syntax.errors import syntax_errors

        return syntax_errors(self)
