"""M010 try-wait-not-retried."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.framework.reporting import reports
from ptxkit.analyses.framework.rule import Facts, Rule
from ptxkit.analyses.protocols.mbarrier.dynamic_checks import findings
from ptxkit.analyses.protocols.mbarrier.kinds import MbarrierFault
from ptxkit.analyses.protocols.mbarrier.retry_loop import retry
from ptxkit.diagnostics import Diagnostic, Severity


def check(facts: Facts) -> Iterator[Diagnostic]:
    """Waits whose result is ignored."""
    return reports(facts, RULE, findings, retry)


RULE = Rule(
    id="M010",
    name="try-wait-not-retried",
    severity=Severity.ERROR,
    kind=MbarrierFault.TRY_WAIT_NOT_RETRIED,
    summary="a try_wait, which may give up, is not repeated",
    why="try_wait returns after a while although the phase has not completed: it must be repeated until the phase has (9.7.14.15.16).",
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
        mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r2], 0;

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
        "All threads of the CTA (or of the cluster) are executed with example inputs: in one possible run, a thread goes on "
        "although the wait returned false, and an access reaches the bytes of a copy in flight."
    ),
    sanitizer=(
        "synccheck reports some misuse of barriers at run time. racecheck and synccheck reported none of the asynchronous "
        "mistakes that were seeded on an H200 (none of these was in an mbarrier count)."
    ),
    check=check,
)
