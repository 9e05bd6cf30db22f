"""A005 cpasync-missing-barrier-after-wait."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.framework.reporting import reports
from ptxkit.analyses.framework.rule import Facts, Rule
from ptxkit.analyses.protocols.async_copy.copies import copies
from ptxkit.analyses.protocols.async_copy.kinds import CopyFault
from ptxkit.diagnostics import Diagnostic, Severity


def check(facts: Facts) -> Iterator[Diagnostic]:
    """Reads of another thread's copied data, after its wait but before any barrier."""
    return reports(facts, RULE, lambda routine: copies(routine).findings)


RULE = Rule(
    id="A005",
    name="cpasync-missing-barrier-after-wait",
    severity=Severity.ERROR,
    kind=CopyFault.CPASYNC_MISSING_BARRIER_AFTER_WAIT,
    summary="a thread reads, or overwrites, what another thread copied, with no barrier after the wait of that thread",
    why=(
        "Only the thread that waits knows that its copies are complete; other threads know it only after a barrier that follows "
        "the wait (9.7.10.24.5)."
    ),
    bad="""
        .shared .align 128 .b8 buffer[4096];
        mov.u32 %r1, buffer;
        mov.u32 %r2, %tid.x;
        shl.b32 %r3, %r2, 4;
        add.s32 %r4, %r1, %r3;
        cp.async.cg.shared.global [%r4], [%rd1], 16;
        cp.async.commit_group;
        cp.async.wait_group 0;
        xor.b32 %r6, %r3, 16;
        add.s32 %r7, %r1, %r6;
        ld.shared.u32 %r5, [%r7];
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
        bar.sync 0;
        xor.b32 %r6, %r3, 16;
        add.s32 %r7, %r1, %r6;
        ld.shared.u32 %r5, [%r7];
    """,
    proof=(
        "One thread is executed symbolically along a path, with its groups in flight, and inputs that lead along this path are "
        "found: for a named thread, the bytes accessed are copied by another one, and no barrier follows the wait of that thread."
    ),
    sanitizer=(
        "racecheck follows accesses to shared memory, cp.async included, in the run at hand; it reported the one seeded case on an H200."
    ),
    check=check,
)
