"""The origin of an operand's value, for messages: the instructions that computed it, nearest first."""

from __future__ import annotations

from itertools import islice

from ptxkit.analyses.cfg.reachability import nearest_first
from ptxkit.analyses.framework.routine import Routine
from ptxkit.analyses.registers.registers import registers
from ptxkit.analyses.registers.ssa import Origin, ssa
from ptxkit.analyses.symbolic.values import values
from ptxkit.syntax import Path

MOST = 4


def origins(routine: Routine, i: int, child: int) -> list[tuple[Path, str]]:
    """A few of the instructions that computed the registers of an operand of instruction `i`, each with its value."""
    named, numbering, known = registers(routine), ssa(routine), values(routine)
    read = set(named.of(i, routine.instructions[i].children[child]))
    used = [number for register, number in zip(named.reads[i], numbering.uses[i], strict=False) if register in read and number >= 0]

    def sources(number: int) -> list[int]:
        value = numbering.values[number]
        operands = (*value.operands, *(numbering.uses[value.instruction] if value.origin is Origin.WRITE else ()))
        return [operand for operand in operands if operand >= 0 and known.of(operand).constant is None]

    written = (number for number in nearest_first(used, sources) if numbering.values[number].origin is Origin.WRITE)
    found: list[tuple[Path, str]] = []
    for number in islice(written, MOST):
        value = numbering.values[number]
        found.append((routine.where(value.instruction), f"`{named.table[value.register].name}` is {known.of(number)}"))
    return found
