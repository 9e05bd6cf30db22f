"""The barriers of a CTA and of its cluster as instructions use them: who arrives, who waits, under which number and for how many threads.

What an instruction does to a barrier the table says (9.7.14.1, 9.7.14.3). A barrier of a CTA has a number, 0 to 15; that of the cluster has
none.
"""

from __future__ import annotations

from ptxkit.analyses.cfg.graph import control_flow
from ptxkit.analyses.framework.bindings import such
from ptxkit.analyses.framework.routine import Routine, fact
from ptxkit.analyses.symbolic.terms import Term
from ptxkit.analyses.symbolic.values import values
from ptxkit.frozen import frozen
from ptxkit.isa.binding import BoundOperand


@frozen(eq=False)
class BarrierUse:
    """An instruction that arrives at a barrier or waits at it."""

    instruction: int
    arrives: bool
    waits: bool
    reduces: bool
    """Whether predicates of the threads are combined."""
    id: Term | None
    """The number of the barrier; None for the cluster's, and where nothing can be said."""
    count: Term | None
    """How many threads take part, where the instruction says it."""
    is_counted: bool

    @property
    def number(self) -> int | None:
        """The number of the barrier if it is a constant."""
        return None if self.id is None else self.id.constant

    @property
    def threads(self) -> int | None:
        """How many threads take part if that is a constant; None too where all of the CTA do."""
        found = None if self.count is None else self.count.constant
        return found or None


@frozen(eq=False)
class Barriers:
    """The uses of barriers where control can come, in document order."""

    cta: tuple[BarrierUse, ...]
    cluster: tuple[BarrierUse, ...]


def child_of(routine: Routine, i: int, operand: BoundOperand) -> int:
    """Which child of instruction `i` an operand is."""
    instruction = routine.instructions[i]
    return len(instruction.children) - len(instruction.operands) + operand.path[0]


def term_of(routine: Routine, i: int, operand: BoundOperand | None) -> Term | None:
    """What an operand of instruction `i` holds; None if it is not there or nothing can be said."""
    if operand is None:
        return None
    return values(routine).operand(i, routine.instructions[i].operands[operand.path[0]])


@fact
def barriers(routine: Routine) -> Barriers:
    """The uses of the barriers of the CTA and of the cluster in a function."""
    flow = control_flow(routine)
    cta: list[BarrierUse] = []
    cluster: list[BarrierUse] = []
    for i, bound in such(routine, lambda bound: bound.barrier):
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
