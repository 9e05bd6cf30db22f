"""Compiles basic blocks to Python, one line for each instruction, which calls the instruction's semantics.

The source contains only positions (`v3 = k1(v0, c2)`); names and numbers of the PTX text are objects in its namespace, so that similar
blocks share a code object. Within a block a register has the dtype in which it was computed, at block boundaries its declared dtype.
"""

from __future__ import annotations

import inspect
import struct
from collections.abc import Mapping, Set
from functools import lru_cache
from types import FunctionType
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from ptxkit.isa.binding import Bound, BoundOperand
from ptxkit.isa.registers import special_register
from ptxkit.machine.blocks import BasicBlock
from ptxkit.machine.code import CARRY, STACK, TOP, Body, Site, mask_of, part
from ptxkit.machine.fault import Stop
from ptxkit.machine.memory.operands import SplitAddress
from ptxkit.machine.monitoring import is_observed, observed, stepped, used
from ptxkit.machine.operation import Operation, Semantics, Unsupported
from ptxkit.machine.semantics import semantics_of
from ptxkit.machine.semantics._moves import same
from ptxkit.machine.semantics.special import special_value
from ptxkit.machine.types import B128, element_bytes
from ptxkit.machine.values.floats import are_small
from ptxkit.machine.values.single import OF_COUNT
from ptxkit.names import Kind
from ptxkit.operands import COMPONENTS
from ptxkit.syntax import Address, Component, Element, Expression, Group, Guard, Name, Node, Number, Unary, Vector, constant_value

if TYPE_CHECKING:
    from ptxkit.machine.interfaces import Program

Array = np.ndarray[Any, Any]
FILE = "<block>"
U64 = np.dtype(np.uint64)
BOOL = np.dtype(np.bool_)

_INLINE: dict[Any, str] = {
    np.add: "({} + {})",
    np.subtract: "({} - {})",
    np.multiply: "({} * {})",
    np.bitwise_and: "({} & {})",
    np.bitwise_or: "({} | {})",
    np.bitwise_xor: "({} ^ {})",
    np.logical_and: "({} & {})",
    np.logical_or: "({} | {})",
    np.logical_xor: "({} ^ {})",
    np.invert: "(~{})",
    np.negative: "(-{})",
    np.less: "({} < {})",
    np.less_equal: "({} <= {})",
    np.greater: "({} > {})",
    np.greater_equal: "({} >= {})",
    np.equal: "({} == {})",
    np.not_equal: "({} != {})",
}
"""Operators that Python can apply directly, which is faster than a ufunc for scalars."""

_COMPARING = frozenset((np.less, np.less_equal, np.greater, np.greater_equal, np.equal, np.not_equal))


@attrs.frozen(eq=False)
class Known:
    """What all instructions with the same form, shape and constants have in common."""

    operation: Operation
    semantics: Semantics
    reads: tuple[tuple[str, BoundOperand | None, np.dtype[Any]], ...]
    """The arguments in order: name in the form, operand (None if omitted), and dtype; without flags and the stack."""
    writes: tuple[tuple[BoundOperand, np.dtype[Any]], ...]
    """The results in order."""
    names: list[str]
    """The names of all arguments, in order."""


def known(operation: Operation) -> Known:
    """What is common to all instructions with this operation. Raises `Stop` if it cannot be executed."""
    bound = operation.bound
    if not bound.form.modelled:
        raise Stop("unsupported", f"`{bound.opcode}` is known by name only: what it does is not")
    try:
        semantics = semantics_of(operation)
    except Unsupported as why:
        raise Stop("unsupported", str(why)) from None
    reads: list[tuple[str, BoundOperand | None, np.dtype[Any]]] = []
    for name in operand_order(bound.form):
        operand = bound.operand(name)
        if operand is None:
            if is_read(bound.form, name):
                reads.append((name, None, U64))
        elif operand.reads or operand.role in ("imm", "sym"):
            reads.append((name, operand, _asked(semantics.reads, operation, name)))
    count = len(reads) + ("r" in bound.carry) + reads_stack(bound)
    if any(operand is None for _, operand, _ in reads) and not takes(semantics, count):
        reads = [one for one in reads if one[1] is not None]
    writes = [(operand, _asked(semantics.writes, operation, operand.name)) for operand in operation.writes]
    names = [name for name, _, _ in reads]
    if "r" in bound.carry:
        names.append("CC")
    if reads_stack(bound):
        names.append("TOP")
    return Known(operation, semantics, tuple(reads), tuple(writes), names)


def _asked(dtypes: Mapping[str, Any], operation: Operation, name: str) -> np.dtype[Any]:
    """The dtype of an operand: the one that the semantics request, or that of its type."""
    asked = dtypes.get(name)
    return np.dtype(asked) if asked is not None else operation.dtype(name)


def reads_stack(bound: Bound) -> bool:
    return any(effect in ("alloca", "stacksave", "stackrestore") for effect in bound.effects)


def changes_stack(bound: Bound) -> bool:
    return any(effect in ("alloca", "stackrestore") for effect in bound.effects)


def is_plain(site: Site) -> bool:
    """Whether all operands of an instruction are names or addresses in a single register, so that it has no constants."""
    for node in site.instruction.operands:
        if type(node) is not Name and (type(node) is not Address or type(node.parts[0]) is not Name or len(node.parts) != 1):
            return False
    return True


