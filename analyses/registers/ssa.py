"""Static single assignment form: values, and the value that each read sees. The tree is unchanged.

A value comes from a write, from a merge where different values arrive (a phi), or is that of a register on entry. A guarded write defines a
value that selects: the written one if the guard holds, otherwise the previous one. Only reachable blocks have values, and phis exist only
where their register is live.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence
from functools import cached_property, partial
from typing import NamedTuple

import attrs

from ptxkit.analyses.cfg.dominators import dominators
from ptxkit.analyses.cfg.graph import ControlFlow, control_flow
from ptxkit.analyses.cfg.reachability import closure
from ptxkit.analyses.framework.routine import Routine, fact
from ptxkit.analyses.numbers.bits import bits
from ptxkit.analyses.registers.liveness import liveness
from ptxkit.analyses.registers.registers import Registers, registers
from ptxkit.frozen import frozen
from ptxkit.memo import collector_paused


class Origin(enum.Enum):
    """The origin of a value."""

    ENTRY = "entry"
    """The value of the register on function entry: that of a parameter, or otherwise unknown."""
    PHI = "phi"
    WRITE = "write"


class Value(NamedTuple):
    """A value. Operands are numbers of values."""

    register: int
    origin: Origin
    block: int
    instruction: int
    """The instruction that writes it; -1 for a phi and on entry."""
    operands: tuple[int, ...]
    """For a phi, a value for each predecessor of its block in order (-1 from an unreachable one; in the entry block, the value from
    outside is last). For a write that may not happen, the previous value; otherwise none."""


@frozen(eq=False)
class SSA:
    """The values of a function, and their uses. Unreachable code has empty tuples."""

    values: tuple[Value, ...]
    uses: tuple[tuple[int, ...], ...]
    """By instruction, the values that it reads, in the order of `Registers.reads`."""
    definitions: tuple[tuple[int, ...], ...]
    """By instruction, the values that it writes, in the order of `Registers.writes`."""
    phis: tuple[tuple[int, ...], ...]
    """By block, its phis."""
    entry: dict[int, int]
    """By register, its value on entry, for registers whose value on entry may be read."""
    _flow: ControlFlow = attrs.field(repr=False)
    _registers: Registers = attrs.field(repr=False)
    _parents: tuple[int, ...] = attrs.field(repr=False)

    @cached_property
    def readers(self) -> tuple[tuple[int, ...], ...]:
        """By value, the instructions that read it, ascending; one that reads it twice occurs twice."""
        with collector_paused():
            found: list[list[int]] = [[] for _ in self.values]
            for i, read in enumerate(self.uses):
                for value in read:
                    found[value].append(i)
            return tuple(map(tuple, found))

    @cached_property
    def operand_of(self) -> dict[int, tuple[int, ...]]:
        """By value, the phis and guarded writes that have it as an operand; values that are not operands are omitted."""
        found: dict[int, list[int]] = {}
        for number, of in enumerate(self.values):
            for operand in of.operands:
                if operand >= 0:
                    found.setdefault(operand, []).append(number)
        return {operand: tuple(dict.fromkeys(numbers)) for operand, numbers in found.items()}

    def read(self, i: int, register: int) -> int:
        """The value of a register that instruction `i` reads. Raises KeyError if it does not read it."""
        for number, value in zip(self._registers.reads[i], self.uses[i], strict=False):
            if number == register:
                return value
        raise KeyError(register)

    def written(self, i: int, register: int) -> int:
        """The value that instruction `i` writes to a register. Raises KeyError if it does not write it."""
        for number, value in zip(self._registers.writes[i], self.definitions[i], strict=False):
            if number == register:
                return value
        raise KeyError(register)

    def before(self, i: int, register: int) -> int | None:
        """The value of a register directly before instruction `i`; None if it is not live there or undefined. Walks up the dominator
        tree."""
        block = self._flow.block_of[i]
        while True:
            start = self._flow.blocks[block].start
            for at in range(i - 1, start - 1, -1):
                if register in self._registers.writes[at] and self.definitions[at]:
                    return self.written(at, register)
            for phi in self.phis[block]:
                if self.values[phi].register == register:
                    return phi
            if self._parents[block] in (block, -1):
                return self.entry.get(register)
            block = self._parents[block]
            i = self._flow.blocks[block].end

    def computed_from(self, numbers: Iterable[int]) -> frozenset[int]:
        """Some values and all that are computed from them, through registers alone."""
        found: set[int] = set()
        new = list(numbers)
        while new:
            number = new.pop()
            if number not in found:
                found.add(number)
                new += self.operand_of.get(number, ())
                new += [one for i in self.readers[number] for one in self.definitions[i]]
        return frozenset(found)

    def __repr__(self) -> str:
        return f"<SSA of {len(self.values)} values>"


@fact
def ssa(routine: Routine) -> SSA:
    """The values of a function. A function without instructions has none."""
    flow = control_flow(routine)
    if not flow.blocks:
        return SSA((), (), (), (), {}, flow, registers(routine), ())
    positions = _phi_blocks(routine, flow)
    return _Renamer(routine, flow, positions).run()


def _phi_blocks(routine: Routine, flow: ControlFlow) -> list[list[int]]:
    """By block, the registers that need a phi there.

    A register that is written in one block only and not live on entry needs none. For the others: the iterated dominance frontier of the
    blocks that write it, where it is live.
    """
    named, live, tree = registers(routine), liveness(routine), dominators(routine).tree
    positions: list[list[int]] = [[] for _ in flow.blocks]
    if len(flow.order) == 1 and not flow.blocks[0].predecessors:
        return positions
    first = [-1] * len(named.table)
    several: dict[int, set[int]] = {}
    for block in flow.order:
        span = flow.blocks[block]
        for written in named.writes[span.start : span.end]:
            for register in written:
                if first[register] < 0:
                    first[register] = block
                elif first[register] != block:
                    several.setdefault(register, {first[register]}).add(block)
    on_entry = live.before[0]
    for register in bits(on_entry):
        if first[register] >= 0:
            several.setdefault(register, {first[register]}).add(0)
    before, frontier = live.before, tree.deciding
    for register, writers in several.items():
        live_in = partial(_live_in, before, frontier, register)
        for block in closure([block for writer in writers for block in live_in(writer)], live_in):
            positions[block].append(register)
    return positions


def _live_in(before: Sequence[int], frontier: Sequence[tuple[int, ...]], register: int, block: int) -> list[int]:
    """The blocks in a block's frontier where a register is live."""
    return [at for at in frontier[block] if before[at] >> register & 1]


