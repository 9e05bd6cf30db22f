"""M018 slot-released-before-last-read."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.framework.reporting import reports
from ptxkit.analyses.framework.rule import Facts, Rule
from ptxkit.analyses.protocols.mbarrier.kinds import MbarrierFault
from ptxkit.analyses.protocols.mbarrier.static_checks import findings
from ptxkit.diagnostics import Diagnostic, Severity


def check(facts: Facts) -> Iterator[Diagnostic]:
    """Arrivals that release a slot that others may still read."""
    return reports(facts, RULE, findings)


RULE = Rule(
    id="M018",
    name="slot-released-before-last-read",
    severity=Severity.ERROR,
    kind=MbarrierFault.SLOT_RELEASED_BEFORE_LAST_READ,
    summary="a stage is released before all threads have read it",
    why=(
        "The arrival of one thread orders only its own reads: the other threads of its warp must have synchronized with it after "
        "theirs (9.7.14.2, 9.7.14.15.16)."
    ),
    bad="""
        .visible .entry k(.param .u64 p) .reqntid 64
        {
        .shared .align 8 .b64 bar[2];
        .shared .align 128 .b8 data[1024];
        mov.u32 %r1, %tid.x;
        mov.u32 %r2, bar;
        mov.u32 %r3, data;
        setp.ne.u32 %p1, %r1, 0;
        ld.param.u64 %rd1, [p];
        cvta.to.global.u64 %rd1, %rd1;
        mov.u32 %r9, 0;
        @%p1 bra READY;
        mbarrier.init.shared::cta.b64 [%r2], 1;
        mbarrier.init.shared::cta.b64 [%r2+8], 1;
        READY:
        bar.sync 0;
        mov.u32 %r8, 0;
        setp.ge.u32 %p3, %r1, 32;
        @%p3 bra COPIER;
        READER:
        mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r2], %r8;
        @!%p2 bra READER;
        shl.b32 %r4, %r1, 2;
        add.u32 %r4, %r3, %r4;
        ld.shared.u32 %r5, [%r4];
        @%p1 bra KEPT;
        mbarrier.arrive.shared::cta.b64 _, [%r2+8];
        KEPT:
        xor.b32 %r8, %r8, 1;
        add.u32 %r9, %r9, 1;
        setp.lt.u32 %p2, %r9, 8;
        @%p2 bra READER;
        bra DONE;
        COPIER:
        setp.ne.u32 %p3, %r1, 32;
        @%p3 bra DONE;
        FREE:
        xor.b32 %r10, %r8, 1;
        mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r2+8], %r10;
        @!%p2 bra FREE;
        mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2], 1024;
        cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r3], [%rd1], 1024, [%r2];
        xor.b32 %r8, %r8, 1;
        add.u32 %r9, %r9, 1;
        setp.lt.u32 %p2, %r9, 8;
        @%p2 bra FREE;
        DONE:
        ret;
        }
    """,
    good="""
        .visible .entry k(.param .u64 p) .reqntid 64
        {
        .shared .align 8 .b64 bar[2];
        .shared .align 128 .b8 data[1024];
        mov.u32 %r1, %tid.x;
        mov.u32 %r2, bar;
        mov.u32 %r3, data;
        setp.ne.u32 %p1, %r1, 0;
        ld.param.u64 %rd1, [p];
        cvta.to.global.u64 %rd1, %rd1;
        mov.u32 %r9, 0;
        @%p1 bra READY;
        mbarrier.init.shared::cta.b64 [%r2], 1;
        mbarrier.init.shared::cta.b64 [%r2+8], 1;
        READY:
        bar.sync 0;
        mov.u32 %r8, 0;
        setp.ge.u32 %p3, %r1, 32;
        @%p3 bra COPIER;
        READER:
        mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r2], %r8;
        @!%p2 bra READER;
        shl.b32 %r4, %r1, 2;
        add.u32 %r4, %r3, %r4;
        ld.shared.u32 %r5, [%r4];
        bar.warp.sync -1;
        @%p1 bra KEPT;
        mbarrier.arrive.shared::cta.b64 _, [%r2+8];
        KEPT:
        xor.b32 %r8, %r8, 1;
        add.u32 %r9, %r9, 1;
        setp.lt.u32 %p2, %r9, 8;
        @%p2 bra READER;
        bra DONE;
        COPIER:
        setp.ne.u32 %p3, %r1, 32;
        @%p3 bra DONE;
        FREE:
        xor.b32 %r10, %r8, 1;
        mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r2+8], %r10;
        @!%p2 bra FREE;
        mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2], 1024;
        cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r3], [%rd1], 1024, [%r2];
        xor.b32 %r8, %r8, 1;
        add.u32 %r9, %r9, 1;
        setp.lt.u32 %p2, %r9, 8;
        @%p2 bra FREE;
        DONE:
        ret;
        }
    """,
    proof=(
        "All threads of the CTA (or of the cluster) are executed with example inputs: in one possible run, the stage is refilled "
        "before a thread has read it. It is a warning without a run: threads arrive at one stage after another and never wait, or "
        "omit the wait for the first stage."
    ),
    sanitizer="racecheck does not follow bulk copies; it reported none of the mistakes with them that were seeded on an H200.",
    check=check,
)
