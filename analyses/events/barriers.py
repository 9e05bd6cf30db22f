"""Uses of CTA and cluster barriers: which instructions arrive, which wait, the barrier number, and the thread count.

The effect of an instruction on a barrier comes from the table (9.7.14.1, 9.7.14.3). A CTA barrier has a number from 0 to 15; the cluster
barrier has none.
"""

from __future__ import annotations

from ptxkit.analyses.cfg.graph import control_flow
from ptxkit.analyses.framework.bindings import matching
from ptxkit.analyses.framework.routine import Routine, fact
from ptxkit.analyses.symbolic.terms import Term
from ptxkit.analyses.symbolic.values import values
from ptxkit.frozen import frozen
from ptxkit.isa.binding import BoundOperand


@frozen(eq=False)
class BarrierUse:
    """An instruction that arrives or waits at a barrier."""

    instruction: int
    arrives: bool
    waits: bool
    reduces: bool
    """Whether it reduces predicates across the threads."""
    id: Term | None
    """The barrier number; None for the cluster barrier, or if unknown."""
    count: Term | None
    """The number of participating threads, if the instruction gives it."""
    is_counted: bool

    @property
    def number(self) -> int | None:
        """The barrier number, if constant."""
        return None if self.id is None else self.id.constant

    @property
    def threads(self) -> int | None:
        """The number of participating threads, if constant; None also if all threads of the CTA participate."""
        found = None if self.count is None else self.count.constant
        return found or None


@frozen(eq=False)
class Barriers:
    """The reachable uses of barriers, in document order."""

    cta: tuple[BarrierUse, ...]
    cluster: tuple[BarrierUse, ...]


def child_of(routine: Routine, i: int, operand: BoundOperand) -> int:
    """The child index of an operand of instruction `i`."""
    instruction = routine.instructions[i]
    return len(instruction.children) - len(instruction.operands) + operand.path[0]


def term_of(routine: Routine, i: int, operand: BoundOperand | None) -> Term | None:
    """The value of an operand of instruction `i`; None if it is absent or unknown."""
    if operand is None:
        return None
    return values(routine).operand(i, routine.instructions[i].operands[operand.path[0]])


@fact
def barriers(routine: Routine) -> Barriers:
    """The uses of CTA and cluster barriers in a function."""
    flow = control_flow(routine)
    cta: list[BarrierUse] = []
    cluster: list[BarrierUse] = []
    for i, bound in matching(routine, lambda bound: bound.barrier):
        if flow.block_of[i] not in flow.reachable:
            continue
        name = bound.barrier[0].operand
        operand = bound.operand(name)
        if bound.members is not None or (operand is not None and operand.role == "addr"):
            continue
        actions = {one.action for one in bound.barrier}
        use = BarrierUse(
            i,
            "arrive" in actions,
            "wait" in actions,
            "reduce" in actions,
            term_of(routine, i, operand),
            term_of(routine, i, bound.threads),
            bound.threads is not None,
        )
        (cta if name else cluster).append(use)
    return Barriers(tuple(cta), tuple(cluster))
