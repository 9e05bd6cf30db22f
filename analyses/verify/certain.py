"""Which contents of memory that were not supplied decide whether a thread executes an instruction.

A race that only some contents show may be the fault of these contents: they send threads where real data do not, or to addresses that
real data keep apart. It is the kernel's if both addresses are independent of contents and each thread that executes one access also
executes the other: then only data that let a single thread through would keep the kernel free of the race, and none do if all threads
execute one access.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Set

from ptxkit.analyses.cfg.dominators import dominators
from ptxkit.analyses.cfg.graph import control_flow
from ptxkit.analyses.framework.routine import Routine
from ptxkit.syntax import Path

Decisions = frozenset[Path]


def decisions(routine: Routine, i: int, deciding: Set[Path]) -> Decisions:
    """Those of the paths `deciding` at which contents decide whether a thread of a kernel executes instruction `i`: the branches on which
    it depends, and its own guard. Without any, contents have no say."""
    flow = control_flow(routine)
    before = [flow.blocks[block].end - 1 for block in dominators(routine).post.decide(flow.block_of[i])]
    return frozenset([routine.where(at) for at in (*before, i)]) & deciding


def are_nested(several: Iterable[Decisions]) -> bool:
    """Whether of any two instructions with these decisions, a thread that executes one executes the other, too."""
    inner = sorted(several, key=len)
    return all(one <= other for one, other in itertools.pairwise(inner))
