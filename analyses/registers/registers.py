"""The registers that each instruction of a function reads and writes, as small integers.

A register declared `.v2` or `.v4` counts as that many registers, one for each component. The condition code register of instructions with
`.cc` (9.7.2) counts as a register without bits. An undeclared name counts as a register of unknown type.
"""

from __future__ import annotations

import bisect
import functools

import attrs

from ptxkit.analyses.framework.bindings import bindings
from ptxkit.analyses.framework.routine import Routine, fact
from ptxkit.frozen import frozen
from ptxkit.isa.binding import Bound, BoundOperand
from ptxkit.isa.registers import special_register
from ptxkit.isa.types import types
from ptxkit.names import Kind, Scope, Symbol
from ptxkit.operands import part, selected
from ptxkit.syntax import Component, Guard, Name, Node, Number, Opcode, Path

CARRY = "CC.CF"
"""The name of the condition code register (9.7.2)."""

Numbers = tuple[int, ...]
REGISTER = Kind.REGISTER


@frozen
class Register:
    """A register, or a component of a vector register."""

    name: str
    """As written; a component includes its selector: `v.x`."""
    type: str
    """The declared type of one element; empty for an undeclared name."""
    bits: int
    symbol: Symbol | None = attrs.field(repr=False, eq=False)

    @property
    def is_predicate(self) -> bool:
        return self.type == ".pred"

    @property
    def units(self) -> int:
        """The number of 32-bit registers that hold it: none for a predicate or the condition code."""
        return 0 if self.is_predicate else (self.bits + 31) // 32


@frozen(eq=False)
class Registers:
    """The register uses of a function's instructions. A number may occur twice if a register is named twice."""

    table: tuple[Register, ...]
    """By number, in order of first appearance."""
    reads: tuple[Numbers, ...]
    """By instruction: the guard's predicate first, then in operand order; at a return, the registers that it returns."""
    writes: tuple[Numbers, ...]
    weak: frozenset[int]
    """The instructions that may not write their registers: guarded ones, and those of unknown form."""
    unknown: frozenset[int]
    """The instructions of unknown form: they count as reading and writing all registers they name."""
    given: int
    """The set of registers that hold a value on entry: parameters in registers, and registers of the module."""
    returned: Numbers
    """The registers that the function returns."""
    _by_node: dict[Path, dict[int, Numbers]] = attrs.field(repr=False)
    _runs: tuple[tuple[int, int, Path], ...] = attrs.field(repr=False)

    def named(self, name: str) -> Numbers:
        """The numbers of the registers with a name: several if scopes hide one another, or for a vector."""
        return tuple([i for i, register in enumerate(self.table) if name in (register.name, register.name.partition(".")[0])])

    def of(self, i: int, operand: Node) -> Numbers:
        """The registers that an operand (or guard) of instruction `i` names, in order."""
        run = bisect.bisect_right(self._runs, i, key=lambda run: run[0]) - 1
        return self._by_node[self._runs[run][2]].get(id(operand), ())

    def strong(self, i: int) -> Numbers:
        """The registers that an instruction certainly writes."""
        return () if i in self.weak else self.writes[i]

    def __repr__(self) -> str:
        return f"<Registers: {len(self.table)}>"


@fact
def registers(routine: Routine) -> Registers:
    """The registers of a function, and what each instruction reads and writes."""
    return _Reader(routine).run()


@frozen
class _Plan:
    """The positions of registers that are read and written in instructions of one form and shape: by operand, and by path in it."""

    reads: Numbers
    writes: Numbers
    parts: tuple[tuple[tuple[int, ...], bool, bool], ...]
    reads_carry: bool
    writes_carry: bool
    flow: str
    known: bool


@functools.lru_cache(maxsize=65536)
def _plan(bound: Bound) -> _Plan:
    if not bound.form.modelled:
        return _Plan((), (), (), False, False, bound.flow, False)
    reads: dict[int, bool] = {}
    writes: dict[int, bool] = {}
    target = next((o.path[0] for o in bound.operands if o.role == "func"), -1)
    mixed = set()
    for operand in bound.operands:
        at = operand.path[0]
        does_read, does_write = _does(operand, target)
        if reads.setdefault(at, does_read) != does_read or writes.setdefault(at, does_write) != does_write:
            mixed.add(at)
    parts = tuple([(o.path, *_does(o, target)) for o in bound.operands if o.path[0] in mixed])
    carry = bound.carry
    return _Plan(
        tuple([at for at, does in reads.items() if does and at not in mixed]),
        tuple([at for at, does in writes.items() if does and at not in mixed]),
        parts,
        "r" in carry,
        "w" in carry,
        bound.flow,
        True,
    )


_NO_FORM = _Plan((), (), (), False, False, "", False)


def _does(operand: BoundOperand, target: int) -> tuple[bool, bool]:
    """Whether the registers of an operand are read, and written; of a call's lists, the one before the function is written."""
    if operand.role == "list":
        return operand.path[0] > target, operand.path[0] < target
    return operand.reads or operand.role in ("func", "sym"), operand.writes


