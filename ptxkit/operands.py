"""Operands of the tree as shapes for the instruction table."""

from __future__ import annotations

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
    Instruction,
    Name,
    Node,
    Number,
    Opcode,
    Operator,
    Pair,
    Path,
    Unary,
    Vector,
    constant_value,
)

COMPONENTS = {"x": 0, "y": 1, "z": 2, "w": 3, "r": 0, "g": 1, "b": 2, "a": 3}
"""The selectors of the elements of a vector, with their indices."""


class Keys(dict[OperandShape | str, str]):
    """The keys of the operand shapes and opcodes of a module.

    The key of an instruction is that of its opcode followed by those of its operands: equal for instructions that differ only in names and
    constants, so that what depends on the opcode and the operand shapes is computed once for each key.
    """

    def __init__(self) -> None:
        super().__init__()
        self.shapes: dict[str, OperandShape] = {}
        """The shape of each key."""
        self.composed: dict[str, str] = {}
        """The keys of vectors and addresses, by their bracket and the keys of their parts."""

    def __missing__(self, what: OperandShape | str) -> str:
        key = f"{len(self)} "
        if not isinstance(what, str):
            self.shapes[key] = what
        self[what] = key
        return key

    def shapes_of(self, instruction: str) -> tuple[OperandShape, ...]:
        """The operand shapes of an instruction with this key."""
        return tuple([self.shapes[f"{key} "] for key in instruction.split()[1:]])


class Shaper:
    """Computes the shapes of operands in one scope. Instructions share operands, so each is examined once."""

    def __init__(self, scope: Scope, keys: Keys | None = None) -> None:
        self.scope = scope
        self.keys = Keys() if keys is None else keys
        self._known: dict[int, str] = {}
        """The keys by the `id` of the node."""
        self._symbols: dict[Symbol, str] = {}
        """The symbols that occurred, with their keys."""

    def instruction(self, instruction: Instruction) -> str:
        """The key of an instruction."""
        return "".join(map(self.key, instruction.children))

    def key(self, node: Node) -> str:
        """The key of an operand or opcode; empty for a guard.

        Parentheses have another meaning in a call than elsewhere; here they count as the list of a call.
        """
        found = self._known.get(id(node))
        if found is None:
            found = self._known[id(node)] = self._made(node)
        return found

    def _made(self, node: Node) -> str:
        kind = type(node)
        if kind is Name:
            return self.name_key(node.text)
        if kind is Address or kind is Vector:
            return self._composed(node)
        if kind is Opcode:
            return self.keys[node.text]
        if kind is Number:
            return self.keys[_INTEGER if node.text.isdecimal() else number_shape(node.text)]
        return "" if kind is Guard else self.keys[self._shape(node)]

    def name_key(self, name: str) -> str:
        """The key of a name."""
        symbol = self.scope.lookup(name) if name != "_" else None
        return self.key_of(symbol or name)

    def key_of(self, meaning: Symbol | str) -> str:
        """The key of a name that means this symbol, or of one that is not declared."""
        if isinstance(meaning, str):
            return self.keys[_undeclared(meaning)]
        found = self._symbols.get(meaning)
        if found is None:
            found = self._symbols[meaning] = self.keys[_symbol(meaning)]
        return found

    def _composed(self, operand: Node) -> str:
        """The key of a vector or an address, which follows from those of its parts."""
        parts = operand.children
        if type(operand) is Vector:
            bracket = "{"
        else:
            bracket = "["
            if len(parts) > 1:
                parts = operand.parts  # type: ignore[attr-defined]
        composed = bracket + "".join(map(self.key, parts))
        found = self.keys.composed.get(composed)
        if found is None:
            found = self.keys.composed[composed] = self.keys[self._shape(operand)]
        return found

    def __call__(self, operand: Node, is_call: bool = False) -> OperandShape:
        """The shape of an operand; parentheses are a list in a call and an expression elsewhere."""
        if type(operand) is Group and not is_call:
            return self(operand.elements[0]) if len(operand.elements) == 1 else shapes.UNKNOWN
        return self.keys.shapes[self.key(operand)]

    def _shape(self, operand: Node) -> OperandShape:
        if isinstance(operand, Address):
            return shapes.address(*[self(part) for part in operand.parts])
        if isinstance(operand, Vector):
            return shapes.vector(*[self(element) for element in operand.children])
        if isinstance(operand, Group):
            return shapes.operands(*[self(element) for element in operand.children])
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


def part(node: Node, path: Path) -> Node:
    """The part of an operand at a path of the instruction table, which numbers the parts of an address without its offset."""
    for step in path:
        node = node.parts[step] if isinstance(node, Address) else node.children[step]
    return node


def selected(base: tuple[int, ...], node: Component) -> tuple[int, ...]:
    """The registers that a selector names, given those of its base: one of a vector; all of them for a part of a register (`%r1.b0`)."""
    at = COMPONENTS.get(node.selector[1:])
    return base if at is None or len(base) <= at or len(base) == 1 else (base[at],)


def is_predefined(name: str) -> bool:
    """Whether a name needs no declaration: a special register, `WARP_SZ` or the sink `_`."""
    return name in ("_", "WARP_SZ") or (name.startswith("%") and special_register(name) is not None)


def _undeclared(name: str) -> OperandShape:
    """The shape of a name that no scope declares."""
    if name == "_":
        return shapes.SINK
    if name == "WARP_SZ":
        return shapes.immediate("int")
    return shapes.special(name) if is_predefined(name) else shapes.UNKNOWN


_INTEGER = shapes.immediate("int")


def number_shape(text: str) -> OperandShape:
    """The shape of a literal number."""
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
