"""Operands of the tree as shapes for the instruction table."""

from __future__ import annotations

from collections.abc import KeysView
from itertools import chain

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
    Leaf,
    Name,
    Node,
    Number,
    Opcode,
    Operator,
    Pair,
    Selector,
    Unary,
    Vector,
    constant_value,
)

COMPONENTS = frozenset(("x", "y", "z", "w", "r", "g", "b", "a"))

_BETWEEN = frozenset((Operator, Selector))
"""The children of an operand that are not operands themselves."""


class Keys(dict[OperandShape | str, str]):
    """The keys of the operand shapes and opcodes of a module.

    The key of an instruction is that of its opcode followed by those of its operands: equal for instructions that differ only in names and
    constants, so that whatever depends on the opcode and the operand shapes is computed once for each key.
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


class Shaper:
    """Computes the shapes of operands in one scope. Instructions share operands, so each is examined once."""

    def __init__(self, scope: Scope, keys: Keys | None = None) -> None:
        self.scope = scope
        self.keys = Keys() if keys is None else keys
        self.known: dict[int, str] = {}
        """The keys of operands and opcodes by the `id` of the node; empty for a guard."""
        self.missing: set[str] = set()
        """The undeclared names that occurred, special registers excepted."""
        self.names: dict[int, str] = {}
        """By `id` of the node: operands, and parts of operands, that are names."""
        self.composites: list[tuple[int, Node]] = []
        """By `id`: guards, other operands and parts of operands that have parts themselves; parts first."""
        self._symbols: dict[Symbol | None, str] = {None: ""}
        """The symbols that occurred, in order, with their keys."""

    @property
    def symbols(self) -> list[Symbol]:
        """The symbols that occurred, in order."""
        return [symbol for symbol in self._symbols if symbol is not None]

    @property
    def used(self) -> KeysView[Symbol | None]:
        """The symbols that occurred, and None."""
        return self._symbols.keys()

    def enter(self, nodes: list[Node]) -> None:
        """Learns the guards, opcodes and operands of all instructions of the scope."""
        distinct = dict(zip(map(id, nodes), nodes, strict=True))
        # compilers number registers without large gaps
        self.scope.spell_out(2 * len(distinct))
        self.learn(distinct)

    def key(self, instruction: Instruction) -> str:
        """The key of an instruction whose guard, opcode and operands were learned."""
        return "".join(map(self.known.__getitem__, map(id, instruction.children)))

    def learn(self, nodes: dict[int, Node]) -> None:
        """Enters all these nodes, given by their `id`, into `known`.

        Parentheses have another meaning in a call than elsewhere; here they count as the list of a call.
        """
        known, keys = self.known, self.keys
        self._learn_names({at: node.text for at, node in nodes.items() if type(node) is Name})
        composites: list[tuple[int, Node]] = []
        for at, node in [(at, node) for at, node in nodes.items() if type(node) is not Name]:
            kind = type(node)
            if kind is Opcode:
                known[at] = keys[node.text]
            elif kind is Number:
                known[at] = keys[_INTEGER if node.text.isdecimal() else number_shape(node.text)]
            elif isinstance(node, Leaf):
                known[at] = keys[shapes.UNKNOWN]
            else:
                composites.append((at, node))
        if not composites:
            return
        parts = list(chain.from_iterable([node.children if type(node) is not Apply else node.children[1:] for _, node in composites]))
        inner = dict(zip(map(id, parts), parts, strict=True))
        self.learn({at: part for at, part in inner.items() if at not in known and type(part) not in _BETWEEN})
        self.composites += composites
        for at, node in composites:
            known[at] = "" if type(node) is Guard else self._composed(node)

    def _learn_names(self, names: dict[int, str]) -> None:
        of_symbol, find = self._symbols, self.scope.found.get
        self.names.update(names)
        symbols = list(map(find, names.values()))
        distinct = dict.fromkeys(symbols)
        for symbol in distinct:
            if symbol is not None:
                self.symbol_key(symbol)
        self.known.update(zip(names, map(of_symbol.__getitem__, symbols), strict=True))
        if None in distinct:
            self.known.update([(at, self.name_key(name)) for (at, name), one in zip(names.items(), symbols, strict=True) if one is None])

    def name_key(self, name: str) -> str:
        """The key of a name."""
        symbol = self.scope.lookup(name) if name != "_" else None
        return self.keys[self._undeclared(name)] if symbol is None else self.symbol_key(symbol)

    def symbol_key(self, symbol: Symbol) -> str:
        """The key of each name that means a symbol."""
        found = self._symbols.get(symbol)
        if found is None:
            found = self._symbols[symbol] = self.keys[_symbol(symbol)]
        return found

    def _undeclared(self, name: str) -> OperandShape:
        if name == "_":
            return shapes.SINK
        if name == "WARP_SZ":
            return shapes.immediate("int")
        if name.startswith("%") and special_register(name) is not None:
            return shapes.special(name)
        self.missing.add(name)
        return shapes.UNKNOWN

    def _composed(self, operand: Node) -> str:
        """The key of an operand whose parts are known. For vectors and addresses, it follows from theirs."""
        kind = type(operand)
        parts = operand.children
        if kind is Vector:
            bracket = "{"
        elif kind is Address:
            bracket = "["
            if len(parts) > 1:
                parts = operand.parts  # type: ignore[attr-defined]
        else:
            return self.keys[self._shape(operand)]
        composed = bracket + "".join(map(self.known.__getitem__, map(id, parts)))
        found = self.keys.composed.get(composed)
        if found is None:
            found = self.keys.composed[composed] = self.keys[self._shape(operand)]
        return found

    def __call__(self, operand: Node, is_call: bool = False) -> OperandShape:
        """The shape of an operand; parentheses are a list in a call and an expression elsewhere."""
        if type(operand) is Group and not is_call:
            return self(operand.elements[0]) if len(operand.elements) == 1 else shapes.UNKNOWN
        key = self.known.get(id(operand))
        if key is None:
            self.learn({id(operand): operand})
            key = self.known[id(operand)]
        return self.keys.shapes[key]

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
