"""R009 redundant-conversion, by request."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit import fixing
from ptxkit.analyses.framework.bindings import bindings
from ptxkit.analyses.framework.routine import Routine
from ptxkit.analyses.framework.rule import Facts, Rule
from ptxkit.diagnostics import Diagnostic, Fix, Severity
from ptxkit.isa.binding import Bound
from ptxkit.isa.types import types

INTEGERS = ("signed", "unsigned")
SIZES = (16, 32, 64)


def check(facts: Facts) -> Iterator[Diagnostic]:
    """Conversions between types with the same representation."""
    for routine in facts.routines:
        for i, bound in enumerate(bindings(routine)):
            if isinstance(bound, Bound) and (bits := _same(bound)):
                yield facts.report(RULE, routine.where(i), "this conversion changes no bits", fix=_fix(facts, routine, i, bits))


def _same(bound: Bound) -> int:
    """The number of bits if an integer conversion and its registers have the same width throughout; otherwise 0."""
    to, source = types().get(bound.slot(".dtype")), types().get(bound.slot(".atype"))
    if to is None or source is None or to.kind not in INTEGERS or source.kind not in INTEGERS or len(bound.operands) != 2:
        return 0
    if to.bits != source.bits or to.bits not in SIZES or bound.has(".sat"):
        return 0
    for operand in bound.operands:
        register = types().get(operand.shape.type) if operand.shape.kind == "register" and operand.shape.count == 1 else None
        if register is None or register.bits != to.bits:
            return 0
    return to.bits


def _fix(facts: Facts, routine: Routine, i: int, bits: int) -> Fix:
    """Replaces the conversion by a move."""
    instruction = routine.instructions[i]
    at = (*routine.where(i), instruction.children.index(instruction.opcode))
    return Fix(f"make it `mov.b{bits}`", (fixing.replace(facts.index, at, f"mov.b{bits}"),))


RULE = Rule(
    id="R009",
    name="redundant-conversion",
    severity=Severity.INFO,
    summary="a conversion that changes no bit",
    why=(
        "Between a signed and an unsigned integer of one size there is nothing to convert (9.7.10.20). It costs no machine code, "
        "but a reader looks for a reason; often another type was meant."
    ),
    bad="""
        mov.u64 %rd2, 0;
        cvt.u32.s32 %r1, %r2;
        st.global.u32 [%rd2], %r1;
    """,
    good="""
        mov.u64 %rd2, 0;
        cvt.u64.s32 %rd1, %r2;
        st.global.u64 [%rd2], %rd1;
    """,
    proof="Both types have the same bits.",
    sanitizer="none of its tools looks for this.",
    check=check,
    default=False,
)
