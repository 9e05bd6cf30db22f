"""Upper bound on the bytes of a copy with a tensor map: the expect-tx bytes of a phase of the mbarrier that it signals (9.7.14.15.9)."""

from __future__ import annotations

from ptxkit.analyses.cfg.graph import control_flow
from ptxkit.analyses.events.mbarriers import Where, may_be_same, uses
from ptxkit.analyses.events.steps import Does, steps
from ptxkit.analyses.framework.routine import Routine, fact
from ptxkit.analyses.memory.accesses import accesses
from ptxkit.analyses.protocols.mbarrier.usage import Use, usage
from ptxkit.analyses.symbolic.terms import Term
from ptxkit.analyses.symbolic.values import values


def box_bytes(routine: Routine, copy: int) -> int:
    """Upper bound on the bytes of a copy that signals an mbarrier; 0 if unknown."""
    known = _known(routine)
    if copy not in known:
        known[copy] = _expected(routine, copy) // _together(routine, copy)
    return known[copy]


@fact
def _known(routine: Routine) -> dict[int, int]:
    return {}


def _expected(routine: Routine, copy: int) -> int:
    """Maximum expect-tx bytes of a phase of the mbarrier that a copy signals; 0 if unknown."""
    known = usage(routine)
    locations = [use.where for use in uses(routine) if use.instruction == copy and use.arrives]
    expected, initialized = ([use for use in known.of(does) if _may_be_of(use, locations)] for does in (Does.EXPECT, Does.INIT))
    arriving = {use.instruction for use in known.of(Does.ARRIVE)}
    sizes = [_number(use.step.amount) for use in expected]
    counts = [_number(use.step.amount) for use in initialized]
    if not (locations and sizes and counts and known.is_closed) or any(use.instruction not in arriving for use in expected):
        return 0
    # expecting bytes implies an arrival, so a phase has no more expectations than arrivals
    return max(sizes) * max(counts) if all(sizes) and all(counts) else 0


def _may_be_of(use: Use, locations: list[Where | None]) -> bool:
    return any(use.where is None or location is None or may_be_same(use.where, location) for location in locations)


def _number(term: Term | None) -> int:
    return (term.constant or 0) if term is not None else 0


def _together(routine: Routine, copy: int) -> int:
    """How many copies with the same map, including this one, signal the same phase of the same mbarrier; they follow each other in the
    text."""
    flow = control_flow(routine)
    block = flow.blocks[flow.block_of[copy]]
    key, count = _key(routine, copy), 1
    for path in (range(copy - 1, block.start - 1, -1), range(copy + 1, block.end)) if key is not None else ():
        for i in path:
            own = {step.does for step in steps(routine).get(i, ())}
            if own & {Does.EXPECT, Does.WAIT, Does.ARRIVE}:
                break
            count += Does.COPY in own and _key(routine, i) == key
    return count


def _key(routine: Routine, copy: int) -> tuple[Term | None, ...] | None:
    """The signalled mbarrier, the map and the guard of a copy; None if it has no map, or if the mbarrier is unknown."""
    signalled = [step.address for step in steps(routine).get(copy, ()) if step.does is Does.COPY]
    maps = [access.address for access in accesses(routine) if access.instruction == copy and access.memory.proxy == "tensormap"]
    if len(signalled) != 1 or len(maps) != 1 or None in (*signalled, *maps):
        return None
    return signalled[0], maps[0], values(routine).guard(copy)