class _Reader:
    def __init__(self, routine: Routine) -> None:
        self.routine = routine
        self.table: list[Register] = []
        self.numbers: dict[tuple[int, str], Numbers] = {}
        self.scope: Scope = routine.names.root
        self.types: dict[int, tuple[str, int]] = {}
        self.shared: set[int] = set()

    def run(self) -> Registers:
        routine = self.routine
        given, returned = self._header()
        reads: list[Numbers] = []
        writes: list[Numbers] = []
        weak: list[int] = []
        unknown: list[int] = []
        by_node: dict[Path, dict[int, Numbers]] = {}
        ends: list[tuple[int, str]] = []
        instructions = routine.instructions
        bounds = bindings(routine)
        carry: Numbers = ()
        plans: dict[int, _Plan] = {}
        named = self._named
        for start, end, path in routine.runs:
            self.scope = routine.names.scopes[path]
            of_node = by_node.setdefault(path, {})
            known = of_node.get
            for i in range(start, end):
                children = instructions[i].children
                bound = bounds[i]
                plan = plans.get(id(bound))
                if plan is None:
                    plan = plans[id(bound)] = _plan(bound) if isinstance(bound, Bound) else _NO_FORM
                if type(children[0]) is Guard:
                    first = 2
                    guard = children[0]
                    read = known(id(guard))
                    if read is None:
                        read = of_node[id(guard)] = self._of(guard)
                    weak.append(i)
                else:
                    first = 1
                    read = ()
                written: Numbers = ()
                if not plan.known:
                    unknown.append(i)
                    if first == 1:
                        weak.append(i)
                    for child in children[first:]:
                        found = known(id(child))
                        if found is None:
                            found = of_node[id(child)] = self._of(child)
                        written += found
                    reads.append(read + written)
                    writes.append(written)
                    if plan.flow:
                        ends.append((i, plan.flow))
                    continue
                # what is written comes first, so that numbers follow the order of the text
                for at in plan.writes:
                    child = children[first + at]
                    found = known(id(child))
                    if found is None:
                        found = of_node[id(child)] = named(child.text) if type(child) is Name else self._of(child)
                    written += found
                for at in plan.reads:
                    child = children[first + at]
                    found = known(id(child))
                    if found is None:
                        found = of_node[id(child)] = named(child.text) if type(child) is Name else self._of(child)
                    read += found
                if plan.parts:
                    for at_path, does_read, does_write in plan.parts:
                        child = part(children[first + at_path[0]], at_path[1:])
                        found = of_node[id(child)] = self._of(child)
                        read += found if does_read else ()
                        written += found if does_write else ()
                if plan.reads_carry or plan.writes_carry:
                    carry = carry or self._new(Register(CARRY, "", 0, None))
                    read += carry if plan.reads_carry else ()
                    written += carry if plan.writes_carry else ()
                if plan.flow:
                    ends.append((i, plan.flow))
                reads.append(read)
                writes.append(written)
        self._calls_and_returns(ends, reads, writes, weak, returned)
        for shared in self.shared:
            given |= 1 << shared
        return Registers(
            tuple(self.table),
            tuple(reads),
            tuple(writes),
            frozenset(weak),
            frozenset(unknown),
            given,
            returned + tuple(sorted(self.shared)),
            by_node,
            routine.runs,
        )

    def _header(self) -> tuple[int, Numbers]:
        """The set of parameters that are registers, and the registers that the function returns."""
        header = self.routine.function.header
        self.scope = self.routine.names.scopes[(*self.routine.path, 0)]
        given = 0
        for parameter in header.parameters:
            for number in self._named(parameter.name) if parameter.space == ".reg" else ():
                given |= 1 << number
        returned = [number for parameter in header.returns if parameter.space == ".reg" for number in self._named(parameter.name)]
        return given, tuple(returned)

    def _calls_and_returns(
        self, ends: list[tuple[int, str]], reads: list[Numbers], writes: list[Numbers], weak: list[int], returned: Numbers
    ) -> None:
        """Adds the returned registers as reads at each return, and registers of the module as read and possibly written wherever other
        code may run."""
        shared = tuple(sorted(self.shared))
        if not returned and not shared:
            return
        for i, flow in ends:
            if flow == "return":
                reads[i] += returned + shared
            elif flow == "call":
                reads[i] += shared
                writes[i] += shared
                if shared:
                    weak.append(i)
            elif flow == "exit":
                reads[i] += shared

    def _new(self, *found: Register) -> Numbers:
        numbers = tuple(range(len(self.table), len(self.table) + len(found)))
        self.table += found
        return numbers

    def _named(self, name: str) -> Numbers:
        """The numbers of a name in the current scope; none if it is not a register."""
        symbol = self.scope.lookup(name)
        if symbol is None:
            if not name.startswith("%") or special_register(name) is not None:
                return ()
        elif symbol.kind is not REGISTER:
            return ()
        key = (id(symbol), name)
        found = self.numbers.get(key)
        if found is None:
            found = self.numbers[key] = self._declared(name, symbol)
        return found

    def _declared(self, name: str, symbol: Symbol | None) -> Numbers:
        """Numbers for a register at its first appearance."""
        known = self.types.get(id(symbol))
        if known is None:
            type_ = symbol.type or "" if symbol is not None else ""
            known = self.types[id(symbol)] = (type_, types()[type_].bits if type_ in types() else 0)
        if symbol is None or symbol.vector == 1:
            found: Numbers = (len(self.table),)
            self.table.append(Register(name, known[0], known[1], symbol))
        else:
            indices = [f"{name}.{'xyzw'[index : index + 1] or index}" for index in range(symbol.vector)]
            found = self._new(*[Register(index, *known, symbol) for index in indices])
        if symbol is not None and symbol.path[0] != self.routine.path[0]:
            self.shared.update(found)
        return found

    def _of(self, node: Node) -> Numbers:
        """The registers that a node names, in order; recursive, with the nesting bounded by the parser."""
        kind = type(node)
        if kind is Name:
            return self._named(node.text)
        if kind is Number or kind is Opcode:
            return ()
        if isinstance(node, Component):
            return selected(self._named(node.base.text), node)
        return tuple([number for child in node.children for number in self._of(child)])
