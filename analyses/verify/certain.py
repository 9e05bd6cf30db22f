"""Instructions that every thread executes, for any contents of memory that were not supplied.

A race that only some contents show may be the fault of these contents: they send threads where real data do not, or to addresses that real
data keep apart. It is the kernel's if both addresses are independent of contents and one of the two accesses is always executed: then
contents decide only whether the other thread takes part in the race.
"""

from __future__ import annotations

from collections.abc import Set

from ptxkit.analyses.cfg.dominators import dominators
from ptxkit.analyses.cfg.graph import control_flow
from ptxkit.analyses.framework.routine import Routine
from ptxkit.syntax import Path


def is_certain(routine: Routine, i: int, deciding: Set[Path]) -> bool:
    """Whether contents have no say in which threads execute instruction `i` of a kernel: neither the instruction nor a branch on which it
    depends is at one of the paths `deciding`. False in functions that a kernel calls."""
    if not routine.function.header.is_entry or routine.where(i) in deciding:
        return False
    flow = control_flow(routine)
    before = dominators(routine).post.decide(flow.block_of[i])
    return not any(routine.where(flow.blocks[block].end - 1) in deciding for block in before)
