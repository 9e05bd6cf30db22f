"""Recipes: how, according to the instruction table, the outputs of an instruction follow from its inputs.

A recipe is made once for all instructions of one form with the same operand shapes. It locates the inputs in `Registers.reads` and in the
operands, and gives the term of each output from those of the inputs.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence

from ptxkit.analyses.numbers.known_bits import Known, between, bits
from ptxkit.analyses.symbolic.terms import Term, Terms
from ptxkit.frozen import frozen
from ptxkit.isa.binding import Bound, BoundOperand
from ptxkit.isa.forms import Call, Computes
from ptxkit.isa.registers import special_register
from ptxkit.isa.shapes import OperandShape
from ptxkit.isa.types import types

WINDOW_ALIGNMENT = 128
"""The alignment of a state-space window in generic addressing: variables keep their declared alignment in both address forms."""


@frozen
class Input:
    """An operand that is read. `kind` is register, constant, special, symbol, address or vector."""

    kind: str
    path: tuple[int, ...]
    """Its position in the operands."""
    width: int
    """The width in bits in which it is read."""
    signed: bool
    use: int = -1
    """For a register (or the first one in an address or vector), its index among the registers that the instruction reads, guard
    excluded."""
    negated: bool = False
    special: str = ""
    parts: tuple[Input, ...] = ()


Making = Callable[["Cook", "Output", tuple[Term, ...]], Term | None]


@frozen(eq=False)
class Output:
    """A register that is written, and its value."""

    make: Making | None
    """Makes its term from those of the inputs, before conversion to the register's width; None if only `known` is known."""
    inputs: tuple[Input, ...]
    """The inputs of the value."""
    uses: tuple[int, ...]
    """The registers among the inputs, by index among those that the instruction reads, guard excluded."""
    width: int
    made_signed: bool
    """Whether the computed value is signed, and so what is written."""
    signed: bool
    register_width: int
    element: int
    """The element's index in a vector, and the number of elements."""
    count: int
    known: Known | None


@frozen(eq=False)
class Recipe:
    """The values that instructions of a form give to the registers they write."""

    outputs: tuple[Output, ...]
    """In the order of `Registers.writes`."""


@functools.lru_cache(maxsize=65536)
def recipe(bound: Bound) -> Recipe | None:
    """The recipe for a form and operand shapes; None if the outputs are unknown."""
    if not bound.form.modelled:
        return None
    writes = [operand for operand in bound.operands if operand.writes]
    if not writes or any(operand.role in ("list", "func", "any") or _is_unknown(operand.shape) for operand in bound.operands):
        return None
    by_index: dict[int, set[tuple[bool, bool]]] = {}
    for operand in bound.operands:
        by_index.setdefault(operand.path[0], set()).add((operand.reads, operand.writes))
    if any(len(does) > 1 for does in by_index.values()):
        return None
    values = {c.what.target: c.what for c in reversed(bound.form.computes) if bound.holds(c.when)}
    positions = _indices([operand for operand in bound.operands if operand.reads])
    inputs = {}
    for operand in bound.operands:
        found = _input(operand, positions, bound) if operand.reads or operand.role == "imm" else None
        if found is not None:
            inputs[operand.name] = found
    outputs = [output for operand in writes for output in _outputs(operand, values.get(operand.name), inputs, bound)]
    if not any(output.make is not None or output.known is not None for output in outputs):
        return None
    return Recipe(tuple(outputs))


def _is_unknown(shape: OperandShape) -> bool:
    return shape.kind == "unknown" or (shape.kind == "register" and shape.type not in types()) or any(map(_is_unknown, shape.parts))


def _registers(shape: OperandShape, path: tuple[int, ...]) -> Iterator[tuple[tuple[int, ...], OperandShape]]:
    """The registers in an operand with their paths; a vector register appears once for each component."""
    if shape.kind == "register":
        for _ in range(shape.count):
            yield path, shape
    for position, part in enumerate(shape.parts):
        yield from _registers(part, (*path, position))


def _indices(reading: Sequence[BoundOperand]) -> dict[tuple[int, ...], int]:
    """By path, the index of a register among those that the instruction reads."""
    positions: dict[tuple[int, ...], int] = {}
    for count, (path, _) in enumerate([found for operand in reading for found in _registers(operand.shape, operand.path)]):
        positions.setdefault(path, count)
    return positions


def _input(operand: BoundOperand, positions: Mapping[tuple[int, ...], int], bound: Bound) -> Input | None:
    if operand.role == "addr":
        return Input("address", operand.path, 0, False, positions.get(operand.path, -1))
    kind = types()[operand.types[0]] if operand.types else None
    if kind is None:
        return None
    if operand.shape.kind == "vector":
        width = max((t.bits for t in map(types().__getitem__, operand.types)), default=0) // max(1, len(operand.shape.parts))
        parts = [_element(part, (*operand.path, i), width, False, positions) for i, part in enumerate(operand.shape.parts)]
        return Input("vector", operand.path, width * len(parts), False, parts=tuple([part for part in parts if part is not None]))
    if operand.shape.kind == "special" and len(operand.types) > 1:
        # cvt accepts a special register of any width and reads it as its source type
        kind = types().get(bound.slot(".atype"), kind)
    return _element(operand.shape, operand.path, kind.bits, kind.kind == "signed", positions)