def described(site: Site, bound: Bound, target: str) -> Operation:
    """The operation of an instruction, with its constants."""
    constants: dict[str, Any] = {}
    parts: dict[str, str] = {}
    negated: set[str] = set()
    operands = site.instruction.operands
    for operand in bound.operands:
        node = part(operands[operand.path[0]], operand.path[1:])
        kind = type(node)
        if kind is Name:
            continue
        if isinstance(node, Vector):
            values = tuple([constant_value(element) for element in node.children])
            if any(value is not None for value in values):
                constants[operand.name] = values
            continue
        if isinstance(node, Unary) and constant_value(node) is None and node.operator == "-":
            negated.add(operand.name)
            node = node.operand
        if isinstance(node, Component):
            if node.selector[1:] not in COMPONENTS:
                parts[operand.name] = node.selector
            continue
        value = constant_value(node)
        if value is not None:
            constants[operand.name] = value
    return Operation(bound, target, constants, parts, frozenset(negated))


@attrs.define(eq=False)
class Waiting:
    """An instruction with a block of its own, because lanes may wait at it."""

    semantics: Semantics
    arguments: Any
    """`arguments(R, L)` gives the arguments of `run`."""
    put: Any
    """`put(R, L, result)` stores the result."""
    level: str
    """`warp`, `warpgroup` or empty: the group of threads that must execute it together."""
    members: int
    """Index of the argument with the member mask; -1 if there is none."""
    lanes: bool
    line: int = 0


class Compiler:
    """Compiles the blocks of one function."""

    def __init__(self, program: Program, body: Body) -> None:
        self.program = program
        self.body = body

    def block(self, block: BasicBlock) -> Any:
        """`run(R, L)` executes the straight-line part of the block and returns the value of the branch condition, or None."""
        if block.last >= 0:
            self._bound(block.last)
        # this also fixes the dtypes of registers
        live_out = block.live_out
        writer = _Writer(self.program, self.body)
        if not self.program.is_stepped:
            writer.loose = self._loose(block, live_out)
            for i in range(block.start, block.end):
                writer.one(i)
        run = writer.finish(live_out, self._decision(writer, block))
        if block.kind == "sync":
            block.wait = self.waiting(block.last)
        if self.program.is_stepped:
            run = self._stepped(block, run)
        block.run = run
        self.body.note(block)
        return run

    def _bound(self, i: int) -> Bound:
        """The form of an instruction. Raises `Stop` if it has none."""
        bound = self.body.bound(i)
        if not isinstance(bound, Bound):
            raise Stop("unsupported", bound.message)
        return bound

    def _loose(self, block: BasicBlock, live_out: Set[int] | None) -> set[int]:
        """The instructions of a block for which it cannot be observed which NaN they produce."""
        body, program = self.body, self.program
        loose: set[int] = set()
        if program.is_watched:
            return loose
        able = [False] * (block.end - block.start)
        for i in range(block.start, block.end):
            site = body.sites[i]
            if isinstance(site.bound, Bound) and site.bound.type == ".f32" and site.instruction.guard is None:
                able[i - block.start] = "any nan" in program.known(site).semantics.variants
        if not any(able):
            return loose
        seen = -1 if live_out is None else mask_of(live_out)
        for i in range(block.end - 1, block.start - 1, -1):
            reads, writes = body.reads_writes(i)
            if able[i - block.start]:
                if not writes & seen:
                    loose.add(i)
                seen &= ~writes
            elif body.sites[i].instruction.guard is None:
                seen = (seen & ~writes) | reads
            else:
                seen |= reads | writes
        return loose

    def _decision(self, writer: _Writer, block: BasicBlock) -> str:
        """Emits the evaluation of the branch condition at the end of a block. Returns the expression; empty if there is none."""
        result = ""
        if block.guard >= 0:
            value = writer.read(block.guard, BOOL)
            result = f"~{value}" if block.negated else value
            if self.program.is_watched:
                writer.claimed_uniform(block.last, result)
            if self.program.undefined is not None:
                writer.decided(block)
        elif block.kind == "indexed":
            site = self.body.sites[block.last]
            assert isinstance(site.bound, Bound)
            result = writer.value(site, site.instruction.operands[0], np.dtype(np.uint32))
        return result

    def _stepped(self, block: BasicBlock, end: Any) -> Any:
        """Compiles a block instruction by instruction, each with its event; `end` evaluates the branch condition. `run.at` is the
        current instruction."""
        body = self.body
        pieces = []
        for i in range(block.start, block.end):
            writer = _Writer(self.program, body)
            writer.one(i)
            pieces.append((i, writer.finish(None, "")))
        last = block.last
        if last < 0 and block.kind == "branch":
            # a branch around an instruction with a guard and a block of its own: emit its event here, for the lanes that skip it too
            last = body.blocks[block.taken].last
        elif last >= 0 and block.kind != "branch" and body.sites[last].instruction.guard is not None:
            last = -1

        def run(registers: list[Any], lanes: Any) -> Any:
            for i, piece in pieces:
                run.at = i  # type: ignore[attr-defined]
                stepped(lanes, body, i, registers)
                piece(registers, lanes)
            if last >= 0:
                run.at = last  # type: ignore[attr-defined]
                stepped(lanes, body, last, registers)
            return end(registers, lanes)

        run.at = -1  # type: ignore[attr-defined]
        run.places = {}  # type: ignore[attr-defined]
        return run

    def first_failing(self, block: BasicBlock, otherwise: int) -> int:
        """The first instruction of a block that cannot be compiled."""
        for i in [*range(block.start, block.end), *([block.last] if block.kind == "sync" else [])]:
            try:
                _Writer(self.program, self.body).instruction(i)
            except Exception:
                return i  # type: ignore[no-any-return]
        return otherwise

    def waiting(self, i: int) -> Waiting:
        """The compiled form of an instruction at which lanes may wait."""
        site = self.body.sites[i]
        bound = site.bound
        assert isinstance(bound, Bound)
        writer = _Writer(self.program, self.body)
        known, arguments = writer.operation(i)
        names = known.names
        semantics = known.semantics
        values = [f"({', '.join(arguments)}{',' if arguments else ''})"]
        fetch = writer.finish(frozenset(), values[0])
        if self.program.undefined is not None:
            self.program.undefined.plan(site, names)
        writer = _Writer(self.program, self.body)
        writer.landing(i, known, "X")
        put = writer.finish(None, "", "R, L, X")
        converges = bound.converges
        level = converges.level if converges is not None and converges.level in ("warp", "warpgroup") and not bound.barrier else ""
        members = bound.members
        if members is not None and members.reads:
            level = "warp"
        mask = names.index(members.name) if members is not None and members.name in names else -1
        return Waiting(semantics, fetch, put, level, mask, semantics.lanes)


