"""B002 barrier-count-not-warp-multiple."""

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
    """Thread counts of barriers, in a register, that are not a multiple of the warp size; or zero for arrivals."""
    for routine in facts.routines:
        for use in barriers(routine).cta:
            i = use.instruction
            bound = bindings(routine)[i]
            operand = bound.threads if isinstance(bound, Bound) else None
            found = excess(routine, i, operand) if operand is not None else None
            if operand is None or found is None:
                continue
            child = child_of(routine, i, operand)
            yield facts.report(
                RULE,
                (*routine.where(i), child),
                f"the number of threads must be {operand.limits}; {found.found}",
                *([f"the count is {found.term}"] if found.term.constant is None else []),
                "ptxas checks only counts that are constants",
                related=origins(routine, i, child),
                severity=Severity.ERROR if found.is_certain else Severity.WARNING,
            )


RULE = Rule(
    id="B002",
    name="barrier-count-not-warp-multiple",
    severity=Severity.ERROR,
    summary="a thread count of a barrier, in a register, that is not a multiple of 32, or is 0 for an arrival",
    why=(
        "Barriers count whole warps, and an arrival must say how many threads take part (9.7.14.1); ptxas checks only counts that "
        "are constants."
    ),
    bad="""
        mov.u32 %r1, 48;
        bar.sync 1, %r1;
    """,
    good="""
        mov.u32 %r1, 64;
        bar.sync 1, %r1;
    """,
    proof="The value of the operand, or which bits it can have, follows from the code for a thread that executes it.",
    sanitizer="synccheck reports invalid arguments of barriers if a run reaches it.",
    check=check,
)