def _element(
    shape: OperandShape, path: tuple[int, ...], width: int, signed: bool, positions: Mapping[tuple[int, ...], int]
) -> Input | None:
    if shape.kind == "register" and shape.count == 1:
        return Input("register", path, width, signed, positions[path], shape.negated) if path in positions else None
    if shape.kind == "immediate":
        return Input("constant", path, width, signed)
    if shape.kind == "special":
        register = special_register(shape.type)
        if register is None or register.volatile or register.components != 1:
            return None
        return Input("special", path, width, signed, special=shape.type)
    return Input("symbol", path, width, signed) if shape.kind in ("symbol", "element", "function") else None


def _outputs(operand: BoundOperand, computes: Computes | None, inputs: Mapping[str, Input], bound: Bound) -> Iterator[Output]:
    """The outputs of an operand's registers, in order; `_` is left out."""
    kind = types()[operand.types[0]] if operand.types else None
    is_vector = operand.shape.kind == "vector"
    elements = operand.shape.parts if is_vector else (operand.shape,)
    names = tuple(dict.fromkeys(_names(computes.value))) if computes is not None else ()
    value = computes.value if computes is not None and all(name in inputs for name in names) else None
    special = value.operator if isinstance(value, Call) else ""
    if is_vector and special not in ("parameter", "unpack"):
        value = None
    given = tuple([inputs[name] for name in names]) if value is not None else ()
    make, made_signed = _compile(value, names, given, bound) if value is not None else (None, False)
    uses = tuple([part.use for one in given for part in one.parts or (one,) if part.use >= 0])
    for position, shape in enumerate(elements):
        if shape.kind != "register":
            continue
        register = types()[shape.type]
        width = kind.bits if kind is not None else register.bits
        signed = kind is not None and kind.kind == "signed"
        if is_vector and special == "unpack":
            width, signed = register.bits, False
        known = None
        if kind is not None and operand.how == "wide" and kind.bits < register.bits and value is None:
            known = _extended(kind.bits, signed, register.bits)
        for component in range(shape.count):
            makes = make if shape.count == 1 else None
            one = position + component
            yield Output(makes, given, uses, width, made_signed, signed, register.bits, one, len(elements), known)


def _extended(width: int, signed: bool, register_width: int) -> Known:
    """What is known of a register that holds a narrower number, sign- or zero-extended."""
    if signed:
        return between(-(1 << (width - 1)), (1 << (width - 1)) - 1, register_width)
    return bits((1 << register_width) - (1 << width), 0, register_width)


def _names(value: Call | str | int) -> Iterator[str]:
    """The operands that a value names."""
    if isinstance(value, str):
        if not value.startswith("."):
            yield value
    elif isinstance(value, Call):
        for argument in value.arguments:
            yield from _names(argument)


class Cook:
    """Makes terms from recipes."""

    def __init__(self, terms: Terms) -> None:
        self.terms = terms

    def parameter(self, address: Term, size: int) -> Term | None:
        """The value of `size` bytes of parameters at an address, or None."""
        return None

    def make(self, output: Output, given: tuple[Term, ...]) -> Term | None:
        """The value of an output for these inputs; None if unknown."""
        assert output.make is not None
        term = output.make(self, output, given)
        if term is None:
            return None
        if term.width != output.width:
            term = self.terms.extend(term, output.width, output.made_signed)
        return term if term.width == output.register_width else self.terms.extend(term, output.register_width, output.signed)


def _compile(value: Call | str | int, names: Sequence[str], inputs: Sequence[Input], bound: Bound) -> tuple[Making, bool]:
    """The function that computes a value, and whether the value is signed, as its first operand is."""
    if isinstance(value, int):
        return lambda cook, output, given: cook.terms.constant(value, output.width), False
    if isinstance(value, str):
        position = names.index(value)
        return lambda cook, output, given: given[position], inputs[position].signed
    special = _SPECIAL.get(value.operator)
    if special is not None:
        slot = bound.slot(str(value.arguments[0]))
        return lambda cook, output, given: special(cook, output, given, slot), False
    word = bound.slot(value.operator).removeprefix(".") if value.operator.startswith(".") else value.operator
    made = [_compile(argument, names, inputs, bound) for argument in value.arguments]
    signed = made[1 if word == "select" else 0][1]
    operation = _OPERATION[word]
    if all(isinstance(argument, str) for argument in value.arguments):
        positions = tuple([names.index(str(argument)) for argument in value.arguments])
        if positions == tuple(range(len(names))):
            return lambda cook, output, given: operation(cook.terms, given, signed), signed
        return lambda cook, output, given: operation(cook.terms, tuple([given[position] for position in positions]), signed), signed
    numbers = tuple([argument if isinstance(argument, int) else None for argument in value.arguments])
    return _nested(operation, tuple([make for make, _ in made]), numbers, signed, word == "select"), signed