def nothing(*_: Any) -> None:
    """The code of a block without straight-line instructions."""


nothing.places = {}  # type: ignore[attr-defined]
nothing.is_pure = True  # type: ignore[attr-defined]
nothing.written = []  # type: ignore[attr-defined]


@lru_cache(maxsize=65536)
def _code(source: str) -> Any:
    return compile(source, FILE, "exec")


class _Writer:
    """Emits the source of one block, with its namespace."""

    def __init__(self, program: Program, body: Body) -> None:
        self.program = program
        self.body = body
        self.lines: list[str] = []
        self.places: list[int] = []
        """For each line, the instruction that it executes."""
        self.objects: list[Any] = []
        self.names: dict[Any, str] = {}
        self.variables: dict[int, str] = {}
        """The local variable of each register."""
        self.dtypes: dict[int, np.dtype[Any]] = {}
        """The current dtype of each local variable."""
        self.loads: list[int] = []
        self.written: dict[int, None] = {}
        self.loose: set[int] = set()
        """The instructions whose result may be any NaN."""
        self.normal: set[int] = set()
        """The registers that hold single-precision numbers without subnormals."""
        self.by_count: dict[str, str] = {}
        """Lines at the start of the function that create callables for the number of lanes, by the names they define."""
        self.temporaries = 0
        self.is_pure = not program.is_watched
        """Whether the block changes nothing but registers."""

    # --- names

    def object(self, what: Any, key: Any = None) -> str:
        """The name of an object in the namespace."""
        key = ("id", id(what)) if key is None else key
        name = self.names.get(key)
        if name is None:
            name = self.names[key] = f"c{len(self.objects)}"
            self.objects.append(what)
        return name

    def dtype(self, dtype: np.dtype[Any]) -> str:
        return self.object(dtype, ("dtype", dtype))

    def constant(self, value: Any) -> str:
        return self.object(value, ("value", value.dtype.str, value.tobytes()))

    def number(self, number: int) -> str:
        """A register number as an object in the namespace, so that blocks that only differ in register numbers share their source."""
        return self.object(number, ("number", number))

    def temporary(self) -> str:
        self.temporaries += 1
        return f"t{self.temporaries}"

    def variable(self, number: int) -> str:
        name = self.variables.get(number)
        if name is None:
            name = self.variables[number] = f"v{len(self.variables)}"
        return name

    # --- registers

    def read(self, number: int, dtype: np.dtype[Any]) -> str:
        """An expression for the register as a dtype."""
        if number not in self.dtypes:
            self.loads.append(number)
            self.dtypes[number] = self.body.dtypes[number]
        return self.converted(self.variable(number), self.dtypes[number], dtype)

    def converted(self, expression: str, have: np.dtype[Any], want: np.dtype[Any], signed: bool = False) -> str:
        """The expression converted to another dtype: reinterpreted if the sizes are equal, otherwise truncated or extended."""
        if have == want:
            return expression
        if have == BOOL or want == BOOL:
            return f"{expression}.astype({self.dtype(want)})"
        if have.itemsize == want.itemsize:
            return (
                f"{expression}.view({self.dtype(want)})" if "V" not in (have.kind, want.kind) else f"view({expression}, {self.dtype(want)})"
            )
        if have.kind == "V":
            return self.converted(f"{expression}['lo']", U64, want)
        if want.kind == "V":
            return f"wide({self.converted(expression, have, U64)})"
        kind = "i" if have.kind == "i" and (signed or want.kind == "i") else "u"
        if have.kind not in "iu":
            bits = np.dtype(f"u{have.itemsize}")
            return self.converted(f"{expression}.view({self.dtype(bits)})", bits, want)
        middle = np.dtype(f"{kind}{want.itemsize}")
        grown = f"{expression}.astype({self.dtype(middle)})"
        return grown if middle == want else f"{grown}.view({self.dtype(want)})"

    def write(self, number: int, dtype: np.dtype[Any]) -> str:
        """The variable to assign a value of this dtype to."""
        self.dtypes[number] = dtype
        self.written[number] = None
        self.normal.discard(number)
        return self.variable(number)

    def landing_dtype(self, number: int, dtype: np.dtype[Any]) -> np.dtype[Any]:
        """The dtype in which a register holds a value of `dtype`: the same if the sizes are equal, otherwise extended."""
        own = self.body.dtypes[number]
        if own.itemsize == dtype.itemsize:
            return dtype
        if own.kind == "V":
            return own
        return np.dtype(f"{'i' if dtype.kind == 'i' else 'u'}{own.itemsize}")

    # --- instructions

    def operation(self, i: int) -> tuple[Known, list[str]]:
        """The operation of an instruction, and the expressions of its arguments."""
        site = self.body.sites[i]
        bound = site.bound
        if not isinstance(bound, Bound):
            raise Stop("unsupported", bound.message)
        known = self.program.known(site)
        expressions = [self.operand(site, one, dtype, known) if one is not None else "None" for _, one, dtype in known.reads]
        if "r" in bound.carry:
            expressions.append(self.read(CARRY, BOOL))
        if len(known.names) > len(expressions):
            expressions.append(self.read(TOP, U64))
        return known, expressions

    def operand(self, site: Site, operand: BoundOperand, dtype: np.dtype[Any], known: Known) -> str:
        """The expression of an operand that is read."""
        whole = site.instruction.operands[operand.path[0]]
        if type(whole) is Name and len(operand.path) == 1 and len(numbers := self.body.registers_of(site.scope, whole)) == 1:
            return self.read(numbers[0], dtype)
        node = part(whole, operand.path[1:])
        if operand.role == "addr":
            first = isinstance(whole, Address) and (len(operand.path) < 2 or operand.path[1] == 0)
            if known.semantics.parts_address and not self.program.is_watched:
                place = self.place(site, whole)
                if place:
                    return place
            return self.address(site, whole if first else node, known.operation.space(operand.name))
        if isinstance(whole, Address) and len(whole.parts) == 1 and whole.offset is not None:
            # an address that does not refer to bytes, such as one of tensor memory
            value = self.value(site, node, dtype)
            offset = constant_value(whole.offset)
            if offset is None:
                return f"({value} + {self.value(site, whole.offset, dtype)})"
            return f"({value} + {self.constant(np.array(int(offset) * whole.offset_sign, object).astype(np.int64).astype(dtype)[()])})"
        if operand.role == "sreg":
            return self.special(site, node, dtype)
        if isinstance(node, Vector):
            parts = [self.value(site, element, dtype) for element in node.children]
            return f"({', '.join(parts)},)"
        if type(node) is Name:
            numbers = self.body.named(site.scope, node.text)
            if len(numbers) > 1:
                return f"({', '.join([self.read(number, dtype) for number in numbers])},)"
            if not numbers and (found := special_register(node.text)) is not None and found.components > 1:
                parts = [self.special_named(f"{node.text}.{c}", dtype) for c in "xyzw"]
                return f"({', '.join(parts)},)"
        return self.value(site, node, dtype, literal=operand.shape.type if operand.shape.kind == "immediate" else "")

    def value(self, site: Site, node: Node, dtype: np.dtype[Any], literal: str = "") -> str:
        """The expression of a scalar operand as a dtype."""
        if type(node) is Name:
            numbers = self.body.named(site.scope, node.text)
            if numbers:
                return self.read(numbers[0], dtype)
            if node.text == "_":
                return self.constant(np.zeros((), dtype)[()])
            symbol = site.scope.lookup(node.text)
            if symbol is not None:
                return self.symbol(symbol, dtype)
            return self.special(site, node, dtype)
        if isinstance(node, Component):
            if special_register(node.text) is not None:
                return self.special(site, node, dtype)
            numbers = self.body.registers_of(site.scope, node)
            if numbers:
                return self.read(numbers[0], dtype)
        if isinstance(node, Unary) and constant_value(node) is None:
            inner = self.value(site, node.operand, dtype)
            return f"(~{inner})" if node.operator == "!" else inner
        if isinstance(node, Group) and len(node.children) == 1 and constant_value(node) is None:
            return self.value(site, node.children[0], dtype)
        found = constant(node, dtype)
        if found is not None:
            return self.constant(found)
        if isinstance(node, Element):
            return self.element(site, node, dtype)
        # a symbol with a constant added
        named = [child for child in node.children if type(child) is Name]
        if named and (symbol := site.scope.lookup(named[0].text)) is not None:
            rest = _offset(node)
            return f"({self.symbol(symbol, dtype)} + {self.constant(np.array(rest, object).astype(np.int64).astype(dtype)[()])})"
        raise Stop("unsupported", "an operand that is not understood")

    def element(self, site: Site, node: Element, dtype: np.dtype[Any], space: str = "") -> str:
        """The address of an array element as a dtype; with a space, like `address`."""
        symbol = site.scope.lookup(node.base.text)
        if symbol is None:
            raise Stop("unsupported", "an element of an array that is not declared")
        array = self.address(site, node.base, space) if space else self.symbol(symbol, dtype)
        index = node.number
        constant = 0
        if isinstance(index, Expression) and constant_value(index) is None:
            constant, index = _offset(index), index.terms[0]
        number = self.value(site, index, dtype)
        size = self.constant(np.asarray(element_bytes(symbol.type)).astype(dtype)[()])
        return f"({array} + ({number} + {self.constant(np.array(constant, object).astype(np.int64).astype(dtype)[()])}) * {size})"

    def symbol(self, symbol: Any, dtype: np.dtype[Any]) -> str:
        """The address of a variable or function in its own state space."""
        formal = self.body.formal(symbol) if symbol.kind is Kind.PARAMETER else -1
        if formal >= 0:
            return self.read(formal, dtype)
        place = self.program.frame_offset(self.body, symbol)
        if place is not None:
            base = self.read(STACK, U64)
            return self.converted(f"({base} + {self.constant(np.uint64(place))})", U64, dtype)
        address = np.uint64(self.program.address(symbol, self.program.codes.get(id(self.body))))
        if self.program.clustered and (symbol.space or "").startswith(".shared"):
            return self.converted(f"({self.constant(address)} + L.shared_base)", U64, dtype)
        return self.constant(np.asarray(address).astype(dtype)[()])

    def special(self, site: Site, node: Node, dtype: np.dtype[Any]) -> str:
        return self.special_named(node.text, dtype)

    def special_named(self, name: str, dtype: np.dtype[Any]) -> str:
        found = special_value(name)
        if found is None:
            raise Stop("unsupported", "a name that means nothing here")
        run, have = found
        return self.converted(f"{self.object(run)}(L)", have, dtype)

    def address(self, site: Site, node: Node, space: str) -> str:
        """The expression of an address as uint64, in the window of the state space."""
        if isinstance(node, Element):
            return self.element(site, node, U64, space)
        base = node.base if isinstance(node, Address) else node
        offset = 0
        if isinstance(node, Address) and node.offset is not None:
            found = constant_value(node.offset)
            if found is None:
                number = self.value(site, node.offset, U64)
                return f"({self.address(site, base, space)} + {number})"
            offset = int(found) * node.offset_sign
        if type(base) is Name:
            numbers = self.body.registers_of(site.scope, base)
            symbol = site.scope.lookup(base.text)
            if symbol is not None and symbol.kind is not Kind.REGISTER:
                value = self.symbol(symbol, U64)
                window = self.program.window(symbol.space or "") if space == ".generic" else 0
                return self._plus(value, offset + window)
            if numbers:
                own = self.body.dtypes[numbers[0]]
                if own.itemsize == 4:
                    number = self.read(numbers[0], np.dtype(np.uint32))
                    if offset:
                        number = f"({number} + {self.constant(np.uint32(offset & 0xFFFFFFFF))})"
                    return f"{number}.astype({self.dtype(U64)})"
                return self._plus(self.read(numbers[0], U64), offset)
        if isinstance(base, Component):
            return self._plus(self.value(site, base, U64), offset)
        found = constant_value(base)
        if found is not None:
            return self.constant(np.uint64((int(found) + offset) & (1 << 64) - 1))
        return self._plus(self.value(site, base, U64), offset)

    def place(self, site: Site, node: Node) -> str:
        """The expression of a `SplitAddress`; empty unless the address is a register plus a non-negative constant."""
        if not isinstance(node, Address) or type(node.base) is not Name:
            return ""
        offset = 0
        if node.offset is not None:
            found = constant_value(node.offset)
            if found is None:
                return ""
            offset = int(found) * node.offset_sign
        numbers = self.body.named(site.scope, node.base.text)
        own = self.body.dtypes[numbers[0]] if len(numbers) == 1 else BOOL
        if offset < 0 or own.kind not in "iu" or own.itemsize < 4:
            return ""
        return f"SplitAddress(({self.read(numbers[0], own)}, {self.object(offset, ('offset', offset))}))"

    def _plus(self, value: str, offset: int) -> str:
        return f"({value} + {self.constant(np.uint64(offset & (1 << 64) - 1))})" if offset else value

    def results(self, i: int, known: Known) -> list[Any]:
        """Where the results of an instruction go: for each, a register (or None) and its dtype; a list for a vector."""
        site = self.body.sites[i]
        bound = known.operation.bound
        operands = site.instruction.operands
        found: list[Any] = []
        for operand, dtype in known.writes:
            node = part(operands[operand.path[0]], operand.path[1:])
            if isinstance(node, Vector):
                found.append([self._destination(site, element, dtype) for element in node.children])
                continue
            numbers = self.body.registers_of(site.scope, node)
            if len(numbers) > 1:
                found.append([(number, dtype) for number in numbers])
            else:
                found.append((numbers[0], dtype) if numbers else None)
        if "w" in bound.carry:
            found.append((CARRY, BOOL))
        if changes_stack(bound):
            found.append((TOP, U64))
        return found

    def _destination(self, site: Site, node: Node, dtype: np.dtype[Any]) -> Any:
        numbers = self.body.registers_of(site.scope, node)
        return (numbers[0], dtype) if numbers else None

    def landing(self, i: int, known: Known, value: str) -> None:
        """Emits the assignment of an instruction's result."""
        results = self.results(i, known)
        statements = self._store(results, value, None)
        self.lines.append("; ".join(statements) or "pass")
        self.places.append(i)

    def _store(self, results: list[Any], value: str, known: np.dtype[Any] | None) -> list[str]:
        """Statements that assign a value to its registers. With `known`, the value certainly has that dtype."""
        if not results:
            return [value] if value != "X" else []
        if len(results) == 1 and not isinstance(results[0], list):
            if results[0] is None:
                return [value]
            number, dtype = results[0]
            return self._assign(number, dtype, value, known)
        flat: list[Any] = []
        pattern: list[str] = []
        many = len(results) > 1
        for result in results:
            names = []
            for one in result if isinstance(result, list) else [result]:
                name = self.temporary() if one is not None else "_"
                names.append(name)
                if one is not None:
                    flat.append((one, name))
            pattern.append(f"({', '.join(names)},)" if isinstance(result, list) else names[0])
        target = f"({', '.join(pattern)},)" if many else pattern[0]
        statements = [f"{target} = {value}"]
        for (number, dtype), name in flat:
            statements += self._assign(number, dtype, name, None)
        return statements

    def _assign(self, number: int, dtype: np.dtype[Any], value: str, known: np.dtype[Any] | None) -> list[str]:
        own = self.body.dtypes[number]
        lands = self.landing_dtype(number, dtype)
        if known is None:
            name = self.temporary()
            statements = [f"{name} = {value}"]
            fitted = f"({name} if {name}.dtype is {self.dtype(dtype)} else fit({name}, {self.dtype(dtype)}))"
            value = fitted
        else:
            statements = []
        if own == BOOL or dtype == BOOL:
            lands = own
        variable = self.write(number, lands)
        return [*statements, f"{variable} = {self.converted(value, dtype, lands)}"]

    def one(self, i: int) -> None:
        """Emits an instruction within a block, and the tracking of undefined values if that is enabled."""
        if self.program.undefined is not None:
            self.followed(i)
        else:
            self.instruction(i)

    def instruction(self, i: int, given: tuple[Known, list[str]] | None = None) -> None:
        """Emits an instruction within a block; `given` is its operation and arguments if already computed."""
        site = self.body.sites[i]
        guard = site.instruction.guard
        known, arguments = given or self.operation(i)
        semantics = known.semantics
        self.is_pure &= not semantics.lanes
        if self.program.is_watched:
            self._watched(i, site, guard, known, arguments)
        if guard is not None:
            self._guarded(i, site, guard, known, arguments)
            return
        results = self.results(i, known)
        if semantics.run is same and len(results) == 1 and results[0] is not None and not isinstance(results[0], list):
            self.lines.append("; ".join(self._store(results, arguments[0], results[0][1])))
            self.places.append(i)
            return
        run = self.variant(i, site, known)
        inline = _INLINE.get(run) if type(run) is np.ufunc and not semantics.lanes else None
        gives: np.dtype[Any] | None = None
        if inline is not None and len(results) == 1 and results[0] is not None and not isinstance(results[0], list):
            call = inline.format(*arguments)
            gives = BOOL if run in _COMPARING else results[0][1]
            if gives == BOOL and results[0][1] != BOOL:
                gives = None
        else:
            call = self.of_count(run, arguments) or f"{self.object(run)}({', '.join([*(['L'] if semantics.lanes else []), *arguments])})"
            if semantics.variants:
                gives = np.dtype(np.float32)
        self.lines.append("; ".join(self._store(results, call, gives)))
        self.places.append(i)
        if "normal" in semantics.variants and results[0] is not None:
            self.normal.add(results[0][0])

    def of_count(self, run: Any, arguments: list[str]) -> str:
        """A call of a function that is specialized for the number of lanes, created once in a block; empty if there is none."""
        if self.program.is_watched or type(run) is not FunctionType or run not in OF_COUNT:
            return ""
        of, finish = OF_COUNT[run]
        name = f"f{self.object(of)}"
        self.by_count[name] = f"{name} = {self.object(of)}(L.count)"
        call = f"{name}({', '.join(arguments)})"
        return f"{self.object(finish)}({call})" if finish is not None else call

    def variant(self, i: int, site: Site, known: Known) -> Any:
        """The implementation of an instruction, specialized for what is known of its operands and of the uses of its result."""
        semantics = known.semantics
        if not semantics.variants:
            return semantics.run
        asked = ["any nan"] if i in self.loose else []
        if "normal" in semantics.variants and all(self._is_normal(site, one) for _, one, _ in known.reads):
            asked.append("normal")
        return semantics.variants[", ".join(asked)] if asked else semantics.run

    def _is_normal(self, site: Site, operand: BoundOperand | None) -> bool:
        """Whether an operand is known to contain no subnormal number."""
        if operand is None:
            return False
        node = part(site.instruction.operands[operand.path[0]], operand.path[1:])
        if type(node) is Name:
            numbers = self.body.registers_of(site.scope, node)
            return len(numbers) == 1 and numbers[0] in self.normal
        value = constant(node, np.dtype(np.float32))
        return value is not None and not are_small(value)

    def followed(self, i: int) -> None:
        """Emits an instruction within a block, and the tracking of undefined values through it."""
        undefined = self.program.undefined
        assert undefined is not None
        site = self.body.sites[i]
        known, arguments = self.operation(i)
        plan = None
        if site.bound.memory:  # type: ignore[union-attr]
            plan = undefined.plan(site, known.names)
        predicate = ""
        guard = site.instruction.guard
        if guard is not None:
            value = self.value(site, guard.predicate, BOOL)
            predicate = f", (~{value})" if guard.negated else f", {value}"
        here = self.object(undefined)
        values = f"({', '.join(arguments)}{',' if arguments else ''})"
        what = f"{self.object(site)}, {self.object(known.names)}"
        self.lines.append(f"if {here}: {here}.visit({what}, L, {values}{predicate})")
        self.places.append(i)
        self.instruction(i, (known, arguments))
        if plan is not None and (plan.loads or plan.stores):
            self.lines.append(f"if {self.object(undefined.loaded)}: {here}.land({self.object(plan)})")
            self.places.append(i)

    def decided(self, block: BasicBlock) -> None:
        """Emits a check whether the condition of a branch is undefined."""
        undefined = self.program.undefined
        assert undefined is not None
        at = block.last if block.last >= 0 else self.body.blocks[block.taken].last if block.taken >= 0 else -1
        if at < 0:
            return
        here, key = self.object(undefined), undefined.key(self.body, block.guard)
        self.lines.append(
            f"if {here} and {self.object(key)} in {here}: {here}.branch({self.object(self.body.sites[at])}, {self.object(key)}, L)"
        )
        self.places.append(at)

    def claimed_uniform(self, i: int, taken: str) -> None:
        """Emits the event of a branch that is marked `.uni`."""
        site = self.body.sites[i]
        if i < 0 or not isinstance(site.bound, Bound) or not site.bound.has(".uni"):
            return
        self.lines.append(f"{self.object(observed)}(L.on({self.object(site)}), ({taken},))")
        self.places.append(i)

    def _watched(self, i: int, site: Site, guard: Guard | None, known: Known, arguments: list[str]) -> None:
        """Emits the events of an instruction."""
        assert isinstance(site.bound, Bound)
        held = self.body.held
        if held or known.semantics.lanes or is_observed(site.bound):
            # otherwise no event needs the current site of these lanes
            self.lines.append(f"L = L.on({self.object(site)})")
            self.places.append(i)
        if held:
            reads, writes = self.body.reads_writes(i)
            if (reads | writes) & held:
                self._event(i, site, guard, used, [self.object((reads & held, writes & held), ("used", reads & held, writes & held))])
        if not is_observed(site.bound):
            return
        values = f"({', '.join(arguments)}{',' if arguments else ''})"
        self._event(i, site, guard, observed, [values])

    def _event(self, i: int, site: Site, guard: Guard | None, tell: Any, arguments: list[str]) -> None:
        """Emits a notification of monitors for the lanes whose guard holds."""
        call = f"{self.object(tell)}({', '.join(['L', *arguments])})"
        if guard is not None:
            predicate = self.value(site, guard.predicate, BOOL)
            predicate = f"(~{predicate})" if guard.negated else predicate
            call = f"guarded({predicate}, L, {self.object((tell, True, (), ()), ('event', tell))}, ({', '.join(arguments)},), ())"
        self.lines.append(call)
        self.places.append(i)

    def _guarded(self, i: int, site: Site, guard: Guard, known: Known, arguments: list[str]) -> None:
        """Emits an instruction for the lanes whose guard holds; the registers of other lanes are unchanged."""
        semantics = known.semantics
        results = self.results(i, known)
        predicate = self.value(site, guard.predicate, BOOL)
        if guard.negated:
            predicate = f"(~{predicate})"
        flat = [one for result in results for one in (result if isinstance(result, list) else [result])]
        old = []
        dtypes: list[Any] = []
        for one in flat:
            if one is None:
                old.append("None")
                dtypes.append(None)
                continue
            number, dtype = one
            lands = self.landing_dtype(number, dtype)
            if self.body.dtypes[number] == BOOL:
                lands = BOOL
            old.append(self.read(number, lands))
            dtypes.append((dtype, lands))
        shape = tuple([len(result) if isinstance(result, list) else 0 for result in results])
        plan = self.object((semantics.run, semantics.lanes, shape, tuple(dtypes)))
        call = (
            f"guarded({predicate}, L, {plan}, ({', '.join(arguments)}{',' if arguments else ''}), ({', '.join(old)}{',' if old else ''}))"
        )
        if not flat:
            self.lines.append(call)
        else:
            names = []
            for one, pair in zip(flat, dtypes, strict=True):
                names.append("_" if one is None or pair is None else self.write(one[0], pair[1]))
            self.lines.append(f"({', '.join(names)},) = {call}")
        self.places.append(i)

    # --- the whole

    def finish(self, live_out: Set[int] | None, result: str, signature: str = "R, L") -> Any:
        """The function: load registers, execute the lines, store registers. Without `live_out`, all written registers are stored."""
        kept = [number for number in self.written if live_out is None or number in live_out]
        if not (self.lines or result):
            return nothing
        lines = [f" {self.variable(number)} = R[{self.number(number)}]" for number in self.loads]
        lines += [f" {line}" for line in self.by_count.values()]
        before = len(lines)
        lines += [f" {line}" for line in self.lines]
        if result:
            lines.append(f" result = {result}")
        for number in kept:
            value = self.converted(self.variable(number), self.dtypes[number], self.body.dtypes[number])
            lines.append(f" R[{self.number(number)}] = {value}")
        lines.append(f" return {'result' if result else None}")
        outer = ", ".join([f"c{i}" for i in range(len(self.objects))])
        body = "\n ".join(lines)
        source = f"def make({outer}):\n def run({signature}):\n {body}\n return run\n"
        space = dict(_HELPERS)
        exec(_code(source), space)
        make: Any = space["make"]
        run = make(*self.objects)
        first = 3 + before
        run.places = {first + i: place for i, place in enumerate(self.places)}
        run.source = source
        run.is_pure = self.is_pure
        run.written = kept
        return run


