"""Uniformity: which threads have equal values, take the same path at a branch, and execute an instruction together.

    known = uniformity(routine)
    known.level(number)         the level of a value of `ssa(routine)`
    known.branch(block)         the level of the branch at the end of a block
    known.guard(i)              the level of the guard of any instruction
    known.point(i)              how uniformly instruction i is executed, each time
    known.threads(i)            the threads of a CTA that execute it, the first time
    known.blame(block)          why threads diverge at the end of a block

There are three kinds of answers: proved for a `Level`, refuted with two threads (`Verdict.refuted`), or neither. A level concerns threads
that are in the same iteration of all enclosing loops. It assumes that no other thread writes memory while it is loaded without ordering
semantics, which would be a race. `propagation` computes the levels, `witness` the two threads, `reaching_threads` the sets of threads, and
`divergence_causes` the reasons.
"""

from __future__ import annotations

from functools import cached_property, partial

from ptxkit.analyses.cfg.graph import control_flow
from ptxkit.analyses.framework.routine import Routine, fact
from ptxkit.analyses.launch.callers import calls_of, is_recursive
from ptxkit.analyses.launch.launch import WARP, WARP_MASK
from ptxkit.analyses.registers.ssa import ssa
from ptxkit.analyses.uniformity.context import Context
from ptxkit.analyses.uniformity.divergence_causes import blame
from ptxkit.analyses.uniformity.interprocedural import context_of, solution
from ptxkit.analyses.uniformity.levels import Divergence, Level, Step, ThreadSet, Verdict
from ptxkit.analyses.uniformity.reaching_threads import Reach
from ptxkit.analyses.uniformity.witness import block_witness, guard_witness

__all__ = ["Divergence", "Level", "Step", "ThreadSet", "Uniformity", "Verdict", "uniformity"]


