"""M016 mbarrier-parity-range."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.framework.reporting import reports
from ptxkit.analyses.framework.rule import Facts, Rule
from ptxkit.analyses.protocols.mbarrier.kinds import MbarrierFault
from ptxkit.analyses.protocols.mbarrier.operands import findings
from ptxkit.diagnostics import Diagnostic, Severity


def check(facts: Facts) -> Iterator[Diagnostic]:
    """Parities that are certainly not 0 or 1."""
    return reports(facts, RULE, findings)


RULE = Rule(
    id="M016",
    name="mbarrier-parity-range",
    severity=Severity.WARNING,
    kind=MbarrierFault.MBARRIER_PARITY_RANGE,
    summary="the parity of a wait is neither 0 nor 1",
    why="The parity is 0 or 1; newer manuals allow other values, older ones do not (9.7.14.15.16).",
    bad="""
        .shared .align 8 .b64 bar;
        mov.u32 %r1, bar;
        mov.u32 %r2, 2;
        WAIT:
        mbarrier.test_wait.parity.shared.b64 %p1, [%r1], %r2;
        @!%p1 bra WAIT;
    """,
    good="""
        .shared .align 8 .b64 bar;
        mov.u32 %r1, bar;
        mov.u32 %r2, 1;
        WAIT:
        mbarrier.test_wait.parity.shared.b64 %p1, [%r1], %r2;
        @!%p1 bra WAIT;
    """,
    proof="The value of the operand, or which bits it can have, follows from the code for a thread that executes it.",
    sanitizer="none of its tools looks for this.",
    check=check,
)