@lru_cache(maxsize=4096)
def operand_order(form: Any) -> tuple[str, ...]:
    """The names of all operands that a form can have, in the order of its operand list."""
    longest = max(form.variants, key=len, default=())
    names: list[str] = []
    for item in longest:
        names += item.names()
    return tuple(dict.fromkeys([*names, *form.rules]))


@lru_cache(maxsize=16384)
def is_read(form: Any, name: str) -> bool:
    """Whether an operand that is omitted would be read."""
    return any(rule.role in ("r", "rw", "addr", "imm", "sym", "sreg") for rule in form.rules[name])


def constant(node: Node, dtype: np.dtype[Any]) -> Any:
    """A constant as a dtype, following ISA 4.5: integers are truncated, 0f and 0d give the bits; None if it is no constant."""
    if type(node) is Number and node.text[:2].lower() in ("0f", "0d") and len(node.text) in (10, 18):
        bits = int(node.text[2:], 16)
        exact = np.dtype("u4" if node.text[1] in "fF" else "u8").type(bits)
        if dtype.itemsize == exact.dtype.itemsize:
            return exact.view(dtype) if dtype.kind != "V" else None
        value: Any = exact.view(np.float32 if exact.dtype.itemsize == 4 else np.float64)
    else:
        value = constant_value(node)
    if value is None:
        return None
    if dtype.kind == "f":
        with np.errstate(all="ignore"):
            return dtype.type(value)
    if dtype == BOOL:
        return np.bool_(bool(value))
    if isinstance(value, float | np.floating):
        if dtype.itemsize == 8:
            return np.uint64(struct.unpack("<Q", struct.pack("<d", float(value)))[0]).view(dtype)
        if dtype.itemsize == 4:
            with np.errstate(all="ignore"):
                return np.float32(value).view(dtype)
        value = int(value)
    if dtype.kind == "V":
        out = np.zeros((), B128)
        out["lo"], out["hi"] = int(value) & (1 << 64) - 1, int(value) >> 64 & (1 << 64) - 1
        return out[()]
    bits = dtype.itemsize * 8
    return np.dtype(f"u{dtype.itemsize}").type(int(value) & (1 << bits) - 1).view(dtype)


