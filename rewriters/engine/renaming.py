"""Renames declarations and all their uses, scope by scope."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from ptxkit.names import Names, Scope, Symbol, resolve
from ptxkit.syntax import (
    Apply,
    Block,
    Declaration,
    Declarator,
    Function,
    Loc,
    Module,
    Name,
    Node,
    Number,
    Opcode,
    Parameters,
    Path,
    Prototype,
    Range,
    Section,
)

N = TypeVar("N", bound=Node)

NewName = Callable[[Symbol, str], str]
"""The new name of a symbol, given the name as written: for a family `%r<9>`, a member such as `%r5`, or in its declaration `%r`."""
NewCount = Callable[[Symbol], int | None]
"""The new number of members of a family."""


def renamed(
    module: Module, new_name: NewName, new_count: NewCount = lambda symbol: symbol.count, outside: Mapping[str, str] | None = None
) -> Module:
    """The module with new names; unchanged nodes are shared. `outside` maps names used by debugging data."""
    return _Renamer(resolve(module), new_name, new_count, outside or {}).module(module)


class _Renamer:
    def __init__(self, names: Names, new_name: NewName, new_count: NewCount, outside: Mapping[str, str]) -> None:
        self.names = names
        self.new_name = new_name
        self.new_count = new_count
        self.outside = outside
        self.known: dict[tuple[int, int], Node] = {}

    def module(self, module: Module) -> Module:
        root = self.names.root
        children: list[Node] = []
        for i, child in enumerate(module.children):
            if isinstance(child, Function):
                children.append(self._function((i,), child))
            elif isinstance(child, Section):
                children.append(self._mapped(child, lambda name: self.outside.get(name.text, name.text)))
            else:
                children.append(self._statement(child, root))
        return _with(module, children)

    def _function(self, path: Path, function: Function) -> Function:
        root = self.names.root
        inner = self.names.scopes.get((*path, 0))
        header: list[Node] = []
        for child in function.header.children:
            if isinstance(child, Name):
                header.append(self._name(child, root))
            elif isinstance(child, Parameters) and inner is not None:
                header.append(_with(child, [self._declaration(parameter, inner) for parameter in child.children]))
            else:
                header.append(child)
        children: list[Node] = [_with(function.header, header)]
        if function.body is not None:
            children.append(self._block((*path, 1), function.body))
        return _with(function, children)

    def _block(self, path: Path, block: Node) -> Node:
        """Recursive; the parser bounds the nesting of blocks."""
        scope = self.names.scopes[path]
        children = [
            self._block((*path, i), child) if isinstance(child, Block) else self._statement(child, scope)
            for i, child in enumerate(block.children)
        ]
        return _with(block, children)

    def _statement(self, statement: Node, scope: Scope) -> Node:
        if isinstance(statement, Prototype | Loc):
            return statement
        if isinstance(statement, Declaration):
            return self._declaration(statement, scope)
        return _with(statement, [self._in(child, scope) for child in statement.children])

    def _declaration(self, declaration: Node, scope: Scope) -> Node:
        children: list[Node] = []
        for child in declaration.children:
            if not isinstance(child, Declarator):
                children.append(child)
                continue
            symbol = _declared(scope, child)
            parts = [self._in(part, scope) for part in child.children]
            if symbol is not None:
                name = self.new_name(symbol, symbol.name)
                parts[0] = child.name if name == symbol.name else Name(name)
                for i, part in enumerate(parts):
                    if isinstance(part, Range):
                        count = self.new_count(symbol)
                        parts[i] = part if count == symbol.count else part.with_children((Number(str(count)),))
            children.append(_with(child, parts))
        return _with(declaration, children)

    def _name(self, name: Name, scope: Scope) -> Name:
        symbol = scope.lookup(name.text)
        new = name.text if symbol is None else self.new_name(symbol, name.text)
        return name if new == name.text else Name(new)

    def _in(self, node: Node, scope: Scope) -> Node:
        if type(node) is Number or type(node) is Opcode:
            return node
        key = (id(node), id(scope))
        found = self.known.get(key)
        if found is None:
            found = self.known[key] = self._mapped(node, lambda name: self._name(name, scope).text)
        return found

    def _mapped(self, node: Node, new: Callable[[Name], str]) -> Node:
        """Recursive; the parser bounds the nesting of operands."""
        if isinstance(node, Name):
            text = new(node)
            return node if text == node.text else Name(text)
        if not node.children:
            return node
        skipped = 1 if isinstance(node, Apply) else 0
        return _with(node, [child if i < skipped else self._mapped(child, new) for i, child in enumerate(node.children)])


def _declared(scope: Scope, declarator: Declarator) -> Symbol | None:
    """The symbol that a declarator in a scope declares."""
    name = declarator.name.text
    if declarator.count is None:
        return scope.symbols.get(name)
    return next((symbol for symbol in scope.ranges.get(name, ()) if symbol.count == declarator.count), None)


def _with(node: N, children: list[Node]) -> N:
    """The node itself if nothing changes."""
    if all(map(_same, node.children, children)):
        return node
    return node.with_children(children)


def _same(one: Node, other: Node) -> bool:
    return one is other