def _nested(operation: Operation, made: Sequence[Making], numbers: Sequence[int | None], signed: bool, selects: bool) -> Making:
    """An operator applied to nested values; a plain number takes the width of the first operand, or of the result in a selection."""

    def make(cook: Cook, output: Output, given: tuple[Term, ...]) -> Term | None:
        args: list[Term] = []
        for one, number in zip(made, numbers, strict=True):
            if number is not None:
                args.append(cook.terms.constant(number, output.width if selects or not args else args[0].width))
                continue
            term = one(cook, output, given)
            if term is None:
                return None
            args.append(term)
        return operation(cook.terms, tuple(args), signed)

    return make


def _window(cook: Cook, output: Output, given: tuple[Term, ...], space: str) -> Term | None:
    # what is in no window of another space is global memory (6.4.1.1)
    return cook.terms.constant(0, output.width) if space == ".global" else _window_base(cook.terms, space, output.width)


def _peer(cook: Cook, output: Output, given: tuple[Term, ...], slot: str) -> Term | None:
    rank = given[-1]
    return cook.terms.leaf("peer", output.width, (rank,), bits(WINDOW_ALIGNMENT - 1, 0, output.width), rank.in_loop)


def _parameter(cook: Cook, output: Output, given: tuple[Term, ...], slot: str) -> Term | None:
    size = output.width // 8
    (address,) = given
    return cook.parameter(cook.terms.add(address, cook.terms.constant(output.element * size, address.width)), size)


def _pack(cook: Cook, output: Output, given: tuple[Term, ...], slot: str) -> Term | None:
    return given[0]


def _unpack(cook: Cook, output: Output, given: tuple[Term, ...], slot: str) -> Term | None:
    (packed,) = given
    each = packed.width // output.count
    amount = cook.terms.constant(output.element * each, 32)
    return cook.terms.extend(cook.terms.apply("shr.u", packed.width, (packed, amount)), each, False)


def _window_base(terms: Terms, space: str, width: int) -> Term:
    """The base of a state space in generic addressing; all shared spaces begin at one address."""
    space = space.partition("::")[0]
    return terms.leaf("window", width, (space,), bits(WINDOW_ALIGNMENT - 1, 0, width))


_SPECIAL: dict[str, Callable[[Cook, Output, tuple[Term, ...], str], Term | None]] = {
    "window": _window,
    "peer": _peer,
    "parameter": _parameter,
    "pack": _pack,
    "unpack": _unpack,
}

Operation = Callable[[Terms, tuple[Term, ...], bool], Term]


def _plain(operator: str, width: int = 0) -> Operation:
    return lambda terms, args, signed: terms.apply(operator, width or args[0].width, args)


def _by_sign(operator: str) -> Operation:
    return lambda terms, args, signed: terms.apply(operator + (".s" if signed else ".u"), args[0].width, args)


def _wide(terms: Terms, args: tuple[Term, ...], signed: bool) -> Term:
    width = 2 * args[0].width
    return terms.apply("mul", width, tuple([terms.extend(arg, width, signed) for arg in args]))


def _less(swapped: bool, inverted: bool, unsigned: bool = False) -> Operation:
    def less(terms: Terms, args: tuple[Term, ...], signed: bool) -> Term:
        a, b = args
        found = terms.apply("lt.s" if signed and not unsigned else "lt.u", 1, (b, a) if swapped else (a, b))
        return terms.invert(found) if inverted else found

    return less


_OPERATION: dict[str, Operation] = {
    "add": lambda terms, args, signed: terms.add(*args),
    "sub": lambda terms, args, signed: terms.sub(*args),
    "neg": lambda terms, args, signed: terms.scale(args[0], -1),
    "not": lambda terms, args, signed: terms.invert(args[0]),
    "mulwide": _wide,
    "ne": lambda terms, args, signed: terms.invert(terms.apply("eq", 1, args)),
    "eq": _plain("eq", 1),
    "lt": _less(False, False),
    "ge": _less(False, True),
    "gt": _less(True, False),
    "le": _less(True, True),
    "lo": _less(False, False, True),
    "hs": _less(False, True, True),
    "hi": _less(True, False, True),
    "ls": _less(True, True, True),
    "select": lambda terms, args, signed: terms.apply("select", args[1].width, args),
    "popc": _plain("popc", 32),
    "clz": _plain("clz", 32),
    **{word: _plain(word) for word in ("mul", "abs", "and", "or", "xor", "lop3", "shl", "bfi", "brev", "prmt")},
    **{word: _plain(word) for word in ("funnel_left", "funnel_right")},
    **{word: _by_sign(word) for word in ["mulhi", "div", "rem", "min", "max", "shr", "bfe"]},
}

OPERATORS = frozenset(_OPERATION) | frozenset(_SPECIAL)
"""The words that a `computes` line of the instruction table may use."""