def _offset(node: Node) -> int:
    """The constant in `symbol + 4` or `symbol - 4`."""
    total, sign = 0, 1
    for child in node.children:
        value = constant_value(child)
        if value is not None:
            total += sign * int(value)
        elif child.text in ("+", "-"):
            sign = 1 if child.text == "+" else -1
    return total


def takes(semantics: Semantics, count: int) -> bool:
    """Whether `run` accepts this many operands. Semantics that handle omitted operands by the operation need not accept them."""
    run = semantics.run
    if isinstance(run, np.ufunc):
        return run.nin >= count
    try:
        inspect.signature(run).bind(*[None] * (count + semantics.lanes + semantics.takes_token))
    except (TypeError, ValueError):
        return False
    return True


# --- helpers of compiled code


def fit(x: Any, dtype: np.dtype[Any]) -> Any:
    """Reinterprets a value as a dtype of its size."""
    if not isinstance(x, np.ndarray | np.generic):
        x = np.asarray(x).astype(dtype)[()]
    if x.dtype == dtype:
        return x[()] if getattr(x, "ndim", 1) == 0 else x
    if x.dtype == BOOL or dtype == BOOL:
        return x.astype(dtype)
    if x.dtype.itemsize != dtype.itemsize:
        return x.astype(dtype)
    return view(x, dtype)


