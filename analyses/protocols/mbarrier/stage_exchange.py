"""Pairs of rings of which one signals full stages and the other free ones: loops that acquire stages and never release them (9.7.14.15)."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.cfg.dominators import dominators
from ptxkit.analyses.cfg.graph import Via, control_flow
from ptxkit.analyses.cfg.loops import Loop, loops
from ptxkit.analyses.cfg.paths import onward
from ptxkit.analyses.events.steps import Does, steps
from ptxkit.analyses.framework.finding import Finding
from ptxkit.analyses.framework.routine import Routine
from ptxkit.analyses.protocols.mbarrier.arrivals import arrivals_besides, threads_at
from ptxkit.analyses.protocols.mbarrier.kinds import MbarrierFault
from ptxkit.analyses.protocols.mbarrier.usage import Ring, Usage, Use, rings
from ptxkit.analyses.registers.ssa import ssa
from ptxkit.analyses.symbolic.induction import rounds
from ptxkit.analyses.symbolic.terms import Term
from ptxkit.analyses.symbolic.values import values

_WAITING = frozenset((Does.BARRIER_SYNC, Does.CLUSTER_WAIT, Does.WAIT, Does.TAKE))


def stages_kept(routine: Routine, known: Usage) -> Iterator[Finding]:
    """Loops in which threads wait for successive stages and never release them, although a release is needed."""
    if not known.is_closed:
        return
    for filled, freed in _pairs(routine):
        sites = [use for use in (*freed.uses, *freed.others) if use.does is Does.ARRIVE]
        for wait in filled.of(Does.WAIT):
            loop = _iteration_of(routine, wait)
            if loop is None or not wait.step.is_spinning or any(_is_in(routine, site, loop) for site in sites):
                continue
            if not _is_needed(routine, freed, wait):
                continue
            refill = next((use for use in freed.of(Does.WAIT)), None)
            message = "threads wait here for one stage after another, but release none: the thread that fills them deadlocks"
            steps_ = [(refill.instruction, "waits until a stage was released")] if refill is not None else []
            steps_ += [(site.instruction, "released here, after the loop or elsewhere") for site in sites[:1]]
            yield Finding(wait.instruction, message, tuple(steps_), False, kind=MbarrierFault.WAIT_NEVER_ARRIVED)
            return


def stages_not_asked_for(routine: Routine, known: Usage) -> Iterator[Finding]:
    """Loops in which threads arrive for successive stages and wait for nothing."""
    waiting = {i for i, own in steps(routine).items() if any(step.does in _WAITING for step in own)}
    flow = control_flow(routine)
    for filled, freed in _pairs(routine):
        for ring, other in ((filled, freed), (freed, filled)):
            for use in ring.of(Does.ARRIVE):
                loop = _iteration_of(routine, use)
                if loop is None or any(flow.block_of[i] in loop for i in waiting):
                    continue
                asked = next(iter(other.of(Does.WAIT)), None)
                message = (
                    "threads arrive here for one stage after another without ever waiting: they cannot know when a stage is free again"
                )
                steps_ = ((asked.instruction, "others wait for such a stage here"),) if asked is not None else ()
                yield Finding(use.instruction, message, steps_, False, kind=MbarrierFault.SLOT_RELEASED_BEFORE_LAST_READ)
                return


def _is_needed(routine: Routine, ring: Ring, wait: Use) -> bool:
    """Whether no phase of a ring can complete without the threads that execute a wait."""
    counts = {use.step.amount.constant for use in ring.of(Does.INIT) if use.step.amount is not None}
    count = counts.pop() if len(counts) == 1 else None
    sites = [use for use in (*ring.uses, *ring.others) if use.does is Does.ARRIVE]
    waiting = threads_at(routine, wait)
    if count is None or waiting is None or any(site.is_remote or site.step.is_multicast for site in sites):
        return False
    others = [arrivals_besides(routine, site, waiting) for site in sites]
    return None not in others and count > sum(one for one in others if one is not None)


def _pairs(routine: Routine) -> list[tuple[Ring, Ring]]:
    """Pairs of rings with the same index: threads wait at a stage of the first and arrive at the same stage of the second."""
    found = []
    for one in rings(routine):
        waited = {use.index for use in one.of(Does.WAIT) if use.iterates and use.step.is_spinning}
        for other in rings(routine):
            if one is not other and len(one.offsets) == len(other.offsets) and any(use.index in waited for use in other.of(Does.ARRIVE)):
                found.append((one, other))
    return found


def _iteration_of(routine: Routine, use: Use) -> Loop | None:
    """The loop that iterates the stage of a use; None unless it is a single loop without a known bound."""
    if not use.iterates or use.index is None:
        return None
    forest = loops(routine)
    phis = {leaf.ssa_value for leaf in use.index.leaves()}
    index = forest.innermost[control_flow(routine).block_of[use.instruction]]
    while index is not None:
        loop = forest.loops[index]
        own = set(ssa(routine).phis[loop.header])
        if phis & own:
            return loop if phis <= own else None
        index = loop.parent
    return None


def _is_in(routine: Routine, use: Use, loop: Loop) -> bool:
    return control_flow(routine).block_of[use.instruction] in loop


def waits_left_out(routine: Routine, known: Usage) -> Iterator[Finding]:
    """Waits that are skipped in the first iteration of a loop unconditionally, although the stage was used before the loop."""
    flow, both, terms = control_flow(routine), dominators(routine), values(routine).terms
    for ring in rings(routine):
        for wait in ring.of(Does.WAIT):
            loop = _iteration_of(routine, wait)
            if loop is None or wait.index is None or not wait.step.is_spinning or not _comes_used(routine, wait.index, loop):
                continue
            home = flow.block_of[wait.instruction]
            for block in both.depends_on(home):
                guard = values(routine).guard(flow.blocks[block].end - 1)
                if block not in loop or block == home or guard is None:
                    continue
                edges = [edge for edge in flow.blocks[block].edges if both.tree.dominates(edge.target, home)]
                if len(edges) != 1 or edges[0].via not in (Via.TAKEN, Via.NOT_TAKEN):
                    continue
                asked = guard if edges[0].via is not Via.NOT_TAKEN else terms.invert(guard)
                taken = {value for _, _, value in rounds(routine).first(wait.index, asked)}
                if taken != {0} or not any(leaf.operator == "phi" for leaf in asked.leaves()):
                    continue
                if any(other is not wait and _leads_to(routine, other, loop) for other in ring.of(Does.WAIT)):
                    continue
                message = "all paths skip this wait in the first iteration of the loop, and no other wait covers the stage"
                rule = MbarrierFault.ASYNC_DATA_READ_WITHOUT_WAIT if ring.of(Does.COPY) else MbarrierFault.SLOT_RELEASED_BEFORE_LAST_READ
                branch = flow.blocks[block].end - 1
                yield Finding(wait.instruction, message, ((branch, "skipped by this branch"),), False, kind=rule)
                return


def _leads_to(routine: Routine, use: Use, loop: Loop) -> bool:
    """Whether threads reach a loop from a use outside it, without iterating another loop."""
    return not _is_in(routine, use, loop) and bool(onward(routine, use.instruction) >> loop.header & 1)


def _comes_used(routine: Routine, index: Term, loop: Loop) -> bool:
    """Whether the first stage of a loop depends on what precedes the loop."""
    flow, numbering = control_flow(routine), ssa(routine)
    dominates = dominators(routine).tree.dominates
    for leaf in index.leaves():
        number = leaf.ssa_value
        if not isinstance(number, int) or number not in numbering.phis[loop.header]:
            return False
        for before, operand in zip(flow.blocks[loop.header].predecessors, numbering.values[number].operands, strict=False):
            if not dominates(loop.header, before) and operand >= 0 and values(routine).of(operand).constant is None:
                return True
    return False
