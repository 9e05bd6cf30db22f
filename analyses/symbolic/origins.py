"""Where the value of an operand comes from, for people: the instructions that made it, the nearest first."""

from __future__ import annotations

from ptxkit.analyses.framework.routine import Routine
from ptxkit.analyses.registers.registers import registers
from ptxkit.analyses.registers.ssa import Origin, ssa
from ptxkit.analyses.symbolic.values import values
from ptxkit.syntax import Path

MOST = 4


def origins(routine: Routine, i: int, child: int) -> list[tuple[Path, str]]:
    """The instructions that the registers of an operand of instruction `i` come from, a few, with what each of them holds."""
    named, numbering, known = registers(routine), ssa(routine), values(routine)
    read = set(named.of(i, routine.instructions[i].children[child]))
    work = [number for register, number in zip(named.reads[i], numbering.uses[i], strict=False) if register in read and number >= 0]
    seen = set(work)
    found: list[tuple[Path, str]] = []
    while work and len(found) < MOST:
        number = work.pop(0)
        value = numbering.values[number]
        if value.origin is Origin.WRITE:
            name = named.table[value.register].name
            found.append((routine.where(value.instruction), f"`{name}` is {known.of(number)}"))
        for operand in (*value.operands, *(numbering.uses[value.instruction] if value.origin is Origin.WRITE else ())):
            if operand >= 0 and operand not in seen and known.of(operand).constant is None:
                seen.add(operand)
                work.append(operand)
    return found
