"""Instructions that every thread executes, or that it executes all or none of, for any contents of memory that were not supplied.

A race that only some contents show may be the fault of these contents: they send threads where real data do not, or to addresses that real
data keep apart. It is the kernel's if both addresses are independent of contents and one of the two accesses is always executed: then
contents decide only whether the other thread takes part in the race.
"""

from __future__ import annotations

from collections.abc import Sequence, Set

from ptxkit.analyses.cfg.dominators import dominators
from ptxkit.analyses.cfg.graph import control_flow
from ptxkit.analyses.framework.routine import Routine
from ptxkit.syntax import Path


def is_certain(routine: Routine, i: int, deciding: Set[Path]) -> bool:
    """Whether contents have no say in which threads execute instruction `i` of a kernel: neither the instruction nor a branch on which it
    depends is at one of the paths `deciding`. False in functions that a kernel calls."""
    return routine.function.header.is_entry and routine.where(i) not in deciding and not _decided_by(routine, i, deciding)


def are_together(places: Sequence[tuple[Routine, int]], deciding: Set[Path]) -> bool:
    """Whether contents send each thread of a kernel to all of these instructions or to none: the same branches at the paths `deciding`
    decide about each. False in functions that a kernel calls."""
    if not all(routine.function.header.is_entry and routine.where(i) not in deciding for routine, i in places):
        return False
    return len({_decided_by(routine, i, deciding) for routine, i in places}) == 1


def _decided_by(routine: Routine, i: int, deciding: Set[Path]) -> frozenset[Path]:
    """The branches at the paths `deciding` on which it depends whether instruction `i` is executed."""
    flow = control_flow(routine)
    before = dominators(routine).post.decide(flow.block_of[i])
    return frozenset([routine.where(flow.blocks[block].end - 1) for block in before]) & deciding
