"""Operands of the tree as the shapes that the instruction table knows them by."""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import NamedTuple

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
    """Gives the shape of operands as they mean in one scope. Operands are shared between instructions, so each is looked at once."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self.known: dict[int, OperandShape | str] = {}
        """By `id` of the node: operands with their shapes, opcodes with their text, guards with an empty text."""
        self.missing: set[str] = set()
        """The names that were met and that nothing declares, special registers aside."""
        self._symbols: dict[int, OperandShape] = {}
        self._families: dict[str, _Family] = {}
        """By the stem of their names."""

    @property
    def used(self) -> Iterable[int]:
        """`id` of the symbols that were met."""
        return self._symbols.keys()

    def learn(self, nodes: Iterable[tuple[int, Node]]) -> None:
        """Makes `known` hold all these nodes, given with their `id`.

        Parentheses are one thing in a call and another elsewhere; here they count as the list of a call.
        """
        known, by_symbol, families = self.known, self._symbols, self._families
        own, heads = self.scope.symbols, self.scope.heads
        inside: list[tuple[int, Node]] = []
        for key, node in nodes:
            kind = type(node)
            if kind is Name:
                name = node.text
                symbol = own.get(name)
                if symbol is not None:
                    known[key] = by_symbol.get(id(symbol)) or self._name(name)
                    continue
                stem = name.rstrip(_DIGITS)
                family = families.get(stem)
                number = name[len(stem) :]
                if family is None:
                    known[key] = self._first_of_stem(name, stem)
                elif (
                    number
                    and number[0] != "0"
                    and len(number) < 10
                    and int(number) < family.size
                    and not (family.others and any(name in names for names in family.others))
                ):
                    known[key] = family.shape
                else:
                    known[key] = self._name(name)
            elif kind is Opcode:
                known[key] = node.text
                heads[key] = node
            elif kind is Number:
                known[key] = _INTEGER if node.text.isdecimal() else _number(node.text)
            else:
                inside.append((key, node))
        for key, node in inside:
            if type(node) is Guard:
                self(node.children[0])
                known[key] = ""
                heads[key] = node
            elif type(node) is Group:
                known[key] = shapes.operands(*[self(element) for element in node.children])
            else:
                known[key] = self._shape(node)

    def __call__(self, operand: Node, is_call: bool = False) -> OperandShape:
        """The shape of an operand; parentheses are a list in a call and an expression elsewhere."""
        if isinstance(operand, Group):
            if is_call:
                return shapes.operands(*[self(element) for element in operand.elements])
            return self(operand.elements[0]) if len(operand.elements) == 1 else shapes.UNKNOWN
        found = self.known.get(id(operand))
        if found is None:
            found = self.known[id(operand)] = self._shape(operand)
        assert isinstance(found, OperandShape)
        return found

    def _shape(self, operand: Node) -> OperandShape:
        if type(operand) is Address and len(operand.children) == 1:
            return shapes.address(self(operand.children[0]))
        if type(operand) is Address and len(operand.children) == 2 and (offset := operand.offset) is not None:
            if type(offset) is not Number:
                self(offset)
            return shapes.address(self(operand.children[0]))
        if isinstance(operand, Name):
            return self._name(operand.text)
        if isinstance(operand, Number):
            return _number(operand.text)
        if isinstance(operand, Address):
            return shapes.address(*[self(part) for part in operand.parts])
        if isinstance(operand, Vector):
            return shapes.vector(*[self(element) for element in operand.elements])
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

    def _first_of_stem(self, name: str, stem: str) -> OperandShape:
        """The shape of a name; if a symbol with a count declares it, that is remembered for the names of the same stem."""
        shape = self._name(name)
        symbol = self.scope.lookup(name)
        if symbol is None or symbol.count is None:
            return shape
        scope: Scope | None = self.scope
        others: list[Container[str]] = []
        while scope is not None:
            if scope is not self.scope:
                others.append(scope.symbols)
            symbols = scope.ranges.get(stem)
            if symbols == [symbol]:
                self._families[stem] = _Family(symbol.count, shape, tuple(others))
                break
            # the count of `%r1<5>` declares `%r12` too
            if symbols or any(other[-1:].isdecimal() for other in scope.ranges):
                break
            scope = scope.parent
        return shape

    def _name(self, name: str) -> OperandShape:
        if name == "_":
            return shapes.SINK
        symbol = self.scope.lookup(name)
        if symbol is not None:
            found = self._symbols.get(id(symbol))
            if found is None:
                found = self._symbols[id(symbol)] = _symbol(symbol)
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
_DIGITS = "0123456789"


class _Family(NamedTuple):
    """What all names of one stem are that have a number below the count and are not declared one by one."""

    size: int
    shape: OperandShape
    others: tuple[Container[str], ...]
    """What the scopes around this one declare one by one, up to the scope of the family."""


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
