"""A010 slot-refill-without-barrier."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.framework.reporting import reports
from ptxkit.analyses.framework.rule import Facts, Rule
from ptxkit.analyses.protocols.async_copy.copies import copies
from ptxkit.analyses.protocols.async_copy.kinds import CopyFault
from ptxkit.diagnostics import Diagnostic, Severity


def check(facts: Facts) -> Iterator[Diagnostic]:
    """Copies into memory that another thread has read since the last barrier."""
    return reports(facts, RULE, lambda routine: copies(routine).findings)


RULE = Rule(
    id="A010",
    name="slot-refill-without-barrier",
    severity=Severity.ERROR,
    kind=CopyFault.SLOT_REFILL_WITHOUT_BARRIER,
    summary="a copy refills what another thread may still be reading",
    why=(
        "A barrier must separate the last read of a buffer from a copy into it by another thread; otherwise they race (9.7.10.24.1, 8.7.1)."
    ),
    bad="""
        .shared .align 128 .b8 buffer[4096];
        mov.u32 %r1, buffer;
        mov.u32 %r2, %tid.x;
        shl.b32 %r3, %r2, 4;
        add.s32 %r4, %r1, %r3;
        xor.b32 %r6, %r3, 16;
        add.s32 %r7, %r1, %r6;
        ld.shared.u32 %r5, [%r7];
        cp.async.cg.shared.global [%r4], [%rd1], 16;
        cp.async.wait_all;
    """,
    good="""
        .shared .align 128 .b8 buffer[4096];
        mov.u32 %r1, buffer;
        mov.u32 %r2, %tid.x;
        shl.b32 %r3, %r2, 4;
        add.s32 %r4, %r1, %r3;
        xor.b32 %r6, %r3, 16;
        add.s32 %r7, %r1, %r6;
        ld.shared.u32 %r5, [%r7];
        bar.sync 0;
        cp.async.cg.shared.global [%r4], [%rd1], 16;
        cp.async.wait_all;
    """,
    proof=(
        "One thread is executed symbolically along a path, with its groups in flight, and inputs that lead along this path are "
        "found: for a named pair of threads, the copy writes what the other thread has read since the last barrier."
    ),
    sanitizer=(
        "racecheck follows accesses to shared memory, cp.async included, in the run at hand; it reported the one seeded case on an H200."
    ),
    check=check,
)
