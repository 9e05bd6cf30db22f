"""M013 mbarrier-count-range."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.framework.reporting import reports
from ptxkit.analyses.framework.rule import Facts, Rule
from ptxkit.analyses.protocols.mbarrier.kinds import MbarrierFault
from ptxkit.analyses.protocols.mbarrier.operands import findings
from ptxkit.diagnostics import Diagnostic, Severity


def check(facts: Facts) -> Iterator[Diagnostic]:
    """Counts of 0, or above the maximum of an mbarrier."""
    return reports(facts, RULE, findings)


RULE = Rule(
    id="M013",
    name="mbarrier-count-range",
    severity=Severity.ERROR,
    kind=MbarrierFault.MBARRIER_COUNT_RANGE,
    summary="an mbarrier is initialized for an impossible number of arrivals",
    why="The count of an mbarrier is from 1 to 2^20 - 1 (9.7.14.15.2).",
    bad="""
        .shared .align 8 .b64 bar;
        mov.u32 %r1, bar;
        mov.u32 %r2, 0;
        mbarrier.init.shared.b64 [%r1], %r2;
    """,
    good="""
        .shared .align 8 .b64 bar;
        mov.u32 %r1, bar;
        mov.u32 %r2, 1;
        mbarrier.init.shared.b64 [%r1], %r2;
    """,
    proof="The value of the operand, or which bits it can have, follows from the code for a thread that executes it.",
    sanitizer=(
        "synccheck reports some misuse of barriers at run time. racecheck and synccheck reported none of the asynchronous "
        "mistakes that were seeded on an H200 (none of these was in an mbarrier count)."
    ),
    check=check,
)
