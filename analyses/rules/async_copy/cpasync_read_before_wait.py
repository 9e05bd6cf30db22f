"""A001 cpasync-read-before-wait."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.framework.reporting import reports
from ptxkit.analyses.framework.rule import Facts, Rule
from ptxkit.analyses.protocols.async_copy.copies import copies
from ptxkit.analyses.protocols.async_copy.kinds import CopyFault
from ptxkit.diagnostics import Diagnostic, Severity


def check(facts: Facts) -> Iterator[Diagnostic]:
    """Reads of the destination of a copy in flight, if no wait is at fault."""
    return reports(facts, RULE, lambda routine: copies(routine).findings)


RULE = Rule(
    id="A001",
    name="cpasync-read-before-wait",
    severity=Severity.ERROR,
    kind=CopyFault.CPASYNC_READ_BEFORE_WAIT,
    summary="shared memory is read, or overwritten, while a cp.async may still be writing it",
    why=(
        "Until an asynchronous copy is known to be complete, a read of its destination returns an undefined value, and a write to "
        "it may be lost (9.7.10.24.1, 9.7.10.24.5)."
    ),
    bad="""
        .shared .align 128 .b8 buffer[4096];
        mov.u32 %r1, buffer;
        mov.u32 %r2, %tid.x;
        shl.b32 %r3, %r2, 4;
        add.s32 %r4, %r1, %r3;
        cp.async.cg.shared.global [%r4], [%rd1], 16;
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
        "found: the bytes accessed are those that a copy in flight writes."
    ),
    sanitizer=(
        "racecheck follows accesses to shared memory, cp.async included, in the run at hand; it reported 5 of 5 seeded cases on an H200."
    ),
    check=check,
)