class Uniformity:
    """The uniformity of a function. Value numbers are those of `ssa(routine)`, instructions and blocks those of `control_flow`."""

    def __init__(self, routine: Routine, context: Context) -> None:
        self.routine = routine
        self.context = context
        self.solved = solution(routine, context)
        """The fixpoint of levels, for other analyses."""
        self._flow = control_flow(routine)
        # levels and proofs apart: verdicts refer to this object, which would be a cycle if it kept them
        self._guard_levels: dict[int, Level] = {}
        self._parted_by_guard: dict[int, Divergence | None] = {}
        self._parted_before_block: dict[tuple[int, bool], Divergence | None] = {}

    def __repr__(self) -> str:
        return f"<Uniformity of {self.routine.name}>"

    @property
    def assumption(self) -> str:
        """What is assumed about the shape of a CTA, as text; may be empty."""
        return self.solved.template.assumption

    @cached_property
    def reach(self) -> Reach:
        """The threads that reach each instruction."""
        return Reach(self.solved)

    def level(self, number: int) -> Level:
        """The level of a value where it is defined: it concerns threads that define it in the same iteration of all enclosing loops."""
        return self.solved.level(number)

    def used(self, number: int, block: int) -> Level:
        """The level of a value where a block reads it: threads that left a loop in different iterations may hold different values."""
        return self.solved.used(number, block)

    def branch(self, block: int) -> Verdict:
        """Whether threads that reach the end of a block take the same path; `Level.GRID` if there is no branch."""
        return self.guard(self._flow.blocks[block].end - 1)

    def guard(self, i: int) -> Verdict:
        """Whether the guard of an instruction is uniform (for `brx.idx`, also its index); `Level.GRID` if there is none."""
        level = self._guard_levels.get(i)
        if level is None:
            level = self._guard_level(i)
            if level < Level.WARP and self._is_alone(self._flow.block_of[i]):
                level = Level.WARP
            self._guard_levels[i] = level
        return Verdict(level, self.assumption if level else "", partial(self._guard_refuted, i, level))

    def _guard_refuted(self, i: int, level: Level) -> Divergence | None:
        if level >= Level.CTA or not enters_whole(self.routine):
            return None
        if i not in self._parted_by_guard:
            self._parted_by_guard[i] = guard_witness(self.solved, self.reach, i)
        return self._parted_by_guard[i]

    def _is_alone(self, block: int) -> bool:
        """Whether at most one thread of each warp ever reaches a block, so that it cannot diverge there."""
        if block not in self._flow.reachable:
            return False
        ever = self.reach.block(block).ever
        return all((ever >> first & WARP_MASK).bit_count() < 2 for first in range(0, self.solved.template.count, WARP))

    def _guard_level(self, i: int) -> Level:
        block = self._flow.block_of[i]
        if self._flow.blocks[block].end - 1 == i and block in self._flow.reachable:
            found = self.solved.branches[block]
            if found < Level.GRID or self._flow.blocks[block].leaves or len(self._flow.blocks[block].successors) > 1:
                return found
        if self.routine.instructions[i].guard is None:
            return Level.GRID
        uses = ssa(self.routine).uses[i]
        return self.solved.used(uses[0], block) if uses else Level.THREAD

    def levels(self) -> tuple[tuple[Level, ...], tuple[Level, ...], tuple[Level, ...]]:
        """All levels at once: of values, of the branch at the end of each block, and of each block."""
        entry = self.context.entry
        levels = tuple(map(self.solved.level, range(len(ssa(self.routine).values))))
        return levels, tuple(self.solved.branches), tuple([min(level, entry) for level in self._staying])

    def point(self, i: int, exits_count: bool = False) -> Verdict:
        """Whether all threads of a group execute instruction `i` if any does, its guard included.

        Threads that have exited count only with `exits_count`. If a verdict is refuted, `refuted.branch` is where the two threads diverge.
        A loop that all threads leave by the same exit, after however many iterations, does not affect what follows it.
        """
        around, guard = self.block(self._flow.block_of[i], exits_count), self.guard(i)
        if self.routine.instructions[i].guard is None or self._ends_block(i):
            return around
        level, assumption = min(around.level, guard.level), around.assumption or guard.assumption
        return Verdict(level, assumption, lambda: around.refuted or guard.refuted)

    def _ends_block(self, i: int) -> bool:
        """Whether it is a branch or an exit: its guard selects the successor, not whether it is executed."""
        block = self._flow.blocks[self._flow.block_of[i]]
        return block.end - 1 == i and (len(block.edges) > 1 or bool(block.leaves))

    def block(self, block: int, exits_count: bool = False) -> Verdict:
        """Whether all threads of a group execute a block if any does."""
        level = min((self._leaving if exits_count else self._staying)[block], self.context.entry)
        return Verdict(level, self.assumption if level else "", partial(self._block_refuted, block, exits_count, level))

    def _block_refuted(self, block: int, exits_count: bool, level: Level) -> Divergence | None:
        if level >= Level.CTA or not enters_whole(self.routine):
            return None
        key = (block, exits_count)
        if key not in self._parted_before_block:
            found = block_witness(self.solved, self.reach, block, exits_count, lambda i: self.guard(i).refuted)
            self._parted_before_block[key] = found
        return self._parted_before_block[key]

    @cached_property
    def _staying(self) -> list[Level]:
        return self.solved.points(staying=True)

    @cached_property
    def _leaving(self) -> list[Level]:
        return self.solved.points(staying=False)

    def threads(self, i: int) -> ThreadSet | None:
        """Exactly the threads of a CTA that execute instruction `i`, its guard included, or None.

        For a device function, these are a subset of its callers' threads: None unless all threads of its kernels call it.
        """
        if not enters_whole(self.routine) or self._flow.block_of[i] not in self._flow.reachable:
            return None
        coming = self.reach.instruction(i)
        if coming.sure != coming.ever:
            return None
        template = self.solved.template
        if not template.has_indices and coming.sure != self.reach.all:
            return None
        return ThreadSet(coming.sure, template.count, template.is_certain, coming.one, template.assumption)

    def sure(self, i: int) -> ThreadSet:
        """Threads that certainly execute instruction `i`; there may be more."""
        template = self.solved.template
        coming = self.reach.instruction(i) if self._flow.block_of[i] in self._flow.reachable else None
        mask = coming.sure if coming is not None and not coming.one and enters_whole(self.routine) else 0
        return ThreadSet(mask, template.count, template.is_certain, False, template.assumption)

    def blame(self, block: int) -> tuple[Step, ...]:
        """The chain from a source of divergence to the branch at the end of a block, source first; empty if the branch is uniform."""
        return blame(self.solved, block)


@fact
def uniformity(routine: Routine) -> Uniformity:
    """The uniformity of a function. For a device function, its callers in the module determine the context; if others may call it,
    nothing does."""
    return Uniformity(routine, context_of(routine))


@fact
def enters_whole(routine: Routine) -> bool:
    """Whether all threads of a CTA certainly enter a function: it is a kernel, or each call of it is executed by all threads of a
    kernel."""
    if routine.function.header.is_entry:
        return True
    sites = calls_of(routine)
    return bool(sites) and not is_recursive(routine) and all(enters_whole(caller) and _all_execute(caller, i) for caller, i in sites or ())


def _all_execute(routine: Routine, i: int) -> bool:
    known = uniformity(routine)
    if control_flow(routine).block_of[i] not in control_flow(routine).reachable:
        return False
    coming = known.reach.instruction(i)
    return coming.sure == known.reach.all and not coming.one