class _Renamer:
    """Walks the dominator tree with the current value of each register."""

    def __init__(self, routine: Routine, flow: ControlFlow, positions: list[list[int]]) -> None:
        self.flow = flow
        self.named = registers(routine)
        self.tree = dominators(routine).tree
        self.positions = positions
        self.values: list[Value] = []
        self.entry: dict[int, int] = {}
        self.current: list[int] = [-1] * len(self.named.table)
        for register in bits(liveness(routine).before[0] if flow.blocks else 0):
            self._on_entry(register)

    def _on_entry(self, register: int) -> int:
        found = self.entry.get(register)
        if found is None:
            found = self.entry[register] = len(self.values)
            self.values.append(Value(register, Origin.ENTRY, 0, -1, ()))
        if self.current[register] < 0:
            self.current[register] = found
        return found

    def run(self) -> SSA:
        count = len(self.named.reads)
        uses: list[tuple[int, ...]] = [()] * count
        definitions: list[tuple[int, ...]] = [()] * count
        blocks = self.flow.blocks
        phis: list[tuple[int, ...]] = [()] * len(blocks)
        arrivals: dict[int, list[int]] = {}
        for block in self.flow.order:
            if self.positions[block]:
                own = []
                for register in self.positions[block]:
                    arrivals[len(self.values)] = [-1] * len(blocks[block].predecessors) + ([self._on_entry(register)] if block == 0 else [])
                    own.append(len(self.values))
                    self.values.append(Value(register, Origin.PHI, block, -1, ()))
                phis[block] = tuple(own)
        current = self.current
        undone: list[list[tuple[int, int]]] = []
        for block, is_left in self.tree.tour():
            if is_left:
                for register, value in reversed(undone.pop()):
                    current[register] = value
                continue
            undo: list[tuple[int, int]] = []
            undone.append(undo)
            for phi in phis[block]:
                register = self.values[phi].register
                undo.append((register, current[register]))
                current[register] = phi
            self._instructions(block, undo, uses, definitions)
            for successor in blocks[block].successors:
                if phis[successor]:
                    position = blocks[successor].predecessors.index(block)
                    for phi in phis[successor]:
                        arrivals[phi][position] = current[self.values[phi].register]
        for phi, operands in arrivals.items():
            self.values[phi] = self.values[phi]._replace(operands=tuple(operands))
        return SSA(tuple(self.values), tuple(uses), tuple(definitions), tuple(phis), self.entry, self.flow, self.named, self.tree.parent)

    def _instructions(
        self, block: int, undo: list[tuple[int, int]], uses: list[tuple[int, ...]], definitions: list[tuple[int, ...]]
    ) -> None:
        values, current = self.values, self.current
        reads, writes, weak = self.named.reads, self.named.writes, self.named.weak
        value_of = current.__getitem__
        write = Origin.WRITE
        new = tuple.__new__  # half the time of calling Value
        for i in range(self.flow.blocks[block].start, self.flow.blocks[block].end):
            read = reads[i]
            if read:
                uses[i] = tuple(map(value_of, read))
            written = writes[i]
            if not written:
                continue
            first = len(values)
            may_stay = i in weak
            for register in written:
                old = current[register]
                values.append(new(Value, (register, write, block, i, (old,) if may_stay and old >= 0 else ())))
                undo.append((register, old))
                current[register] = len(values) - 1
            definitions[i] = tuple(range(first, len(values)))
