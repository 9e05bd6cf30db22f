"""R002 dead-store, by request."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit import fixing
from ptxkit.analyses.framework.bindings import bindings
from ptxkit.analyses.framework.rule import Facts, Rule
from ptxkit.analyses.registers.registers import registers
from ptxkit.analyses.registers.ssa import ssa
from ptxkit.diagnostics import Diagnostic, Fix, Severity
from ptxkit.isa.binding import Bound
from ptxkit.isa.mismatch import Mismatch


def check(facts: Facts) -> Iterator[Diagnostic]:
    """Instructions that only write registers that are never read."""
    for routine in facts.routines:
        values, named, bounds = ssa(routine), registers(routine), bindings(routine)
        used = {value for read in values.uses for value in read}
        used.update([operand for value in values.values for operand in value.operands])
        for i, written in enumerate(values.definitions):
            if written and used.isdisjoint(written) and _only_writes(bounds[i]):
                names = ", ".join([f"`{named.table[register].name}`" for register in dict.fromkeys(named.writes[i])])
                where = routine.where(i)
                fix = Fix("remove the instruction", (fixing.remove(facts.index, where),), is_safe=False)
                yield facts.report(RULE, where, f"nothing reads what this writes to {names}", fix=fix)


def _only_writes(bound: Bound | Mismatch) -> bool:
    """Whether an instruction only writes registers, as a plain load does."""
    if isinstance(bound, Mismatch) or not bound.form.modelled:
        return False
    if bound.flow or bound.effects or bound.converges or bound.barrier or bound.asynchronous or bound.completes:
        return False
    return all(memory.access == "read" and not memory.is_async and memory.order in ("", "weak", ".weak") for memory in bound.memory)


RULE = Rule(
    id="R002",
    name="dead-store",
    severity=Severity.INFO,
    summary="a value is written to a register, and nothing reads it",
    why=("It costs nothing in the machine code, since registers are virtual (5.1.1), but often reveals a slip, such as a wrong name."),
    bad="""
        mov.u64 %rd1, 0;
        mov.u32 %r1, 1;
        mov.u32 %r1, 2;
        st.global.u32 [%rd1], %r1;
    """,
    good="""
        mov.u64 %rd1, 0;
        mov.u32 %r1, 1;
        add.u32 %r1, %r1, 2;
        st.global.u32 [%rd1], %r1;
    """,
    proof="Liveness: no path reads the value afterwards.",
    sanitizer="none of its tools looks for this.",
    check=check,
    default=False,
)