def view(x: Any, dtype: np.dtype[Any]) -> Any:
    return np.ascontiguousarray(x).view(dtype).reshape(np.shape(x))[()] if x.dtype.kind == "V" or dtype.kind == "V" else x.view(dtype)


def wide(x: Any) -> Any:
    """Extends 64 bits to 128."""
    out = np.zeros(np.shape(x), B128)
    out["lo"] = x
    return out[()] if not np.ndim(x) else out


def land(x: Any, have: np.dtype[Any], want: np.dtype[Any]) -> Any:
    """Converts a result to the dtype of its register."""
    x = fit(x, have)
    if have == want:
        return x
    if have.itemsize == want.itemsize or BOOL in (have, want):
        return fit(x, want)
    if want.kind == "V":
        return wide(x.astype(U64))
    if have.kind not in "iu":
        x = x.view(np.dtype(f"u{have.itemsize}"))
    return x.astype(want)


def _take(x: Any, positions: Array) -> Any:
    if isinstance(x, tuple):
        return type(x)([_take(one, positions) for one in x])
    return x.take(positions) if getattr(x, "ndim", 0) else x


def guarded(predicate: Any, lanes: Any, plan: Any, arguments: tuple[Any, ...], old: tuple[Any, ...]) -> tuple[Any, ...]:
    """Executes an instruction for the lanes whose predicate holds. Returns its results, with `old` for the other lanes."""
    run, with_lanes, shape, dtypes = plan
    positions = None
    if not predicate.ndim:
        if not predicate:
            return old
    else:
        count = np.count_nonzero(predicate)
        if count == 0:
            return old
        if count < len(predicate):
            positions = np.flatnonzero(predicate)
            arguments = tuple([_take(x, positions) for x in arguments])
            if with_lanes:
                lanes = lanes.at(positions)
    result = run(lanes, *arguments) if with_lanes else run(*arguments)
    if not dtypes:
        return ()
    results = result if len(shape) > 1 else (result,)
    flat: list[Any] = []
    for one, width in zip(results, shape, strict=True):
        if width:
            flat += one
        else:
            flat.append(one)
    out: list[Any] = []
    for x, before, pair in zip(flat, old, dtypes, strict=True):
        if pair is None:
            out.append(None)
            continue
        x = land(x, *pair)
        if positions is not None:
            whole = before.copy() if before.ndim else np.full(len(predicate), before)
            whole[positions] = x
            x = whole
        out.append(x)
    return tuple(out)


_HELPERS = {"SplitAddress": SplitAddress, "fit": fit, "view": view, "wide": wide, "guarded": guarded, "__builtins__": {}}
