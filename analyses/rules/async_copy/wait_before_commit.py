"""A002 wait-before-commit."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.framework.reporting import reports
from ptxkit.analyses.framework.rule import Facts, Rule
from ptxkit.analyses.protocols.async_copy.copies import copies
from ptxkit.analyses.protocols.async_copy.kinds import CopyFault
from ptxkit.diagnostics import Diagnostic, Severity


def check(facts: Facts) -> Iterator[Diagnostic]:
    """Waits before the commit of the data that is read next."""
    return reports(facts, RULE, lambda routine: copies(routine).findings)


RULE = Rule(
    id="A002",
    name="wait-before-commit",
    severity=Severity.WARNING,
    kind=CopyFault.WAIT_BEFORE_COMMIT,
    summary="a wait comes before the commit of what is read next",
    why="A wait counts groups: copies that no commit has put into a group yet are not waited for (9.7.10.24.4, 9.7.10.24.5).",
    bad="""
        .shared .align 128 .b8 buffer[4096];
        mov.u32 %r1, buffer;
        mov.u32 %r2, %tid.x;
        shl.b32 %r3, %r2, 4;
        add.s32 %r4, %r1, %r3;
        cp.async.cg.shared.global [%r4], [%rd1], 16;
        cp.async.wait_group 0;
        cp.async.commit_group;
        ld.shared.u32 %r5, [%r4];
    """,
    good="""
        .shared .align 128 .b8 buffer[4096];
        mov.u32 %r1, buffer;
        mov.u32 %r2, %tid.x;
        shl.b32 %r3, %r2, 4;
        add.s32 %r4, %r1, %r3;
        cp.async.cg.shared.global [%r4], [%rd1], 16;
        cp.async.commit_group;
        cp.async.wait_group 0;
        ld.shared.u32 %r5, [%r4];
    """,
    proof=(
        "One thread is executed symbolically along a path, with its groups in flight, and inputs that lead along this path are "
        "found: at the wait the copy is in no group, and its bytes are read before another wait."
    ),
    sanitizer="racecheck sees a read that comes too early in a run, not the wait; it did not report the one seeded case on an H200.",
    check=check,
)
