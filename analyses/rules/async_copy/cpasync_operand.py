"""A007 cpasync-operand."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.framework.reporting import reports
from ptxkit.analyses.framework.rule import Facts, Rule
from ptxkit.analyses.protocols.async_copy.kinds import COPY, CopyFault
from ptxkit.analyses.protocols.async_copy.operands import operand_findings
from ptxkit.diagnostics import Diagnostic, Severity


def check(facts: Facts) -> Iterator[Diagnostic]:
    """Misaligned addresses of copies, and copies that read more bytes than they write."""
    return reports(facts, RULE, lambda routine: operand_findings(routine, CopyFault.CPASYNC_OPERAND, lambda queue: queue == COPY))


RULE = Rule(
    id="A007",
    name="cpasync-operand",
    severity=Severity.ERROR,
    kind=CopyFault.CPASYNC_OPERAND,
    summary="a cp.async whose address is misaligned, or whose source is larger than what it writes",
    why="Both addresses must be multiples of the size; a source size above that size is undefined (9.7.10.24.3, 6.4.1).",
    bad="""
        .shared .align 16 .b8 buffer[64];
        mov.u32 %r1, buffer;
        cp.async.cg.shared.global [%r1+8], [%rd1], 16;
        cp.async.wait_all;
    """,
    good="""
        .shared .align 16 .b8 buffer[64];
        mov.u32 %r1, buffer;
        cp.async.cg.shared.global [%r1+16], [%rd1], 16;
        cp.async.wait_all;
    """,
    proof="The value of the operand, or which bits it can have, follows from the code for a thread that executes it.",
    sanitizer="memcheck reports a misaligned access if a run reaches it; it does not check source sizes.",
    check=check,
)
