"""M019 async-data-read-without-wait."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.framework.reporting import reports
from ptxkit.analyses.framework.rule import Facts, Rule
from ptxkit.analyses.protocols.mbarrier.kinds import MbarrierFault
from ptxkit.analyses.protocols.mbarrier.static_checks import findings
from ptxkit.diagnostics import Diagnostic, Severity


def check(facts: Facts) -> Iterator[Diagnostic]:
    """Reads of data that a copy may still be writing."""
    return reports(facts, RULE, findings)


RULE = Rule(
    id="M019",
    name="async-data-read-without-wait",
    severity=Severity.ERROR,
    kind=MbarrierFault.ASYNC_DATA_READ_WITHOUT_WAIT,
    summary="the result of an asynchronous copy is read without a wait at the mbarrier of the copy",
    why=(
        "A copy is complete when the phase that counts its bytes has completed, and visible to threads that have waited for that "
        "phase (9.7.10.24.2)."
    ),
    bad="""
        .visible .entry k(.param .u64 p) .reqntid 64
        {
        .shared .align 8 .b64 bar;
        .shared .align 128 .b8 data[1024];
        mov.u32 %r1, %tid.x;
        mov.u32 %r2, bar;
        mov.u32 %r3, data;
        setp.ne.u32 %p1, %r1, 0;
        ld.param.u64 %rd1, [p];
        cvta.to.global.u64 %rd1, %rd1;

        @%p1 bra READY;
        mbarrier.init.shared::cta.b64 [%r2], 1;
        READY:
        bar.sync 0;

        @%p1 bra COPIED;
        mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2], 1024;
        cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r3], [%rd1], 1024, [%r2];
        COPIED:

        shl.b32 %r4, %r1, 2;
        add.u32 %r4, %r3, %r4;
        ld.shared.u32 %r5, [%r4];
        ret;
        }
    """,
    good="""
        .visible .entry k(.param .u64 p) .reqntid 64
        {
        .shared .align 8 .b64 bar;
        .shared .align 128 .b8 data[1024];
        mov.u32 %r1, %tid.x;
        mov.u32 %r2, bar;
        mov.u32 %r3, data;
        setp.ne.u32 %p1, %r1, 0;
        ld.param.u64 %rd1, [p];
        cvta.to.global.u64 %rd1, %rd1;

        @%p1 bra READY;
        mbarrier.init.shared::cta.b64 [%r2], 1;
        READY:
        bar.sync 0;

        @%p1 bra COPIED;
        mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2], 1024;
        cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r3], [%rd1], 1024, [%r2];
        COPIED:

        WAIT:
        mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r2], 0;
        @!%p2 bra WAIT;

        shl.b32 %r4, %r1, 2;
        add.u32 %r4, %r3, %r4;
        ld.shared.u32 %r5, [%r4];
        ret;
        }
    """,
    proof=(
        "All threads of the CTA (or of the cluster) are executed with example inputs: in one possible run, the read can come "
        "before the bytes of the copy. It is a warning without a run: nothing in the kernel waits at the mbarrier, or the wait "
        "for the first stage is missing on all paths."
    ),
    sanitizer=(
        "none of its tools follows bulk copies; racecheck and synccheck reported none of the mistakes with them that were seeded "
        "on an H200."
    ),
    check=check,
)
