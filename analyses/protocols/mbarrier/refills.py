"""The mbarrier that a thread waits for before it refills a location in shared memory; an arrival there releases the location (9.7.14.15).

A thread that fills a ring of stages waits until a stage is free, then starts the copies into it. Stage and mbarrier are selected by the
same index, or are both given in the text.
"""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.cfg.dominators import dominators
from ptxkit.analyses.cfg.graph import control_flow
from ptxkit.analyses.events.mbarriers import guarded
from ptxkit.analyses.events.steps import LEAST_BYTES, Does
from ptxkit.analyses.framework.routine import Routine, fact
from ptxkit.analyses.memory.address import Address
from ptxkit.analyses.memory.regions import Region, regions
from ptxkit.analyses.protocols.mbarrier.usage import Location, Ring, Use, address_parts, rings, usage
from ptxkit.analyses.symbolic.environment import Evaluator, settler
from ptxkit.analyses.symbolic.induction import rounds
from ptxkit.analyses.symbolic.terms import Term
from ptxkit.analyses.symbolic.thread_block import thread_block_of
from ptxkit.analyses.symbolic.values import values
from ptxkit.frozen import frozen


@frozen(eq=False)
class Refill:
    """A location that a copy fills, and the mbarrier that signals when it is free."""

    copy: int
    region: Region
    """The first bytes of the location."""
    wait: int
    location: Location
    is_multicast: bool
    """Whether the copy fills it in several CTAs of the cluster."""


@fact
def refills(routine: Routine) -> tuple[Refill, ...]:
    """The refills of a kernel by copies through the async proxy, for each stage; only those that wait at a single mbarrier or ring of
    mbarriers."""
    return tuple(_refills(routine)) if usage(routine).is_closed else ()


def _refills(routine: Routine) -> Iterator[Refill]:
    for ring in rings(routine):
        for copy in ring.of(Does.COPY):
            wait = _asked(routine, ring, copy) if copy.step.target is not None and not copy.is_remote else None
            if wait is None or wait.step.address is None or copy.step.target is None:
                continue
            (base, offset), index = address_parts(routine, settler(routine).term(guarded(routine, wait.instruction, wait.step.address)))
            for target, stage_offset in _stages(routine, settler(routine).term(copy.step.target), index):
                region = regions(routine).region(target, LEAST_BYTES, thread_block_of(routine).everyone)
                if region is not None:
                    yield Refill(copy.instruction, region, wait.instruction, Address(base, offset + stage_offset), copy.step.is_multicast)


def _asked(routine: Routine, ring: Ring, copy: Use) -> Use | None:
    """The wait at another mbarrier before a copy; None if there are waits at several."""
    others = [(other, wait) for other in rings(routine) if other is not ring for wait in other.of(Does.WAIT)]
    if copy.iterates:
        found = [(other, wait) for other, wait in others if wait.iterates and wait.index is copy.index]
    else:
        found = [(other, wait) for other, wait in others if wait.is_fixed and _comes_before(routine, wait, copy)][-1:]
    return found[0][1] if len({id(other) for other, _ in found}) == 1 else None


def _comes_before(routine: Routine, wait: Use, copy: Use) -> bool:
    """Whether control reaches a copy only through a wait."""
    flow = control_flow(routine)
    home, goal = flow.block_of[wait.instruction], flow.block_of[copy.instruction]
    return wait.instruction < copy.instruction and (home == goal or dominators(routine).tree.dominates(home, goal))


def _stages(routine: Routine, target: Term, index: Term) -> Iterator[tuple[Term, int]]:
    """For each stage, the destination of a copy, and the offset of the mbarrier in its array."""
    leaves = {leaf for term in (target, index) for leaf in term.leaves() if leaf.operator == "phi"}
    if not leaves:
        if index.constant is not None:
            yield target, index.constant
        return
    leaf = leaves.pop()
    if leaves or leaf.ssa_value is None:
        return
    evaluator = Evaluator(routine, (target, index))
    for number in sorted(rounds(routine).numbers(leaf)):
        at = {leaf.ssa_value: values(routine).terms.constant(number, leaf.width)}
        stage_offset = evaluator.term(index, at).constant
        if stage_offset is not None:
            yield evaluator.term(target, at), stage_offset
