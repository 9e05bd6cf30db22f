"""Ways through a function: whether control may come from one instruction to another."""

from __future__ import annotations

from ptxkit.analyses.cfg import control_flow
from ptxkit.analyses.routine import Routine, fact


def comes_to(routine: Routine, i: int, other: int) -> bool:
    """Whether a way leads from one instruction to another."""
    flow = control_flow(routine)
    start, end = flow.block_of[i], flow.block_of[other]
    if start == end and i < other:
        return True
    known = _reached(routine)
    if start not in known:
        known[start] = _from(routine, start)
    return end in known[start]


@fact
def _reached(routine: Routine) -> dict[int, frozenset[int]]:
    return {}


def _from(routine: Routine, start: int) -> frozenset[int]:
    flow = control_flow(routine)
    seen: set[int] = set()
    work = list(flow.blocks[start].successors)
    while work:
        at = work.pop()
        if at not in seen:
            seen.add(at)
            work += flow.blocks[at].successors
    return frozenset(seen)
