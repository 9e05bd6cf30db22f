"""M006 expect-tx-vs-bytes."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.framework.reporting import reports
from ptxkit.analyses.framework.rule import Facts, Rule
from ptxkit.analyses.protocols.mbarrier.kinds import MbarrierFault
from ptxkit.analyses.protocols.mbarrier.static_checks import findings
from ptxkit.diagnostics import Diagnostic, Severity


def check(facts: Facts) -> Iterator[Diagnostic]:
    """Expect-tx bytes that do not match the bytes copied."""
    return reports(facts, RULE, findings)


RULE = Rule(
    id="M006",
    name="expect-tx-vs-bytes",
    severity=Severity.ERROR,
    kind=MbarrierFault.EXPECT_TX_VS_BYTES,
    summary="an mbarrier expects a different number of bytes than is copied",
    why="A phase completes when exactly the expected bytes have arrived (9.7.14.15.5).",
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
        mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2], 512;
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
        "All threads of the CTA (or of the cluster) are executed with example inputs: in one possible run, a phase does not "
        "expect the bytes that its copies bring; only copies of constant size count. It is a warning without a run: more bytes "
        "are expected than a stage holds, or a number that copies by one tensor map cannot bring."
    ),
    sanitizer=(
        "synccheck reports some misuse of barriers at run time. racecheck and synccheck reported none of the asynchronous "
        "mistakes that were seeded on an H200 (none of these was in an mbarrier count)."
    ),
    check=check,
)
