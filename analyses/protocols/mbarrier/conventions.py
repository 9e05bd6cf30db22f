"""Mbarrier uses that differ from all others of their kind; they may still be right (9.7.14.15)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from ptxkit.analyses.cfg.graph import control_flow
from ptxkit.analyses.cfg.paths import onward
from ptxkit.analyses.events.steps import Does
from ptxkit.analyses.framework.finding import Finding
from ptxkit.analyses.framework.routine import Routine
from ptxkit.analyses.protocols.mbarrier.arrivals import are_same_threads
from ptxkit.analyses.protocols.mbarrier.kinds import MbarrierFault
from ptxkit.analyses.protocols.mbarrier.usage import Ring, Usage, Use, rings, visits

LEAST_CONVENTION = 3
"""Fewer of a kind have no convention."""


def unlike_others(routine: Routine, known: Usage) -> Iterator[Finding]:
    """What one location does otherwise than all others of its kind."""
    for ring in rings(routine):
        yield from _first_ones(routine, ring)
        yield from _unlike(ring)


def _first_ones(routine: Routine, ring: Ring) -> Iterator[Finding]:
    """First waits of threads at mbarriers of which one is for another parity than those of other threads."""
    own = visits(routine, ring)
    first = [one for one in own if one.parity is not None and not any(_may_precede(routine, other.use, one.use) for other in own)]
    counts = Counter([one.parity for one in first])
    if len(counts) < 2 or min(counts.values()) > 1 or len(first) < LEAST_CONVENTION:
        return
    rare = min(counts, key=lambda parity: counts[parity])
    one = next(one for one in first if one.parity == rare)
    other = next(one for one in first if one.parity != rare)
    message = "the first wait of these threads at the mbarrier is for another parity than that of all others"
    yield Finding(
        one.use.instruction,
        message,
        ((other.use.instruction, "others wait here"),),
        False,
        kind=MbarrierFault.MBARRIER_PARITY,
        is_note=True,
    )


def _may_precede(routine: Routine, one: Use, other: Use) -> bool:
    """Whether a thread may come from one wait to another."""
    if one is other or not are_same_threads(routine, one, other):
        return False
    flow = control_flow(routine)
    mine, its = flow.block_of[one.instruction], flow.block_of[other.instruction]
    return one.instruction < other.instruction if mine == its else bool(onward(routine, one.instruction) >> its & 1)


def _unlike(ring: Ring) -> Iterator[Finding]:
    """A stage of a ring that expects another number of arrivals than all others."""
    inits = [use for use in ring.of(Does.INIT) if use.step.amount is not None and use.step.amount.constant is not None]
    counts = Counter([use.step.amount.constant for use in inits if use.step.amount is not None])
    if not ring.moves or len(counts) != 2 or min(counts.values()) > 1:
        return
    rare = min(counts, key=lambda count: counts[count])
    one = next(use for use in inits if use.step.amount is not None and use.step.amount.constant == rare)
    other = next(use for use in inits if use is not one)
    message = f"this stage of a ring expects {rare} arrivals in each phase, unlike all others"
    yield Finding(
        one.instruction,
        message,
        ((other.instruction, "another stage is initialized here"),),
        False,
        kind=MbarrierFault.MBARRIER_ARRIVE_COUNT,
        is_note=True,
    )
