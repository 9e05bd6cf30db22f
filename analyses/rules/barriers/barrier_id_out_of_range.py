"""B001 barrier-id-out-of-range."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.events.barriers import barriers, child_of
from ptxkit.analyses.framework.bindings import bindings
from ptxkit.analyses.framework.rule import Facts, Rule
from ptxkit.analyses.protocols.barriers.operand_values import excess
from ptxkit.analyses.symbolic.origins import origins
from ptxkit.diagnostics import Diagnostic, Severity
from ptxkit.isa.binding import Bound


def check(facts: Facts) -> Iterator[Diagnostic]:
    """Barrier numbers, in a register, that are out of range."""
    for routine in facts.routines:
        for use in barriers(routine).cta:
            i = use.instruction
            bound = bindings(routine)[i]
            operand = bound.operand(bound.barrier[0].operand) if isinstance(bound, Bound) else None
            found = excess(routine, i, operand) if operand is not None else None
            if operand is None or found is None:
                continue
            child = child_of(routine, i, operand)
            yield facts.report(
                RULE,
                (*routine.where(i), child),
                f"a CTA has barriers 0 to 15; {found.found}",
                *([f"the number is {found.term}"] if found.term.constant is None else []),
                "ptxas checks only numbers that are constants",
                related=origins(routine, i, child),
                severity=Severity.ERROR if found.is_certain else Severity.WARNING,
            )


RULE = Rule(
    id="B001",
    name="barrier-id-out-of-range",
    severity=Severity.ERROR,
    summary="a barrier number above 15 in a register",
    why="A CTA has sixteen barriers, 0 to 15 (9.7.14.1); ptxas refuses other numbers only if they are constants.",
    bad="""
        mov.u32 %r1, 16;
        bar.sync %r1;
    """,
    good="""
        mov.u32 %r1, 15;
        bar.sync %r1;
    """,
    proof="The value of the operand, or which bits it can have, follows from the code for a thread that executes it.",
    sanitizer="synccheck reports invalid arguments of barriers if a run reaches it.",
    check=check,
)
