"""A004 committed-never-waited, by request."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.framework.reporting import reports
from ptxkit.analyses.framework.rule import Facts, Rule
from ptxkit.analyses.protocols.async_copy.copies import copies
from ptxkit.analyses.protocols.async_copy.kinds import CopyFault
from ptxkit.diagnostics import Diagnostic, Severity


def check(facts: Facts) -> Iterator[Diagnostic]:
    """Copies that are pending at the end of the function."""
    return reports(facts, RULE, lambda routine: copies(routine).findings)


RULE = Rule(
    id="A004",
    name="committed-never-waited",
    severity=Severity.INFO,
    kind=CopyFault.COMMITTED_NEVER_WAITED,
    summary="a copy may still be in flight when its thread ends",
    why="That is not undefined, but if no thread waits for the copy, no thread can use what it writes (9.7.10.24.1).",
    bad="""
        .shared .align 128 .b8 buffer[4096];
        mov.u32 %r1, buffer;
        mov.u32 %r2, %tid.x;
        shl.b32 %r3, %r2, 4;
        add.s32 %r4, %r1, %r3;
        cp.async.cg.shared.global [%r4], [%rd1], 16;
        cp.async.commit_group;
    """,
    good="""
        .shared .align 128 .b8 buffer[4096];
        mov.u32 %r1, buffer;
        mov.u32 %r2, %tid.x;
        shl.b32 %r3, %r2, 4;
        add.s32 %r4, %r1, %r3;
        cp.async.cg.shared.global [%r4], [%rd1], 16;
        cp.async.wait_all;
    """,
    proof=(
        "One thread is executed symbolically along a path, with its groups in flight, and inputs that lead along this path are "
        "found: the group is in flight where the function ends. That alone is not a mistake."
    ),
    sanitizer="none of its tools looks for this.",
    check=check,
    default=False,
)
