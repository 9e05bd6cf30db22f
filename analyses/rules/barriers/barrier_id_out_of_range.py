"""B001 barrier-id-out-of-range."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.framework.rule import Facts, Rule
from ptxkit.analyses.protocols.barriers.operand_values import excess_reports
from ptxkit.diagnostics import Diagnostic, Severity


def check(facts: Facts) -> Iterator[Diagnostic]:
    """Barrier numbers, in a register, that are out of range."""
    yield from excess_reports(
        facts, RULE, lambda bound: bound.operand(bound.barrier[0].operand), "number", lambda _: "a CTA has barriers 0 to 15"
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
