"""S008 weak-polling."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.framework.reporting import reports
from ptxkit.analyses.framework.rule import Facts, Rule
from ptxkit.analyses.protocols.memory_order.flags import findings
from ptxkit.analyses.protocols.memory_order.kinds import FlagFault
from ptxkit.diagnostics import Diagnostic, Severity


def check(facts: Facts) -> Iterator[Diagnostic]:
    """Loops whose exit depends only on a weak load."""
    return reports(facts, RULE, findings)


RULE = Rule(
    id="S008",
    name="weak-polling",
    severity=Severity.ERROR,
    kind=FlagFault.WEAK_POLLING,
    summary="a loop polls with a plain load",
    why="A plain load may be executed once for all iterations, and orders nothing that follows (8.5, 8.7.1).",
    bad="""
        .shared .align 4 .b32 flag;
        LOOP:
        ld.shared.u32 %r1, [flag];
        setp.eq.u32 %p1, %r1, 0;
        @%p1 bra LOOP;
    """,
    good="""
        .shared .align 4 .b32 flag;
        LOOP:
        ld.acquire.cta.shared.u32 %r1, [flag];
        setp.eq.u32 %p1, %r1, 0;
        @%p1 bra LOOP;
    """,
    proof="Only the loaded value can end the loop, its address does not change, and nothing in the loop orders memory accesses.",
    sanitizer="none of its tools looks for this.",
    check=check,
)
