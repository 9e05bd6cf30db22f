"""The code of a function as a canonical sequence: without layout, comments and declarations, and with names separated."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ptxkit.frozen import frozen
from ptxkit.memo import expression
from ptxkit.names import Kind, Names, Scope, Symbol, resolve
from ptxkit.syntax import (
    Block,
    Composite,
    Declaration,
    Function,
    Instruction,
    Label,
    Loc,
    Module,
    Name,
    Node,
    Numbers,
    Opcode,
    Path,
    Statement,
)

HOLE = "\0"
"""Represents a register or label in a mask."""
Renameable = tuple[int, str]
"""A register or label: the `id` of its symbol, and its name, which for `%r<9>` identifies the member."""

_SPACE = expression(r"\s+|//[^\n]*|/\*.*?\*/", re.S)


@frozen
class Item:
    """An instruction, a label, a brace, or another statement of a body."""

    mask: str
    """Its text, with holes for registers and labels."""
    names: tuple[Renameable, ...]
    """The names in the holes."""
    path: Path
    """Its path in the module."""
    opcode: str = ""
    """The operation of an instruction."""


@frozen
class Body:
    """The code of a function, and the declarations of its registers."""

    items: tuple[Item, ...]
    registers: dict[Renameable, Symbol]
    """The declaration of each register that the code uses."""


def body(module: Module, at: int) -> Body:
    """The code of the function at this index of the module. Line information is excluded."""
    return _Masker(resolve(module)).body(module.children[at], at)  # type: ignore[arg-type]


def plain(node: Node) -> str:
    """A node's text without layout and comments: its tokens, separated by spaces."""
    return " ".join(_tokens(node))


def _tokens(node: Node) -> Iterator[str]:
    """Recursive; the parser bounds the nesting of nodes."""
    if isinstance(node, Composite | Statement):
        for token, child in zip(node.shape.tokens, (*node.children, None), strict=True):
            if token:
                yield token
            if child is not None:
                yield from _tokens(child)
    elif node.children:
        for child in node.children:
            yield from _tokens(child)
    elif isinstance(node, Opcode | Numbers):
        yield _SPACE.sub("", node.text)
    else:
        yield node.text.strip()


class _Masker:
    def __init__(self, names: Names) -> None:
        self.names = names
        self.known: dict[tuple[int, int], tuple[str, tuple[Renameable, ...]]] = {}
        self.registers: dict[Renameable, Symbol] = {}

    def body(self, function: Function, at: int) -> Body:
        items: list[Item] = []
        if function.body is not None:
            self._block(function.body, (at, 1), items)
        return Body(tuple(items), self.registers)

    def _block(self, block: Node, path: Path, items: list[Item]) -> None:
        """Recursive; the parser bounds the nesting of blocks."""
        scope = self.names.scopes[path]
        for i, child in enumerate(block.children):
            inner = (*path, i)
            kind = type(child)
            if kind is Instruction:
                items.append(self._instruction(child, inner, scope))  # type: ignore[arg-type]
            elif kind is Block:
                items.append(Item("{", (), inner))
                self._block(child, inner, items)
                items.append(Item("}", (), inner))
            elif kind is Label:
                mask, names = self._masked(child.children[0], scope)
                items.append(Item(f"{mask} :", names, inner))
            elif kind is not Declaration and kind is not Loc:
                mask, names = self._masked(child, scope)
                items.append(Item(mask, names, inner))

    def _instruction(self, instruction: Instruction, path: Path, scope: Scope) -> Item:
        masks: list[str] = []
        names: list[Renameable] = []
        for token, child in zip(instruction.shape.tokens, instruction.children, strict=False):
            if token:
                masks.append(token)
            if type(child) is Opcode:
                masks.append(child.text)
                continue
            key = (id(child), id(scope))
            found = self.known.get(key)
            if found is None:
                found = self.known[key] = self._masked(child, scope)
            masks.append(found[0])
            names += found[1]
        return Item(" ".join(masks), tuple(names), path, instruction.opcode.text)

    def _masked(self, node: Node, scope: Scope) -> tuple[str, tuple[Renameable, ...]]:
        names: list[Renameable] = []
        return " ".join(self._tokens(node, scope, names)), tuple(names)

    def _tokens(self, node: Node, scope: Scope, names: list[Renameable]) -> Iterator[str]:
        if isinstance(node, Name):
            symbol = scope.lookup(node.text)
            if symbol is not None and symbol.kind in (Kind.REGISTER, Kind.LABEL):
                name = (id(symbol), node.text)
                names.append(name)
                if symbol.kind is Kind.REGISTER:
                    self.registers[name] = symbol
                yield HOLE
            else:
                yield node.text
        elif isinstance(node, Composite | Statement):
            for token, child in zip(node.shape.tokens, (*node.children, None), strict=True):
                if token:
                    yield token
                if child is not None:
                    yield from self._tokens(child, scope, names)
        elif node.children:
            for child in node.children:
                yield from self._tokens(child, scope, names)
        else:
            yield node.text.strip()
