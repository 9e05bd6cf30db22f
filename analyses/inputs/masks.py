"""Membermasks that no contents of memory decide."""

from __future__ import annotations

from ptxkit.analyses.events.steps import Does, steps
from ptxkit.analyses.framework.routine import Routine, fact


@fact
def with_constant_masks(routine: Routine) -> frozenset[int]:
    """The warp collectives of a function whose membermask is a constant, such as all lanes."""
    joins = {i: step for i, own in steps(routine).items() for step in own if step.does is Does.JOIN}
    return frozenset([i for i, step in joins.items() if step.amount is not None and step.amount.constant is not None])
