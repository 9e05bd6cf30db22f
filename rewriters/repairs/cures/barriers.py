"""Missing barriers between two accesses."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.cfg.paths import comes_to
from ptxkit.analyses.events.mbarriers import mbarrier_operand
from ptxkit.analyses.uniformity.levels import Level
from ptxkit.isa.binding import Bound
from ptxkit.rewriters.repairs.candidate import BARRIER, WARP_BARRIER, Candidate, insertion
from ptxkit.rewriters.repairs.points import Point, between, is_loud, synchronizes
from ptxkit.rewriters.repairs.trouble import Trouble

OF_ALL_LANES = "bar.warp.sync 0xffffffff;"
OF_THE_CTA = "bar.sync 0;"
FAMILIES = "SAMTG"
"""Rules about the order of two threads."""


def inserted(trouble: Trouble) -> Iterator[Candidate]:
    """A warp or CTA barrier on every path from one access to the other (9.7.14.1, 9.7.14.2)."""
    if trouble.family not in FAMILIES or trouble.is_of_a_thread or not _is_of_two(trouble):
        return
    if trouble.is_of_a_warp and trouble.knows_warps:
        for point in trouble.common(Level.WARP):
            yield insertion(trouble, point, WARP_BARRIER, OF_ALL_LANES)
    for point in _before_arrivals(trouble) if trouble.knows_warps else ():
        yield insertion(trouble, point, WARP_BARRIER, OF_ALL_LANES)
    for point in trouble.common(Level.CTA, _waits if trouble.family == "A" else is_loud):
        yield insertion(trouble, point, BARRIER, OF_THE_CTA)


def _waits(bound: Bound) -> bool:
    """Whether it matters to a barrier that follows copies on which side of an instruction it is."""
    return bool(bound.barrier) or any(one.action == "wait" for one in bound.asynchronous)


def _is_of_two(trouble: Trouble) -> bool:
    """Whether the finding concerns two accesses, one of them a write; without execution, whether both instructions access memory."""
    if trouble.witnesses:
        return trouble.witnessed > 0 or bool(trouble.accesses)
    bounds = [bound for pair in trouble.pairs[:1] for i in pair if (bound := trouble.bound(i)) is not None]
    return len(bounds) == 2 and all(bound.memory or synchronizes(bound) for bound in bounds)


def _before_arrivals(trouble: Trouble) -> list[Point]:
    """Points between an access and an arrival by which one lane signals that its warp has made it."""
    arrivals = trouble.matching(lambda bound: any(one.action == "arrive" for one in bound.barrier) and mbarrier_operand(bound) is not None)
    firsts = [first for first, _ in trouble.pairs] or [i for i in trouble.instructions if i not in arrivals]
    found = []
    ends = {last for _, last in trouble.pairs[: trouble.witnessed]}
    for arrival in arrivals if not ends.intersection(arrivals) else ():
        for first in dict.fromkeys([*firsts, *trouble.instructions]):
            if first not in arrivals and trouble.family in "MS" and comes_to(trouble.routine, first, arrival):
                found.append(between(trouble.routine, first, arrival, Level.WARP))
    common = [point for point in found[0] if all(point in other for other in found)] if found else []
    return common or list(dict.fromkeys([point for own in found[:2] for point in own]))
