"""Broadcasts: values that one lane of a warp gives to all others (9.7.10.6)."""

from __future__ import annotations

from ptxkit.analyses.framework.bindings import bindings
from ptxkit.analyses.framework.routine import Routine, fact
from ptxkit.analyses.registers.ssa import Origin, ssa
from ptxkit.analyses.symbolic.terms import Term
from ptxkit.analyses.symbolic.values import values
from ptxkit.analyses.uniformity.transfer import How, transfer
from ptxkit.isa.binding import Bound


class HandedOut:
    """The broadcasts of a function."""

    def __init__(self, routine: Routine) -> None:
        self._routine = routine
        self._found: dict[int, tuple[Term, int] | None] = {}

    def of(self, leaf: Term) -> tuple[Term, int] | None:
        """For a value that one lane of the warp broadcasts: the term of the lane's value, and the lane."""
        number = leaf.ssa_value
        if number is None:
            return None
        if number not in self._found:
            self._found[number] = self._of(number)
        return self._found[number]

    def _of(self, number: int) -> tuple[Term, int] | None:
        known, numbering = values(self._routine), ssa(self._routine)
        value = numbering.values[number]
        if value.origin is not Origin.WRITE or value.operands:
            return None
        i = value.instruction
        bound = bindings(self._routine)[i]
        if not isinstance(bound, Bound) or number != numbering.definitions[i][0]:
            return None
        plan = transfer(bound)
        if plan.outputs[0][0] is not How.BROADCAST or plan.source < 0 or not is_whole_warp(self._routine, i, bound):
            return None
        lane = bound.operand("b")
        uses = numbering.uses[i]
        term = None if lane is None else known.operand(i, self._routine.instructions[i].operands[lane.path[0]])
        if term is None or term.constant is None or plan.source >= len(uses) or uses[plan.source] < 0:
            return None
        return known.of(uses[plan.source]), term.constant & 31


@fact
def handed_out(routine: Routine) -> HandedOut:
    """The broadcasts of a function."""
    return HandedOut(routine)


def is_whole_warp(routine: Routine, i: int, bound: Bound) -> bool:
    """Whether lanes are counted over the whole warp: bits 8 to 12 of the segment operand are zero."""
    clamp = bound.operand("c")
    value = None if clamp is None else values(routine).operand(i, routine.instructions[i].operands[clamp.path[0]])
    return value is not None and value.constant is not None and not value.constant >> 8 & 31
