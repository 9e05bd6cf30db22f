"""Statements of modules and blocks; and the blocks, functions and sections that contain statements."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar, Self

import attrs

from ptxkit.syntax import lexical
from ptxkit.syntax.declarations import Attribute, AttributeItem, Declares, Parameter, Parameters, PerformanceDirective
from ptxkit.syntax.leaves import FunctionKind, Linkage, Name, Numbers, Opcode, String, integer_of, text_of
from ptxkit.syntax.operands import Guard
from ptxkit.syntax.tree import Composite, Container, Deferred, Node, Path, Shape, made, node, with_as_many


@node
class Statement(Node):
    """A statement in a module or a block. `leading` is the white space and comments before it."""

    leading: str
    shape: Shape
    children: tuple[Node, ...]

    keyword: ClassVar[str] = ""

    @property
    def text(self) -> str:  # type: ignore[override]
        return self.leading + self.shape.template % tuple([child.text for child in self.children])

    @property
    def body_text(self) -> str:
        """The text without its leading part."""
        return self.shape.template % tuple([child.text for child in self.children])

    def with_children(self, children: Sequence[Node]) -> Self:
        return with_as_many(self, children)

    def with_leading(self, leading: str) -> Self:
        """The same statement after other white space and comments. Raises ValueError if the text contains anything else."""
        return attrs.evolve(self, leading=lexical.trivia(leading))

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
        """The same instruction, layout and operands with another opcode. Raises ValueError if it is invalid."""
        if not lexical.is_opcode(opcode):
            raise ValueError(f"not an opcode: {opcode!r}")
        i = 1 if self.guard else 0
        return self.with_children((*self.children[:i], Opcode(opcode), *self.children[i + 1 :]))

    def with_operand(self, i: int, operand: Node) -> Instruction:
        """The same instruction and layout with another operand; `parse_operand` makes one of a text. Raises IndexError."""
        at = range(len(self.children))[len(self.children) - len(self.operands) :][i]
        return self.with_children((*self.children[:at], operand, *self.children[at + 1 :]))


class Label(Statement):
    """`name:`."""

    __slots__ = ()

    @property
    def name(self) -> Name:
        return self.children[0]  # type: ignore[return-value]


class Declaration(Declares, Statement):
    """A variable, register or parameter declaration (5.4)."""

    __slots__ = ()


class Header(Statement):
    """The part of a function before its body."""

    __slots__ = ()

    @property
    def linkage(self) -> str | None:
        return text_of(self.children, Linkage)

    @property
    def is_entry(self) -> bool:
        return text_of(self.children, FunctionKind) == ".entry"

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
        """The directives after the parameters, including `.pragma`."""
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
        """The function that it denotes."""
        return self.children[1]  # type: ignore[return-value]


class Targets(Statement):
    """`.branchtargets` or `.calltargets` (11.3), named by the label before it."""

    __slots__ = ()

    @property
    def are_labels(self) -> bool:
        """Whether these are branch labels rather than functions."""
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
        return integer_of(self.children[0]) or 0

    @property
    def name(self) -> str:
        """The path of the source file."""
        return self.children[1].value  # type: ignore[attr-defined,no-any-return]

    @property
    def timestamp(self) -> int | None:
        return integer_of(self.children[2]) if len(self.children) > 2 else None

    @property
    def size(self) -> int | None:
        return integer_of(self.children[3]) if len(self.children) > 3 else None


class Loc(Statement):
    """`.loc` (11.5.4): the source position of what follows."""

    __slots__ = ()

    keyword = ".loc"

    @property
    def file(self) -> int:
        return integer_of(self.children[0]) or 0

    @property
    def line(self) -> int:
        return integer_of(self.children[1]) or 0

    @property
    def column(self) -> int:
        return integer_of(self.children[2]) or 0

    @property
    def function_name(self) -> str | None:
        """The label of the inlined function's name in .debug_str, if written."""
        return text_of(self.children, Name)

    @property
    def inlined_at(self) -> tuple[int, int, int] | None:
        """File, line and column of the call that was inlined, if written."""
        if "inlined_at" not in self.shape.template:
            return None
        file, line, column = [integer_of(child) or 0 for child in self.children[-3:]]
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
        """1, or -1 if the offset is subtracted."""
        return -1 if self.shape.tokens[1] == "-" else 1


class Unknown(Statement):
    """A directive that no rule of the grammar knows."""

    __slots__ = ()

    @property
    def word(self) -> str:
        return str(self.children[0].text)


class Line(Statement):
    """`#line …`, `@@DWARF …`: a line that is kept unchanged."""

    __slots__ = ()


class Empty(Statement):
    """A lone semicolon."""

    __slots__ = ()


@node
class Error(Node):
    """Text that is not PTX, preserved. `offset` is the position of the error in `body_text`, `rule` the id of the finding."""

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
        return attrs.evolve(self, leading=lexical.trivia(leading))


@node
class Block(Container):
    """`{ … }`: a scope. `close` is the closing brace with its leading text, empty if the brace is missing."""

    leading: str
    _children: tuple[Node, ...] | Deferred = attrs.field(eq=made)
    close: str

    @property
    def children(self) -> tuple[Node, ...]:
        return made(self._children)

    @property
    def deferred(self) -> Deferred | None:
        """The statements as the parser left them (`ptxkit.syntax.code`); None in a block that was made of nodes."""
        return self._children if isinstance(self._children, Deferred) else None

    @property
    def others(self) -> Sequence[tuple[int, Node]]:
        """The statements that are not instructions, with their indices."""
        if isinstance(self._children, Deferred):
            return self._children.others
        return [(i, child) for i, child in enumerate(self._children) if type(child) is not Instruction]

    @property
    def leadings(self) -> set[str]:
        """What leads the statements, maybe in pieces."""
        return self._children.leadings if isinstance(self._children, Deferred) else {child.leading for child in self._children}  # type: ignore[attr-defined]

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
        return attrs.evolve(self, leading=lexical.trivia(leading))

    def pieces(self) -> Iterator[str | Node]:
        yield self.leading
        yield "{"
        yield from self.children
        yield self.close


@node
class Headed(Container):
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
        return with_as_many(self, children)

    def pieces(self) -> Iterator[str | Node]:
        yield from self.children


class Function(Headed):
    """A kernel or device function: its header, and its body unless it is only declared."""

    __slots__ = ("__weakref__",)

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
        """All statements of the body with their paths from this function, in document order, including inner scopes."""
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
        """The instructions in document order, including inner scopes."""
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


class Section(Headed):
    """`.section .debug_info { … }` (11.5.2)."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"<Section {self.name}>"

    @property
    def name(self) -> str:
        return self.children[0].children[0].text
