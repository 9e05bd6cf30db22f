"""M012 mbarrier-alignment."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.framework.reporting import reports
from ptxkit.analyses.framework.rule import Facts, Rule
from ptxkit.analyses.protocols.mbarrier.kinds import MbarrierFault
from ptxkit.analyses.protocols.mbarrier.operands import findings
from ptxkit.diagnostics import Diagnostic, Severity


def check(facts: Facts) -> Iterator[Diagnostic]:
    """Mbarrier addresses that are not a multiple of 8."""
    return reports(facts, RULE, findings)


RULE = Rule(
    id="M012",
    name="mbarrier-alignment",
    severity=Severity.ERROR,
    kind=MbarrierFault.MBARRIER_ALIGNMENT,
    summary="an mbarrier is not aligned to 8 bytes",
    why="An mbarrier is 8 bytes, aligned to 8 (9.7.14.15.1).",
    bad="""
        .shared .align 8 .b8 bar[16];
        mov.u32 %r1, bar;
        mbarrier.init.shared.b64 [%r1+4], 1;
    """,
    good="""
        .shared .align 8 .b8 bar[16];
        mov.u32 %r1, bar;
        mbarrier.init.shared.b64 [%r1+8], 1;
    """,
    proof="The value of the operand, or which bits it can have, follows from the code for a thread that executes it.",
    sanitizer="memcheck reports it if a run reaches it.",
    check=check,
)
