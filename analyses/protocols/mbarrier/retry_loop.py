"""The fix for a time-limited wait: a loop around it (9.7.14.15)."""

from __future__ import annotations

from ptxkit.analyses.framework.bindings import bindings
from ptxkit.analyses.framework.routine import Routine
from ptxkit.analyses.framework.rule import Facts
from ptxkit.analyses.registers.registers import registers
from ptxkit.diagnostics import Edit, Fix
from ptxkit.isa.binding import Bound


def retry(facts: Facts, routine: Routine, i: int) -> Fix | None:
    """Repeats instruction `i` until the predicate that it writes holds. None if it has a guard, or writes anything else.

    This is safe if the instruction only tests a condition that the program relies on, since the program cannot continue earlier.
    """
    instruction, bound = routine.instructions[i], bindings(routine)[i]
    written = [registers(routine).table[register] for register in registers(routine).writes[i]]
    if instruction.guard is not None or not isinstance(bound, Bound) or len(written) != 1 or written[0].bits != 1:
        return None
    if registers(routine).writes[i][0] in registers(routine).reads[i]:
        return None
    text = facts.index.text
    span = facts.index.span(routine.where(i))
    margin = text[text.rfind("\n", 0, span.start) + 1 : span.start]
    line = f"\n{margin}" if not margin.strip() else " "
    label = f"$retry_{i}"
    while label in text:
        label += "_"
    edits = (Edit(span.start, span.start, f"{label}:{line}"), Edit(span.end, span.end, f"{line}@!{written[0].name} bra {label};"))
    return Fix("retry until the phase has completed", edits)
