"""A008 group-count-unbalanced-over-back-edge."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.framework.reporting import reports
from ptxkit.analyses.framework.rule import Facts, Rule
from ptxkit.analyses.protocols.async_copy.copies import copies
from ptxkit.analyses.protocols.async_copy.kinds import CopyFault
from ptxkit.diagnostics import Diagnostic, Severity


def check(facts: Facts) -> Iterator[Diagnostic]:
    """Waits in loops with iterations that commit nothing on some paths."""
    return reports(facts, RULE, lambda routine: copies(routine).findings)


RULE = Rule(
    id="A008",
    name="group-count-unbalanced-over-back-edge",
    severity=Severity.ERROR,
    kind=CopyFault.GROUP_COUNT_UNBALANCED_OVER_BACK_EDGE,
    summary="a wait in a loop relies on one group for each iteration, but not every iteration commits one",
    why=(
        "A wait counts the latest groups. After an iteration without a commit the count is off by one, so the wait leaves a group "
        "in flight that is read next; committing an empty group would keep the count right (9.7.10.24.4, 9.7.10.24.5)."
    ),
    bad="""
        .visible .entry k(.param .u32 n, .param .u64 .ptr .global .align 16 data)
        {
        .shared .align 16 .b8 buffer[1024];
        ld.param.u32 %r1, [n];
        ld.param.u64 %rd1, [data];
        mov.u32 %r2, %tid.x;
        shl.b32 %r2, %r2, 4;
        mov.u32 %r3, buffer;
        add.s32 %r3, %r3, %r2;
        cp.async.cg.shared.global [%r3], [%rd1], 16;
        cp.async.commit_group;
        mov.u32 %r4, 0;
        LOOP:
        and.b32 %r5, %r4, 1;
        shl.b32 %r5, %r5, 9;
        add.s32 %r6, %r3, %r5;
        add.s32 %r4, %r4, 1;
        setp.ge.s32 %p1, %r4, %r1;
        @%p1 bra LAST;
        xor.b32 %r7, %r5, 512;
        add.s32 %r7, %r3, %r7;
        cp.async.cg.shared.global [%r7], [%rd1], 16;
        cp.async.commit_group;
        LAST:
        cp.async.wait_group 1;
        ld.shared.u32 %r8, [%r6];
        setp.lt.s32 %p1, %r4, %r1;
        @%p1 bra LOOP;
        ret;
        }
    """,
    good="""
        .visible .entry k(.param .u32 n, .param .u64 .ptr .global .align 16 data)
        {
        .shared .align 16 .b8 buffer[1024];
        ld.param.u32 %r1, [n];
        ld.param.u64 %rd1, [data];
        mov.u32 %r2, %tid.x;
        shl.b32 %r2, %r2, 4;
        mov.u32 %r3, buffer;
        add.s32 %r3, %r3, %r2;
        cp.async.cg.shared.global [%r3], [%rd1], 16;
        cp.async.commit_group;
        mov.u32 %r4, 0;
        LOOP:
        and.b32 %r5, %r4, 1;
        shl.b32 %r5, %r5, 9;
        add.s32 %r6, %r3, %r5;
        add.s32 %r4, %r4, 1;
        setp.ge.s32 %p1, %r4, %r1;
        @%p1 bra LAST;
        xor.b32 %r7, %r5, 512;
        add.s32 %r7, %r3, %r7;
        cp.async.cg.shared.global [%r7], [%rd1], 16;
        LAST:
        cp.async.commit_group;
        cp.async.wait_group 1;
        ld.shared.u32 %r8, [%r6];
        setp.lt.s32 %p1, %r4, %r1;
        @%p1 bra LOOP;
        ret;
        }
    """,
    proof=(
        "One thread is executed symbolically along a path, with its groups in flight, and inputs that lead along this path are "
        "found: one path through the loop commits nothing, and the read after the wait accesses bytes of a copy in flight."
    ),
    sanitizer=(
        "racecheck follows accesses to shared memory, cp.async included, in the run at hand; it reported the one seeded case on an H200."
    ),
    check=check,
)
