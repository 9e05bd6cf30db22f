"""Operands of the tree as shapes for the instruction table."""

from __future__ import annotations

from collections.abc import Iterable

from ptxkit.isa import shapes
from ptxkit.isa.registers import special_register
from ptxkit.isa.shapes import OperandShape
from ptxkit.scopes import Scope, Symbol
from ptxkit.syntax import (
    Address,
    Apply,
    Cast,
    Component,
    Conditional,
    Element,
    Expression,
    Function,
    Group,
    Guard,
    Name,
    Node,
    Number,
    Opcode,
    Operator,
    Pair,
    Unary,
    Vector,
    constant_value,
)

COMPONENTS = frozenset(("x", "y", "z", "w", "r", "g", "b", "a"))


class Shaper:
    """Computes the shapes of operands in one scope. Instructions share operands, so each is examined once."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self.known: dict[int, OperandShape | str] = {}
        """By `id` of the node: operands with their shapes, opcodes with their text, guards with an empty text."""
        self.missing: set[str] = set()
        """The undeclared names that occurred, special registers excepted."""
        self.names: dict[int, str] = {}
        """By `id` of the node: operands, and parts of operands, that are names."""
        self.composites: list[tuple[int, Node]] = []
        """The other operands that may contain names, and guards, with their `id`."""
        self.inner: list[tuple[int, Node]] = []
        """The parts of such operands that have parts themselves."""
        self.symbols: list[Symbol] = []
        """The symbols that occurred, in order."""
        self._symbols: dict[int, OperandShape] = {}

    @property
    def used(self) -> Iterable[int]:
        """`id` of the symbols that occurred."""
        return self._symbols.keys()

    def learn(self, nodes: Iterable[tuple[int, Node]]) -> None:
        """Enters all these nodes, given with their `id`, into `known`.

        Parentheses have another meaning in a call than elsewhere; here they count as the list of a call.
        """
        known, by_symbol, names = self.known, self._symbols, self.names
        inside = self.composites
        found, heads = self.scope.found.get, self.scope.heads
        for key, node in nodes:
            kind = type(node)
            if kind is Name:
                names[key] = name = node.text
                known[key] = by_symbol.get(id(found(name))) or self._name(name)
            elif kind is Opcode:
                known[key] = node.text
                heads[key] = node
            elif kind is Number:
                known[key] = _INTEGER if node.text.isdecimal() else _number(node.text)
            else:
                inside.append((key, node))
        for key, node in inside:
            kind = type(node)
            if kind is Guard:
                self(node.children[0])
                known[key] = ""
                heads[key] = node
            elif kind is Group:
                known[key] = shapes.operands(*[self(element) for element in node.children])
            else:
                known[key] = self._shape(node)

    def __call__(self, operand: Node, is_call: bool = False) -> OperandShape:
        """The shape of an operand; parentheses are a list in a call and an expression elsewhere."""
        if type(operand) is Group:
            if is_call:
                return shapes.operands(*[self(element) for element in operand.elements])
            return self(operand.elements[0]) if len(operand.elements) == 1 else shapes.UNKNOWN
        found = self.known.get(id(operand))
        if found is None:
            if type(operand) is Name:
                self.names[id(operand)] = operand.text
            elif operand.children:
                self.inner.append((id(operand), operand))
            found = self.known[id(operand)] = self._shape(operand)
        assert isinstance(found, OperandShape)
        return found

    def _shape(self, operand: Node) -> OperandShape:
        kind = type(operand)
        if kind is Name:
            return self._name(operand.text)
        if kind is Address:
            children = operand.children
            if len(children) == 1:
                return shapes.address(self(children[0]))
            if len(children) == 2 and (offset := operand.offset) is not None:  # type: ignore[attr-defined]
                if type(offset) is not Number:
                    self(offset)
                return shapes.address(self(children[0]))
            return shapes.address(*[self(part) for part in operand.parts])  # type: ignore[attr-defined]
        if kind is Vector:
            return shapes.vector(*[self(element) for element in operand.children])
        if kind is Number:
            return _number(operand.text)
        if isinstance(operand, Pair):
            return shapes.pair(self(operand.children[0]), self(operand.children[1]))
        if isinstance(operand, Component):
            return self._component(operand)
        if isinstance(operand, Element):
            return self._element(operand)
        if isinstance(operand, Unary):
            return self._unary(operand)
        if isinstance(operand, Expression | Conditional | Cast | Apply):
            return self._expression(operand)
        return shapes.UNKNOWN

    def _name(self, name: str) -> OperandShape:
        if name == "_":
            return shapes.SINK
        symbol = self.scope.lookup(name)
        if symbol is not None:
            found = self._symbols.get(id(symbol))
            if found is None:
                found = self._symbols[id(symbol)] = _symbol(symbol)
                self.symbols.append(symbol)
            return found
        if name == "WARP_SZ":
            return shapes.immediate("int")
        if name.startswith("%") and special_register(name) is not None:
            return shapes.special(name)
        self.missing.add(name)
        return shapes.UNKNOWN

    def _component(self, operand: Component) -> OperandShape:
        base = self(operand.base)
        if base.kind == "special":
            return shapes.special(operand.text) if special_register(operand.text) is not None else shapes.UNKNOWN
        if base.kind == "register" and operand.selector[1:] in COMPONENTS:
            return shapes.register(base.type)
        return base

    def _element(self, operand: Element) -> OperandShape:
        array, index = self(operand.base), operand.number
        if array.kind == "unknown":
            return shapes.UNKNOWN
        symbol = self.scope.lookup(operand.base.text)
        if symbol is None or not symbol.dimensions:
            array = shapes.SCALAR
        if isinstance(index, Expression) and constant_value(index) is None:
            is_sum = index.operators == ("+",) and constant_value(index.terms[1]) is not None
            return shapes.element(array, self(index.terms[0]) if is_sum else shapes.COMPUTED)
        return shapes.element(array, self(index))

    def _unary(self, operand: Unary) -> OperandShape:
        inner = self(operand.operand)
        if inner.kind != "register":
            return inner
        return shapes.register(inner.type, inner.count, True) if operand.operator == "!" else inner

    def _expression(self, operand: Node) -> OperandShape:
        children = operand.children[1:] if isinstance(operand, Apply) else operand.children
        parts = [self(child) for child in children if not isinstance(child, Operator)]
        named = next((part for part in parts if part.kind in ("symbol", "register", "function", "special")), None)
        if named is not None:
            return named
        if any(part.kind == "unknown" for part in parts) and constant_value(operand) is None:
            return shapes.UNKNOWN
        kinds = {part.type for part in parts if part.kind == "immediate"}
        return shapes.immediate("f64" if "f64" in kinds else "f32" if "f32" in kinds else "int")


_INTEGER = shapes.immediate("int")


def _number(text: str) -> OperandShape:
    digits = text.removeprefix("-")
    head = digits[:2].lower()
    if head == "0f":
        return shapes.immediate("f32")
    if head == "0d" or (head not in ("0x", "0b") and ("." in digits or "e" in digits.lower())):
        return shapes.immediate("f64")
    return shapes.immediate("int")


def _symbol(symbol: Symbol) -> OperandShape:
    if symbol.kind == "register":
        return shapes.register(symbol.type or "", symbol.vector)
    if symbol.kind == "label":
        return shapes.LABEL
    if symbol.kind == "function":
        return shapes.KERNEL if isinstance(symbol.declares, Function) and symbol.declares.is_entry else shapes.FUNCTION
    return shapes.symbol(symbol.space or "", symbol.type or "")
