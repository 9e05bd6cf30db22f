"""Register liveness.

A register is live at a point if some path from there reads it without a certain write before. A guarded write is not certain. The registers
that `ret` returns from a function are live up to it. A point is identified by the instruction that follows it.
"""

from __future__ import annotations

from collections.abc import Iterator

import attrs

from ptxkit.analyses.cfg.dataflow import solve, union
from ptxkit.analyses.cfg.graph import ControlFlow, control_flow
from ptxkit.analyses.framework.routine import Routine, fact
from ptxkit.analyses.numbers.bits import bits, mask_of
from ptxkit.analyses.registers.registers import Registers, registers
from ptxkit.frozen import frozen


@frozen(eq=False)
class Liveness:
    """Sets of registers, as bit masks by register number."""

    before: tuple[int, ...]
    """By block, the registers that are live at its start."""
    after: tuple[int, ...]
    """By block, the registers that are live at its end."""
    _flow: ControlFlow = attrs.field(repr=False)
    _registers: Registers = attrs.field(repr=False)

    def points(self, block: int) -> Iterator[tuple[int, int]]:
        """The instructions of a block from last to first, each with the registers that are live directly after it."""
        live = self.after[block]
        reads, writes, weak = self._registers.reads, self._registers.writes, self._registers.weak
        span = self._flow.blocks[block]
        for i in range(span.end - 1, span.start - 1, -1):
            yield i, live
            if i not in weak:
                for register in writes[i]:
                    live &= ~(1 << register)
            for register in reads[i]:
                live |= 1 << register

    def after_instruction(self, i: int) -> int:
        """The registers that are live directly after an instruction. Walks its block from the end."""
        return next(live for at, live in self.points(self._flow.block_of[i]) if at == i)

    def before_instruction(self, i: int) -> int:
        """The registers that are live directly before an instruction. Walks its block from the end."""
        block = self._flow.block_of[i]
        if i == self._flow.blocks[block].start:
            return self.before[block]
        return self.after_instruction(i - 1)

    def __repr__(self) -> str:
        return f"<Liveness of {len(self.before)} blocks>"


@fact
def liveness(routine: Routine) -> Liveness:
    """The live registers at each point of a function, including unreachable blocks."""
    flow, named = control_flow(routine), registers(routine)
    exposed: list[int] = []
    killed: list[int] = []
    reads, writes, weak = named.reads, named.writes, named.weak
    sets = []
    across: set[int] = set()
    for block in flow.blocks:
        read_first: set[int] = set()
        written: set[int] = set()
        for i in range(block.start, block.end):
            for register in reads[i]:
                if register not in written:
                    read_first.add(register)
            if i not in weak:
                written.update(writes[i])
        sets.append((read_first, written))
        across |= read_first
    returned = mask_of(named.returned)
    across.update(named.returned)
    for read_first, written in sets:
        exposed.append(mask_of(read_first))
        killed.append(~mask_of(written & across))
    solution = solve(
        flow,
        lambda block, after: exposed[block] | after & killed[block],
        union,
        lambda block: returned if flow.blocks[block].falls_off else None,
        0,
        backward=True,
    )
    return Liveness(solution.before, solution.after, flow, named)


@fact
def live_ranges(routine: Routine) -> tuple[tuple[tuple[int, int], ...], ...]:
    """By register, its live ranges as (start, end): it is live directly before each of the instructions start + 1 to end - 1 … end.

    A range starts with the instruction that writes the register, or with the first one of the block where it becomes live, and ends with
    the last one that reads it, exclusive; overlapping ranges are merged. An unused value has the range of its instruction alone.
    """
    flow, named, live = control_flow(routine), registers(routine), liveness(routine)
    reads, writes, weak = named.reads, named.writes, named.weak
    found: list[list[tuple[int, int]]] = [[] for _ in named.table]

    def add(register: int, start: int, end: int) -> None:
        of = found[register]
        if of and of[-1][0] <= end:
            of[-1] = (start, max(end, of[-1][1]))
        else:
            of.append((start, end))

    # backwards: by register, the end of its open range
    ends: dict[int, int] = {}
    entering, below = 0, 0
    for block in reversed(flow.blocks):
        leaving = live.after[block.index]
        for register in bits(entering & ~leaving):
            add(register, below, ends.pop(register))
        for register in bits(leaving & ~entering):
            ends[register] = block.end
        for i in range(block.end - 1, block.start - 1, -1):
            for register in writes[i]:
                if register not in ends:
                    add(register, i, i + 1)
                elif i not in weak:
                    add(register, i, ends.pop(register))
            for register in reads[i]:
                if register not in ends:
                    ends[register] = i + 1
        entering, below = live.before[block.index], block.start
    for register, end in ends.items():
        add(register, below, end)
    return tuple([tuple(reversed(of)) for of in found])
