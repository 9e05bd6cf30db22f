"""Reads of uninitialized registers.

*Always*: no path to the read writes the register. *Sometimes*: there is a point where the register cannot have been written yet, and from
which every path reads it before writing it. No assumption about correlated branches is needed: it suffices that control reaches the point.
A register that is written only in one branch and read only in another is not reported, since the conditions may be the same.

Copies do not count as reads, nor does handing values to other lanes that do not use them. Compilers copy and pack uninitialized registers,
and the padding of a structure is exchanged between lanes with the rest.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import attrs

from ptxkit.analyses.cfg.dataflow import Solution, solve, union
from ptxkit.analyses.cfg.dominators import dominators
from ptxkit.analyses.cfg.graph import ControlFlow, control_flow
from ptxkit.analyses.cfg.reachability import closure, nearest_first
from ptxkit.analyses.framework.bindings import bindings
from ptxkit.analyses.framework.routine import Routine, fact
from ptxkit.analyses.numbers.bits import bits, mask_of
from ptxkit.analyses.registers.reaching import ENTRY, reaching
from ptxkit.analyses.registers.registers import CARRY, Registers, registers
from ptxkit.analyses.registers.ssa import ssa
from ptxkit.frozen import frozen
from ptxkit.isa.binding import Bound

STEPS = 16
"""Maximum number of instructions that the origin of a value is traced back."""


@frozen
class UndefinedRead:
    """The first read of a register that sees no value."""

    instruction: int
    register: int
    always: bool
    """Whether no path to it writes the register."""
    point: int
    """Unless `always`: the instruction after which the register is unwritten and will be read: the last one of a block, or a guarded
    write; -1 for function entry."""
    target: int
    """The successor block at that point; -1 for a guarded write."""
    write: int
    """Unless `always`: an instruction that writes it on another path."""
    only_loads: bool
    """Whether other paths compute its value from loads that are skipped here. A program may skip an out-of-bounds load, continue with any
    value in the register, and discard the result."""
    is_shown: bool = True
    """Whether the value read certainly has an effect: not if only after a branch, a guard or a selection."""
    is_of_contents: bool = False
    """Whether reaching the point depends on memory contents: a program may never write contents that send control there."""


@fact
def undefined_reads(routine: Routine) -> tuple[UndefinedRead, ...]:
    """For each register that is always or sometimes read before it is written, the first such read, in document order."""
    flow, named, values = control_flow(routine), registers(routine), ssa(routine)
    doubtful = mask_of([register for register in values.entry if _is_of_interest(named, register)])
    if not doubtful:
        return ()
    real = _real_reads(routine, doubtful)
    found = {read.register: read for read in _always(routine, real)}
    sometimes = _Sometimes(routine, flow, doubtful & ~mask_of(found), real)
    for read in sometimes.run():
        is_shown = _matters(routine, read.instruction, surely=True)
        found.setdefault(read.register, attrs.evolve(read, is_shown=is_shown, is_of_contents=_is_of_contents(routine, read.point)))
    return tuple(sorted(found.values(), key=lambda read: (read.instruction, read.register)))


def _is_of_interest(named: Registers, register: int) -> bool:
    described = named.table[register]
    return not named.given >> register & 1 and (described.symbol is not None or described.name == CARRY)


def _real_reads(routine: Routine, doubtful: int) -> dict[int, tuple[int, ...]]:
    """By instruction, the doubtful registers whose value certainly affects it: no copies, no registers that it also updates, no
    elements of a stored vector, of which some may be padding, and no parts of a word, of which some may not be used."""
    named, bounds = registers(routine), bindings(routine)
    found = {}
    for i, read in enumerate(named.reads):
        here = [register for register in read if doubtful >> register & 1]
        bound = bounds[i]
        if not here or i in named.unknown or not isinstance(bound, Bound):
            continue
        children = routine.instructions[i].children
        first = 1 if routine.instructions[i].guard is None else 2
        unsure: set[int] = set()
        if bound.form.copies or bound.packs:
            unsure.update(*[named.of(i, child) for child in children[first:]])
        for operand in bound.operands:
            if (operand.writes and operand.reads) or (operand.width > 1 and bound.memory):
                unsure.update(named.of(i, children[first + operand.path[0]]))
        certain = tuple(dict.fromkeys([register for register in here if register not in unsure]))
        if certain and (bound.converges is None or _matters(routine, i)):
            found[i] = certain
    return found


def _matters(routine: Routine, i: int, *, surely: bool = False) -> bool:
    """Whether an instruction may have an effect beyond registers, directly or through its results.

    *Surely*: the effect follows on all paths, with no selection in between.
    """
    values, flow, bounds = ssa(routine), control_flow(routine), bindings(routine)
    after = dominators(routine).post

    def readers(at: int) -> set[int]:
        """The instructions that use the results of one that only writes registers."""
        bound, is_guarded = bounds[at], at != i and routine.instructions[at].guard is not None
        if not _writes_registers_only(routine, at):
            return set()
        # an instruction that copies some of several operands may skip this one
        if surely and at != i and (is_guarded or (isinstance(bound, Bound) and bound.form.copies and len(bound.operands) > 2)):
            return set()
        goes_into = closure(values.definitions[at], lambda value: values.operand_of.get(value, ()))
        return {reader for value in goes_into for reader in values.readers[value]}

    for at in nearest_first([i], readers):
        if not _writes_registers_only(routine, at):
            is_guarded = at != i and routine.instructions[at].guard is not None
            if not surely or (not is_guarded and after.dominates(flow.block_of[at], flow.block_of[i])):
                return True
    return False


def _writes_registers_only(routine: Routine, i: int) -> bool:
    bound = bindings(routine)[i]
    if not isinstance(bound, Bound) or not bound.form.modelled or not ssa(routine).definitions[i]:
        return False
    return not (bound.flow or bound.effects or bound.barrier or bound.asynchronous or bound.completes or bound.memory)


def _always(routine: Routine, real: dict[int, tuple[int, ...]]) -> Iterator[UndefinedRead]:
    chains, values = reaching(routine), ssa(routine)
    done: set[int] = set()
    for i, read in real.items():
        for register in read:
            if register not in done and values.uses[i] and chains.definitions(i, register) == (ENTRY,):
                done.add(register)
                yield UndefinedRead(i, register, True, -1, -1, -1, False)


def _is_of_contents(routine: Routine, point: int) -> bool:
    """Whether the guard of an instruction depends on values loaded from memory."""
    if point < 0 or routine.instructions[point].guard is None:
        return False
    values = ssa(routine)

    def sources(number: int) -> tuple[int, ...]:
        at = values.values[number].instruction
        return () if at < 0 or _loads(routine, at) else values.uses[at]

    numbers = islice(nearest_first(values.uses[point][:1], sources), STEPS)
    return any(at >= 0 and _loads(routine, at) for at in [values.values[number].instruction for number in numbers])


def _loads(routine: Routine, i: int) -> bool:
    """Whether an instruction reads memory other than parameters."""
    bound = bindings(routine)[i]
    return isinstance(bound, Bound) and any("read" in memory.access for memory in bound.memory) and not bound.has(".param")


class _Sometimes:
    def __init__(self, routine: Routine, flow: ControlFlow, doubtful: int, real: dict[int, tuple[int, ...]]) -> None:
        self.routine = routine
        self.flow = flow
        self.named = registers(routine)
        self.doubtful = doubtful
        self.real = real
        self.guarded = [instruction.guard is not None for instruction in routine.instructions]
        self.written: list[int] = []
        self.read_first: list[int] = []
        self.writes: dict[int, list[int]] = {}
        self.done = 0
        """The registers of which a read has been found, as bits."""
        for block in flow.blocks:
            read = written = 0
            for i in range(block.start, block.end):
                read |= mask_of([r for r in real.get(i, ()) if r in self._surely_read(i)]) & ~written
                for register in self.named.writes[i]:
                    if doubtful >> register & 1:
                        written |= 1 << register
                        self.writes.setdefault(register, []).append(i)
            self.written.append(written)
            self.read_first.append(read)

    def _surely_read(self, i: int) -> tuple[int, ...]:
        """The registers that an instruction reads whenever control gets to it: only the guard if there is one."""
        return self.named.of(i, self.routine.instructions[i].children[0]) if self.guarded[i] else self.named.reads[i]

    def run(self) -> Iterator[UndefinedRead]:
        flow = self.flow
        assigned = solve(flow, lambda block, before: before | self.written[block], union, lambda block: None, 0)
        stuck = self._stuck()
        avoided = solve(
            flow,
            lambda block, after: ~self.read_first[block] & (self.written[block] | after) & self.doubtful,
            union,
            lambda block: self.doubtful if flow.blocks[block].is_end or not flow.blocks[block].successors or stuck[block] else None,
            0,
            backward=True,
        )
        for register in bits(self.doubtful & ~avoided.before[0]):
            self.done |= 1 << register
            yield self._found(-1, 0, register)
        for index in flow.order:
            yield from self._after_guarded_writes(index, assigned, avoided)
            for target in flow.blocks[index].successors:
                sure = self.doubtful & ~assigned.after[index] & ~avoided.before[target] & ~self.done
                for register in [register for register in bits(sure) if register in self.writes]:
                    self.done |= 1 << register
                    yield self._found(flow.blocks[index].end - 1, target, register)

    def _after_guarded_writes(self, index: int, assigned: Solution[int], avoided: Solution[int]) -> Iterator[UndefinedRead]:
        """The reads that follow the first write of a register in a block if the guard of that write does not hold."""
        block = self.flow.blocks[index]
        unwritten = self.doubtful & ~self.done & ~assigned.before[index]
        for i in range(block.start, block.end) if unwritten & self.written[index] else ():
            for register in self.named.writes[i]:
                if not unwritten >> register & 1:
                    continue
                unwritten &= ~(1 << register)
                if not self.guarded[i] or i in self.named.unknown:
                    continue
                read = self._after_guarded(i, register, block.end, avoided.after[index])
                if read >= 0:
                    self.done |= 1 << register
                    yield UndefinedRead(read, register, False, i, -1, i, self._is_loaded(i, register, i))

    def _found(self, point: int, target: int, register: int) -> UndefinedRead:
        read = self._first_read(target, register)
        writes = [i for i in reaching(self.routine).definitions(read, register) if i != ENTRY]
        loads = all(self._is_loaded(i, register, point) for i in writes)
        return UndefinedRead(read, register, False, point, target, min(writes, default=-1), loads)

    def _stuck(self) -> list[bool]:
        """By block, whether control can never leave the function from there."""
        flow = self.flow
        leaving = closure([block.index for block in flow.blocks if block.is_end or not block.successors], flow.predecessors)
        return [block.index not in leaving for block in flow.blocks]

    def _is_loaded(self, i: int, register: int, point: int) -> bool:
        """Whether the value that an instruction writes to a register depends on loads that may not have been executed at this point, and
        not on the register's previous value."""
        values, bounds = ssa(self.routine), bindings(self.routine)

        def is_load(at: int) -> bool:
            bound = bounds[at]
            return isinstance(bound, Bound) and any("read" in memory.access for memory in bound.memory)

        def sources(number: int) -> tuple[int, ...]:
            at = values.values[number].instruction
            if at < 0 or not isinstance(bounds[at], Bound) or is_load(at):
                return ()
            return values.uses[at][1 if self.guarded[at] else 0 :]

        loaded = False
        for number in islice(nearest_first([values.written(i, register)], sources), STEPS):
            value = values.values[number]
            if value.register == register and value.instruction < 0:
                return False
            bound = bounds[value.instruction] if value.instruction >= 0 else None
            if isinstance(bound, Bound) and is_load(value.instruction):
                loaded |= not bound.has(".param") and self._may_be_skipped(value.instruction, point)
        return loaded

    def _may_be_skipped(self, i: int, point: int) -> bool:
        """Whether control may get to a point without having executed an instruction."""
        block_of = self.flow.block_of
        return point < 0 or self.guarded[i] or not dominators(self.routine).tree.dominates(block_of[i], block_of[point])

    def _first_read(self, block: int, register: int) -> int:
        """The first read on the paths from a block, all of which reach one."""

        def read(index: int) -> int:
            span = self.flow.blocks[index]
            own = range(span.start, span.end)
            return next((i for i in own if register in self._surely_read(i)), len(self.guarded))

        return min(map(read, closure([block], lambda index: self.flow.successors(index) if read(index) == len(self.guarded) else ())))

    def _after_guarded(self, i: int, register: int, end: int, avoided: int) -> int:
        """The read that certainly follows a guarded write whose guard fails; -1 if there is none, or another write may come first."""
        values = ssa(self.routine)
        guard = self.routine.instructions[i].guard
        assert guard is not None
        for at in range(i + 1, end):
            other = self.routine.instructions[at].guard
            same = other is not None and values.uses[at][:1] == values.uses[i][:1]
            is_opposite = same and other is not None and other.negated != guard.negated
            if register in self.real.get(at, ()) and (is_opposite or register in self._surely_read(at)):
                return at
            if register in self.named.writes[at] and not (other is not None and same and other.negated == guard.negated):
                return -1
        if avoided >> register & 1:
            return -1
        following = self.flow.blocks[self.flow.block_of[i]].successors
        return min([self._first_read(block, register) for block in following], default=-1)
