"""A006 cpasync-overlap-in-group."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.framework.reporting import reports
from ptxkit.analyses.framework.rule import Facts, Rule
from ptxkit.analyses.protocols.async_copy.copies import copies
from ptxkit.analyses.protocols.async_copy.kinds import CopyFault
from ptxkit.diagnostics import Diagnostic, Severity


def check(facts: Facts) -> Iterator[Diagnostic]:
    """Copies to the same location with no commit between."""
    return reports(facts, RULE, lambda routine: copies(routine).findings)


RULE = Rule(
    id="A006",
    name="cpasync-overlap-in-group",
    severity=Severity.ERROR,
    kind=CopyFault.CPASYNC_OVERLAP_IN_GROUP,
    summary="two copies of one group write the same bytes",
    why="The copies of a group are not ordered: if two write the same bytes, the result is undefined (9.7.10.24.4).",
    bad="""
        .shared .align 128 .b8 buffer[4096];
        mov.u32 %r1, buffer;
        mov.u32 %r2, %tid.x;
        shl.b32 %r3, %r2, 4;
        add.s32 %r4, %r1, %r3;
        cp.async.cg.shared.global [%r4], [%rd1], 16;
        cp.async.cg.shared.global [%r4], [%rd2], 16;
        cp.async.wait_all;
    """,
    good="""
        .shared .align 128 .b8 buffer[4096];
        mov.u32 %r1, buffer;
        mov.u32 %r2, %tid.x;
        shl.b32 %r3, %r2, 4;
        add.s32 %r4, %r1, %r3;
        cp.async.cg.shared.global [%r4], [%rd1], 16;
        cp.async.cg.shared.global [%r4+2048], [%rd2], 16;
        cp.async.wait_all;
    """,
    proof=(
        "One thread is executed symbolically along a path, with its groups in flight, and inputs that lead along this path are "
        "found: two copies of the open group write the same bytes."
    ),
    sanitizer="racecheck looks for accesses of different threads; whether it sees two copies of one thread was not measured.",
    check=check,
)
