"""The uniformity fixpoint: levels of all values, branches and merges of a function, starting from uniform everywhere.

Levels only drop. A value has the lowest level of its inputs (`transfer`); a phi also that of the branches whose paths merge at it
(`sync_dependence`); a value read outside a loop also that of the branches by which threads leave the loop in different iterations. The term
of a value may raise it again (`term_levels`); knowledge about a counted loop may raise its exit branch (`trip_counts`), and so may earlier
branches on the path (`implied_branches`). In an irreducible loop, iterations have no meaning once threads diverge: all values defined in it
drop.

Levels are found for the values on which branches depend; those of others when they are first asked for, since no branch depends on them.

A loaded value counts as uniform for all threads that load from one address. That does not hold after a loop in which threads wait for one
another in sequence, as for a lock, up to the next barrier of the CTA.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from itertools import chain, islice

from ptxkit.analyses.cfg.dataflow import fixpoint
from ptxkit.analyses.cfg.dominators import dominators
from ptxkit.analyses.cfg.graph import control_flow
from ptxkit.analyses.cfg.loops import loops
from ptxkit.analyses.cfg.reachability import closure, nearest_first
from ptxkit.analyses.framework.bindings import bindings
from ptxkit.analyses.framework.routine import Routine
from ptxkit.analyses.memory.accesses import locate
from ptxkit.analyses.numbers.bits import bits, mask_of
from ptxkit.analyses.registers.registers import registers
from ptxkit.analyses.registers.ssa import Origin, Value, ssa
from ptxkit.analyses.symbolic.implied_branches import is_decided
from ptxkit.analyses.symbolic.values import values
from ptxkit.analyses.uniformity.broadcasts import handed_out, is_whole_warp
from ptxkit.analyses.uniformity.context import Context, Parameters
from ptxkit.analyses.uniformity.levels import Level
from ptxkit.analyses.uniformity.sync_dependence import Divergences
from ptxkit.analyses.uniformity.template import Template
from ptxkit.analyses.uniformity.term_levels import Agreements
from ptxkit.analyses.uniformity.transfer import How, Transfer, groups_itself, transfer
from ptxkit.analyses.uniformity.trip_counts import leaving
from ptxkit.isa.binding import Bound
from ptxkit.isa.bound import GENERIC
from ptxkit.syntax import Address, Guard

THREAD, WARP, CTA, GRID = Level.THREAD, Level.WARP, Level.CTA, Level.GRID
MOST_PATHS = 64
"""Maximum number of blocks searched between a branch and its merge to find which of several equal values arrive from there."""


class Propagation:
    """The solution for a function in a context. `branches` and `joins` by block, `exits` by loop."""

    def __init__(self, routine: Routine, context: Context) -> None:
        self.routine = routine
        self.context = context
        self.flow = control_flow(routine)
        self.ssa = ssa(routine)
        self.known = values(routine)
        self.forest = loops(routine)
        self.divergences = Divergences(self.flow, self.forest, dominators(routine).post)
        self.template = Template(routine, context.flat, handed_out(routine).of)
        self._levels: list[Level] = [GRID] * len(self.ssa.values)
        self.branches: list[Level] = [GRID] * len(self.flow.blocks)
        self.joins: list[Level] = [GRID] * len(self.flow.blocks)
        self.exits: list[Level] = [GRID] * len(self.forest.loops)
        self.deciders: dict[int, int] = {}
        """By merge, the block with the least uniform of the branches whose paths merge there."""
        self.leavers: dict[int, int] = {}
        """By loop, the block with the least uniform of the branches that leave it in different iterations."""
        self.floors: list[Level] = [GRID] * len(self.forest.loops)
        """Upper bound for values defined in loops with several entries."""
        self.unordered: list[Level] = [GRID] * len(self.flow.blocks)
        """Upper bound for loaded values, because of locks."""
        self._agreements = Agreements(self.known, self.template)
        self._level_of: dict[int, tuple[Level, tuple[int, ...]]] = {}
        self._bounds = bindings(routine)
        self._registers = registers(routine)
        self._plans: dict[int, Transfer] = {}
        self._spaces: dict[int, Level] = {}
        self._others: dict[int, set[int]] = {}
        self.parameters = Parameters(routine, context)
        self._dependent = {block.end - 1: block.index for block in self.flow.blocks if len(block.successors) > 1 or block.leaves}
        self._made_in: list[list[int]] = [[] for _ in self.flow.blocks]
        for number, value in enumerate(self.ssa.values):
            if value.origin is not Origin.ENTRY:
                self._made_in[value.block].append(number)
        self._tangled = [loop for loop in self.forest.loops if not loop.is_reducible]
        self._proved: dict[int, Level] = {}
        """By block whose branch depends on non-uniform values, the level that is proved nevertheless."""
        self._parted: dict[int, set[int]] = {}
        """By merge, the blocks whose branches diverge and whose threads reconverge there."""
        self._paths_of: dict[tuple[int, int], int] = {}
        self._any_exit = False
        self._queue: list[int] = []
        self._wanted = bytearray(len(self.ssa.values))
        """The values whose levels are known."""
        self._waiting = bytearray(b"\1" * len(self.ssa.values))
        """The values to visit, now or when they are wanted."""
        self._solve()

    # --- what is read

    def level(self, number: int) -> Level:
        """The level of a value where it is defined."""
        self._want([number])
        return self._levels[number]

    def used(self, number: int, block: int) -> Level:
        """The level of a value where a block reads it."""
        if number >= 0:
            self._want([number])
        return self._used(number, block)

    def _used(self, number: int, block: int) -> Level:
        if number < 0:
            return THREAD
        level = self._levels[number]
        if self._any_exit and level:
            loop = self.forest.innermost[self.ssa.values[number].block]
            while loop is not None and block not in (around := self.forest.loops[loop]):
                level = min(level, self.exits[loop])
                loop = around.parent
        return level

    def level_bound(self, number: int) -> tuple[Level, tuple[int, ...]]:
        """A lower bound from the term of a value: a level, and the values whose levels also limit it; (THREAD,) if nothing is known."""
        found = self._level_of.get(number)
        if found is None:
            found = self._level_of[number] = (THREAD, ()) if self._is_of_unknown(number) else self._uniform_level(number)
        return found

    def _uniform_level(self, number: int) -> tuple[Level, tuple[int, ...]]:
        term = self.known.of(number)
        if (term.is_leaf and term.data == (number,)) or term.operator == "join":
            return THREAD, ()
        level, numbers = self._agreements.of(term)
        if number in numbers:
            return THREAD, ()
        for other in numbers:
            self._others.setdefault(other, set()).add(number)
        self._enqueue(numbers)
        return level, tuple(sorted(numbers))

    def _is_of_unknown(self, number: int) -> bool:
        """Whether a value depends on unknown values only: its level is then theirs, regardless of its term."""
        value = self.ssa.values[number]
        if value.origin is not Origin.WRITE or value.operands:
            return False
        uses = self.ssa.uses[value.instruction]
        return bool(uses) and all(use >= 0 and self._is_unknown(use) for use in uses)

    def _is_unknown(self, number: int) -> bool:
        """Whether nothing is known of a written value; values that lanes exchange may be known from their indices."""
        value = self.ssa.values[number]
        if value.origin is not Origin.WRITE or not self.known.is_unknown(number):
            return False
        bound = self._bounds[value.instruction]
        return isinstance(bound, Bound) and bound.converges is None

    def _plan(self, bound: Bound) -> Transfer:
        found = self._plans.get(id(bound))
        if found is None:
            found = self._plans[id(bound)] = transfer(bound)
        return found

    # --- the fixpoint

    def _solve(self) -> None:
        # what is passed in parameters connects values other than by reading registers
        whole = range(len(self.ssa.values)) if self.parameters.is_needed else ()
        self._want(chain(whole, *[self._deciding(block) for block in self._dependent.values()]))
        for block in self.flow.order:
            if self.flow.blocks[block].end - 1 in self._dependent:
                self._branch(block)
        self._settle()

    def _want(self, numbers: Iterable[int]) -> None:
        """Finds the levels of values, and of those that they depend on."""
        self._enqueue(numbers)
        self._settle()

    def _enqueue(self, numbers: Iterable[int]) -> None:
        wanted, values, uses = self._wanted, self.ssa.values, self.ssa.uses
        rest = [number for number in numbers if number >= 0 and not wanted[number]]
        while rest:
            number = rest.pop()
            if wanted[number]:
                continue
            wanted[number] = 1
            heapq.heappush(self._queue, number)
            value = values[number]
            inputs = value.operands if value.instruction < 0 else uses[value.instruction] + value.operands
            rest += [before for before in inputs if before >= 0 and not wanted[before]]

    def _settle(self) -> None:
        while self._queue:
            self._visit(heapq.heappop(self._queue))

    def _push(self, number: int) -> None:
        if not self._waiting[number]:
            self._waiting[number] = 1
            heapq.heappush(self._queue, number)

    def _visit(self, number: int) -> None:
        self._waiting[number] = 0
        level = self._compute(number)
        if level >= self._levels[number]:
            return
        self._levels[number] = level
        waiting, definitions, dependent = self._waiting, self.ssa.definitions, self._dependent
        for i in self.ssa.readers[number]:
            for written in definitions[i]:
                if not waiting[written]:
                    self._push(written)
            if i in dependent:
                self._branch(dependent[i])
            if self.parameters.is_needed:
                for load in self.parameters.loads_after(i):
                    self._push(load)
        for phi in self.ssa.operand_of.get(number, ()):
            self._push(phi)
        for other in self._others.get(number, ()):
            self._push(other)

    def _compute(self, number: int) -> Level:
        value = self.ssa.values[number]
        narrows = False
        if value.origin is Origin.PHI:
            level = self._phi(number)
        elif value.origin is Origin.WRITE:
            bound = self._bounds[value.instruction]
            if not isinstance(bound, Bound):
                return THREAD
            plan = self._plans.get(id(bound)) or self._plan(bound)
            level = self._write(number, value, bound, plan)
            narrows = plan.narrows
        else:
            return self.parameters.register(value.register)
        if narrows and level < CTA:
            base, numbers = self.level_bound(number)
            if base > level:
                level = max(level, min([self._used(other, value.block) for other in numbers] + [base]))
        loop = self.forest.innermost[value.block] if self._any_exit else None
        while loop is not None:
            level = min(level, self.floors[loop])
            loop = self.forest.loops[loop].parent
        return level

    def _phi(self, number: int) -> Level:
        value = self.ssa.values[number]
        level = self.joins[value.block]
        if level < GRID:
            arriving = {operand for operand in value.operands if operand != number} - {-1}
            if len(arriving) < 2:
                level = GRID
            elif len(set(value.operands)) < len(value.operands):
                level = self._joined(value)
        for operand in value.operands:
            if operand >= 0:
                # read here, not at the end of the predecessor: the edge may leave a loop
                level = min(level, self._used(operand, value.block))
        return level

    def _joined(self, value: Value) -> Level:
        """The level of the path to a phi; only branches that lead to different values count."""
        block = value.block
        level = GRID
        for branch in self._parted.get(block, ()):
            if self.branches[branch] >= level:
                continue
            paths = self._paths(branch, block)
            before = self.flow.blocks[block].predecessors
            if len({operand for operand, route in zip(value.operands, before, strict=False) if paths >> route & 1}) > 1:
                level = self.branches[branch]
        return level

    def _paths(self, branch: int, join: int) -> int:
        """The set of blocks on paths from the end of a block to another, first visits only; all blocks if there are too many."""
        found = self._paths_of.get((branch, join))
        if found is None:
            onward = nearest_first([branch], lambda block: [after for after in self.flow.successors(block) if after != join])
            blocks = list(islice(onward, MOST_PATHS))
            found = self._paths_of[branch, join] = -1 if len(blocks) == MOST_PATHS else mask_of(blocks)
        return found

    def _write(self, number: int, value: Value, bound: Bound, plan: Transfer) -> Level:
        i, block = value.instruction, value.block
        uses = self.ssa.uses[i]
        if plan.is_plain:
            # the lowest level of all inputs, guard included
            level = plan.base
            for use in uses:
                read = self._used(use, block) if self._any_exit or use < 0 else self._levels[use]
                if read < level:
                    level = read
        elif i not in self._registers.weak:
            return self._made(number, i, bound, plan, uses, block)
        elif type(self.routine.instructions[i].children[0]) is Guard:
            level = min(self._made(number, i, bound, plan, uses[1:], block), self._used(uses[0], block))
        else:
            level = self._made(number, i, bound, plan, uses, block)
        for old in value.operands:
            level = min(level, self._used(old, block))
        return level

    def _made(self, number: int, i: int, bound: Bound, plan: Transfer, uses: tuple[int, ...], block: int) -> Level:
        """The level of what an instruction writes when it is executed."""
        position = number - self.ssa.definitions[i][0]
        if bound.flow == "call":
            return self.parameters.result(i, position, lambda use: self._used(use, block))
        how, group = plan.of(position)
        if how is How.NEVER or how is How.ONE:
            return THREAD
        if how is How.GROUP:
            return self._group(bound, plan, group, uses, block)
        level = plan.base
        for use in uses:
            if level:
                level = min(level, self._used(use, block))
        if how is How.BROADCAST:
            agreed = min([self._used(uses[at], block) for at in plan.control if at < len(uses)], default=GRID)
            return max(level, WARP) if agreed >= WARP and is_whole_warp(self.routine, i, bound) else level
        if plan.parameters and self.parameters.is_needed:
            stored = self.parameters.load(i, lambda use, at: self._used(use, at))
            level = level if stored is None else min(level, stored)
        if how is How.MEMORY and level:
            level = min(level, self._space(i, bound), self.unordered[block])
        return level

    def _group(self, bound: Bound, plan: Transfer, group: Level, uses: tuple[int, ...], block: int) -> Level:
        if not groups_itself(bound):
            return THREAD if dominators(self.routine).depends_on(block, staying=True) else group
        agreed = min([self._used(uses[at], block) for at in plan.control if at < len(uses)], default=GRID)
        return group if agreed >= group else THREAD

    def _space(self, i: int, bound: Bound) -> Level:
        """The maximum level of values loaded from one address: THREAD if each thread may have its own memory there."""
        found = self._spaces.get(i)
        if found is None:
            found = self._spaces[i] = self._space_of(i, bound)
        return found

    def _space_of(self, i: int, bound: Bound) -> Level:
        memory = next((memory for memory in bound.memory if memory.access != "write"), None)
        operand = bound.operand(memory.operand) if memory is not None else None
        if operand is None or operand.role != "addr":
            return THREAD
        if GENERIC not in operand.spaces and operand.spaces:
            return CTA
        node = self.routine.instructions[i].operands[operand.path[0]]
        address = self.known.operand(i, node) if isinstance(node, Address) else None
        if address is None:
            return THREAD
        # a pointer passed to the kernel cannot point to thread-local memory
        given = any(atom.operator == "parameter" and factor == 1 for atom, factor in address.linear[1])
        return CTA if given or locate(self.known, address).space in (".shared", ".global", ".const") else THREAD

    def points(self, staying: bool) -> list[Level]:
        """By block, the groups whose threads arrive together: the lowest level of the branches that control it, and of those branches' own
        blocks.

        With `staying`, threads that have exited do not count.
        """
        dominance = dominators(self.routine)
        found = [GRID] * len(self.flow.blocks)
        decided: dict[int, list[int]] = {}
        for block in self.flow.order:
            for before in dominance.depends_on(block, staying):
                decided.setdefault(before, []).append(block)

        def update(block: int) -> bool:
            level, old = min([min(self.branches[at], found[at]) for at in dominance.depends_on(block, staying)], default=GRID), found[block]
            found[block] = min(level, old)
            return level < old

        fixpoint(self.flow.order, update, lambda block: decided.get(block, ()))
        return found

    # --- branches

    def _deciding(self, block: int) -> tuple[int, ...]:
        """The values that decide where threads go at the end of a block."""
        i = self.flow.blocks[block].end - 1
        uses, bound = self.ssa.uses[i], self._bounds[i]
        if not isinstance(bound, Bound) or bound.flow == "branch-indexed":
            return uses
        return uses[:1] if type(self.routine.instructions[i].children[0]) is Guard else ()

    def _branch(self, block: int) -> None:
        level = min([self._used(use, block) for use in self._deciding(block)], default=GRID)
        if level < CTA and level < self.branches[block]:
            proved = self._proved.get(block)
            if proved is None:
                decided = is_decided(self.known, block)
                proved = self._proved[block] = GRID if decided else leaving(self.known, self.template, block)
            level = max(level, proved)
        if level >= self.branches[block]:
            return
        self.branches[block] = level
        divergence = self.divergences.of(block)
        for join in divergence.joins:
            self._parted.setdefault(join, set()).add(block)
            if level < self.joins[join]:
                self.joins[join] = level
                self.deciders[join] = block
            elif len(self.flow.blocks[join].predecessors) < 3:
                continue
            for phi in self.ssa.phis[join]:
                self._push(phi)
        for loop in divergence.loops:
            if level < self.exits[loop]:
                self.leavers[loop] = block
                self._leave(loop, level)
        for around in self._tangled:
            if block in around or any(entry in divergence.joins for entry in around.entries):
                self._tangle(around.index, level)

    def _leave(self, index: int, level: Level) -> None:
        """Threads leave a loop in different iterations."""
        self.exits[index] = level
        self._any_exit = True
        loop = self.forest.loops[index]
        for block in bits(loop.blocks):
            for number in self._made_in[block]:
                if self._wanted[number]:
                    self._users_outside(number, loop.blocks)
        if level < CTA and self._is_lock(loop.blocks):
            self._unorder(index, level)

    def _users_outside(self, number: int, inside: int) -> None:
        for i in self.ssa.readers[number]:
            if inside >> self.flow.block_of[i] & 1:
                continue
            for written in self.ssa.definitions[i]:
                self._push(written)
            if i in self._dependent:
                self._branch(self._dependent[i])
            for load in self.parameters.loads_after(i):
                self._push(load)
        for user in (*self.ssa.operand_of.get(number, ()), *self._others.get(number, ())):
            self._push(user)

    def _tangle(self, index: int, level: Level) -> None:
        """Threads diverge in a loop with several entries, or enter it by several: their iterations cannot be matched."""
        if level >= self.floors[index]:
            return
        self.floors[index] = level
        self._any_exit = True
        if level < self.exits[index]:
            self._leave(index, level)
        loop = self.forest.loops[index]
        for block in bits(loop.blocks):
            for number in self._made_in[block]:
                self._push(number)

    # --- locks

    def _is_lock(self, blocks: int) -> bool:
        """Whether a loop distinguishes threads by their order of arrival: by an atomic operation, or a load with ordering semantics."""
        for block in bits(blocks):
            for bound in self._bounds[self.flow.blocks[block].start : self.flow.blocks[block].end]:
                if not isinstance(bound, Bound) or bound.barrier:
                    continue
                if any(memory.access != "write" and not memory.is_async and memory.order not in ("weak", "") for memory in bound.memory):
                    return True
        return False

    def _unorder(self, index: int, level: Level) -> None:
        """Values loaded in and after a lock-like loop depend on the order of threads, up to the next barrier of the CTA."""
        inside = bits(self.forest.loops[index].blocks)
        for block in closure(inside, lambda block: () if self._has_barrier(block) else self.flow.successors(block)):
            if level < self.unordered[block]:
                self.unordered[block] = level
                for i in range(self.flow.blocks[block].start, self.flow.blocks[block].end):
                    for number in self.ssa.definitions[i]:
                        self._push(number)

    def _has_barrier(self, block: int) -> bool:
        for bound in self._bounds[self.flow.blocks[block].start : self.flow.blocks[block].end]:
            if isinstance(bound, Bound) and bound.converges is not None and bound.converges.level in ("cta", "cluster"):
                if any(barrier.action == "wait" for barrier in bound.barrier):
                    return True
        return False
