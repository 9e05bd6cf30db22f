"""A016 bulk-size-align."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.framework.reporting import reports
from ptxkit.analyses.framework.rule import Facts, Rule
from ptxkit.analyses.protocols.async_copy.kinds import COPY, CopyFault
from ptxkit.analyses.protocols.async_copy.operands import operand_findings
from ptxkit.diagnostics import Diagnostic, Severity


def check(facts: Facts) -> Iterator[Diagnostic]:
    """Misaligned sizes and addresses of bulk copies, and copies beyond the end of a variable."""
    return reports(facts, RULE, lambda routine: operand_findings(routine, CopyFault.BULK_SIZE_ALIGN, lambda queue: queue != COPY))


RULE = Rule(
    id="A016",
    name="bulk-size-align",
    severity=Severity.ERROR,
    kind=CopyFault.BULK_SIZE_ALIGN,
    summary="a bulk copy whose size or address is not allowed, or that goes beyond the end of a variable",
    why="The size of a bulk copy, and its addresses, must be multiples of 16 (9.7.10.24.6, 9.7.10.24.9).",
    bad="""
        .shared .align 16 .b8 buffer[64];
        mov.u32 %r1, buffer;
        mov.u32 %r2, 24;
        cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r1], %r2;
        cp.async.bulk.commit_group;
        cp.async.bulk.wait_group 0;
    """,
    good="""
        .shared .align 16 .b8 buffer[64];
        mov.u32 %r1, buffer;
        mov.u32 %r2, 32;
        cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r1], %r2;
        cp.async.bulk.commit_group;
        cp.async.bulk.wait_group 0;
    """,
    proof="The value of the operand, or which bits it can have, follows from the code for a thread that executes it.",
    sanitizer="memcheck may report addresses at run time; no tool checks sizes.",
    check=check,
)
