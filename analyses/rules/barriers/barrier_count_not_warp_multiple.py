"""B002 barrier-count-not-warp-multiple."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.framework.rule import Facts, Rule
from ptxkit.analyses.protocols.barriers.operand_values import excess_reports
from ptxkit.diagnostics import Diagnostic, Severity


def check(facts: Facts) -> Iterator[Diagnostic]:
    """Thread counts of barriers, in a register, that are not a multiple of the warp size; or zero for arrivals."""
    yield from excess_reports(
        facts, RULE, lambda bound: bound.threads, "count", lambda operand: f"the thread count must be {operand.limits}"
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
