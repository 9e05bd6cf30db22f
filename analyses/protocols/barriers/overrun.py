"""Warps that reach a barrier again after a mere arrival, without having waited in between.

This is independent of other threads: until the barrier completes, a warp that has arrived must not use it again (9.7.14.1).
"""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.cfg.dominators import dominators
from ptxkit.analyses.cfg.graph import control_flow
from ptxkit.analyses.cfg.loops import loops
from ptxkit.analyses.cfg.reachability import closure, nearest_first
from ptxkit.analyses.events.barriers import BarrierUse, barriers
from ptxkit.analyses.framework.bindings import bindings
from ptxkit.analyses.framework.routine import Routine
from ptxkit.analyses.protocols.barriers.named_barriers import arrivals, warps_of
from ptxkit.analyses.symbolic.terms import Term
from ptxkit.analyses.symbolic.values import values
from ptxkit.analyses.uniformity.example_runs import worlds
from ptxkit.analyses.uniformity.levels import Level
from ptxkit.frozen import frozen
from ptxkit.isa.binding import Bound
from ptxkit.isa.mismatch import Mismatch


@frozen
class Overrun:
    """A warp arrives at a barrier at `first`, and uses it again at `second`."""

    first: int
    second: int
    iterates: bool
    """Whether the second use is in the next iteration of a loop."""


def overruns(routine: Routine) -> Iterator[Overrun]:
    """Pairs of uses of a barrier, of which the first only arrives and all paths from it lead directly to the second."""
    flow = control_flow(routine)
    uses = {use.instruction: use for use in barriers(routine).cta}
    for use in uses.values():
        if use.waits or use.id is None:
            continue
        block = flow.block_of[use.instruction]
        found = _next(routine, uses, use, range(use.instruction + 1, flow.blocks[block].end))
        if found is None and not _stops(routine, range(use.instruction + 1, flow.blocks[block].end)):
            found = _after(routine, uses, use, block)
        if found is not None and not _takes_both(routine, use, uses[found.second]):
            yield found


def _takes_both(routine: Routine, first: BarrierUse, second: BarrierUse) -> bool:
    """Whether the barrier is for as many threads as execute all its uses together, so that it takes both arrivals of a warp, the second
    of which waits."""
    if not second.waits or first.threads is None:
        return False
    uses = [(use, warps_of(routine, use)) for use in barriers(routine).cta if use is first or _is_same(first, use)]
    known = [(warps, use.waits) for use, warps in uses if warps is not None and use.threads == first.threads]
    return len(known) == len(uses) and arrivals(known) == first.threads


def _next(routine: Routine, uses: dict[int, BarrierUse], first: BarrierUse, run: range) -> Overrun | None:
    """The next use of the barrier in a run of instructions, if nothing before it may wait."""
    for i in run:
        use = uses.get(i)
        if use is not None and _is_same(first, use) and _comes_along(routine, first.instruction, i):
            return Overrun(first.instruction, i, i <= first.instruction)
        if _may_wait(bindings(routine)[i]):
            return None
    return None


def _stops(routine: Routine, run: range) -> bool:
    return any(_may_wait(bindings(routine)[i]) for i in run)


def _after(routine: Routine, uses: dict[int, BarrierUse], first: BarrierUse, block: int) -> Overrun | None:
    """Like `_next`, after the block: in blocks that certainly follow, or in the next iteration of the loop if that has no waits."""
    flow, post = control_flow(routine), dominators(routine).post

    def onward(at: int) -> tuple[int, ...]:
        return () if at == block or _stops(routine, range(flow.blocks[at].start, flow.blocks[at].end)) else flow.successors(at)

    for at in nearest_first(flow.successors(block), onward):
        if at == block:
            if _iterates(routine, block) and not _stops(routine, range(flow.blocks[at].start, first.instruction)):
                found = _next(routine, uses, first, range(flow.blocks[at].start, first.instruction + 1))
                if found is not None:
                    return found
            continue
        run = range(flow.blocks[at].start, flow.blocks[at].end)
        found = _next(routine, uses, first, run)
        if found is not None and (post.dominates(at, block) or _by_one(routine, found)) and _free_between(routine, block, at):
            return found
    return None


def _iterates(routine: Routine, block: int) -> bool:
    """Whether the loop around a block may iterate more than once, that is, its exits are not known to be taken at once."""
    inner = loops(routine).innermost[block]
    if inner is None:
        return False
    loop = loops(routine).loops[inner]
    for before, to in loops(routine).exits(loop):
        edges = [edge for edge in control_flow(routine).blocks[before].edges if edge.target == to]
        guard = values(routine).guard(control_flow(routine).blocks[before].end - 1)
        if len(edges) == 1 and guard is not None and guard.constant is not None:
            return False
    return True


def _by_one(routine: Routine, overrun: Overrun) -> bool:
    """Whether one thread executes both, for some inputs."""
    if not routine.function.header.is_entry:
        return False
    return any((world.execution(overrun.first) & world.execution(overrun.second)).sure for world in worlds(routine).all(Level.CTA))


def _free_between(routine: Routine, block: int, target: int) -> bool:
    """Whether nothing on any path from one block to another may wait."""
    flow = control_flow(routine)
    leading = closure([target], lambda at: [before for before in flow.predecessors(at) if before != block]) - {target, block}

    def onward(at: int) -> list[int]:
        return [to for to in flow.successors(at) if to in leading]

    return not any(_stops(routine, range(flow.blocks[at].start, flow.blocks[at].end)) for at in closure(onward(block), onward))


def _is_same(first: BarrierUse, second: BarrierUse) -> bool:
    """Whether two uses are certainly of one barrier, both for only some of the threads."""
    if first.id is None or second.id is None:
        return False
    if first.id is second.id and (first.instruction != second.instruction or not _varies(first.id)):
        return first.id.constant is not None or not _varies(first.id)
    return first.number is not None and first.number == second.number


def _varies(id_: Term) -> bool:
    """Whether a barrier number may change in the next iteration."""
    return any(leaf.operator not in ("special", "parameter") for leaf in id_.leaves())


def _comes_along(routine: Routine, first: int, second: int) -> bool:
    """Whether the thread that executes the first executes the second, for two instructions on one path."""
    guard = values(routine).guard(second)
    return guard is None or guard is values(routine).guard(first)


def _may_wait(bound: Bound | Mismatch) -> bool:
    """Whether a thread may wait here for an action of others: at any barrier, or by polling memory."""
    if not isinstance(bound, Bound) or not bound.form.modelled or bound.flow == "call":
        return True
    if any(one.action != "arrive" for one in bound.barrier):
        return True
    return any(memory.access != "write" and memory.order not in ("", "weak") for memory in bound.memory) or bool(bound.asynchronous)
