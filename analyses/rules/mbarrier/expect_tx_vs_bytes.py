"""M006 expect-tx-vs-bytes."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.framework.reporting import reports
from ptxkit.analyses.framework.rule import Facts, Rule
from ptxkit.analyses.protocols.mbarrier.kinds import MbarrierFault
from ptxkit.analyses.protocols.mbarrier.static_checks import findings
from ptxkit.diagnostics import Diagnostic, Severity


def check(facts: Facts) -> Iterator[Diagnostic]:
    """Announcements that do not add up to what is copied."""
    return reports(facts, RULE, findings)


RULE = Rule(
    id="M006",
    name="expect-tx-vs-bytes",
    severity=Severity.ERROR,
    kind=MbarrierFault.EXPECT_TX_VS_BYTES,
    summary="an mbarrier object is told of another number of bytes than is copied",
    why="A phase completes when exactly the bytes have come that were announced (9.7.14.15.5).",
    bad=(
        ".version 8.5\n"
        ".target sm_90\n"
        ".address_size 64\n"
        ".visible .entry k(.param .u64 p) .reqntid 64\n"
        "{\n"
        ".reg .pred %p<4>;\n"
        ".reg .b32 %r<12>;\n"
        ".reg .b64 %rd<8>;\n"
        ".reg .f32 %f<4>;\n"
        ".shared .align 8 .b64 bar;\n"
        ".shared .align 128 .b8 data[1024];\n"
        "mov.u32 %r1, %tid.x;\n"
        "mov.u32 %r2, bar;\n"
        "mov.u32 %r3, data;\n"
        "setp.ne.u32 %p1, %r1, 0;\n"
        "ld.param.u64 %rd1, [p];\n"
        "cvta.to.global.u64 %rd1, %rd1;\n"
        "\n"
        "@%p1 bra READY;\n"
        "mbarrier.init.shared::cta.b64 [%r2], 1;\n"
        "READY:\n"
        "bar.sync 0;\n"
        "\n"
        "@%p1 bra COPIED;\n"
        "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2], 512;\n"
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r3], [%rd1], 1024, [%r2];\n"
        "COPIED:\n"
        "\n"
        "WAIT:\n"
        "mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r2], 0;\n"
        "@!%p2 bra WAIT;\n"
        "\n"
        "shl.b32 %r4, %r1, 2;\n"
        "add.u32 %r4, %r3, %r4;\n"
        "ld.shared.u32 %r5, [%r4];\n"
        "ret;\n"
        "}\n"
    ),
    good=(
        ".version 8.5\n"
        ".target sm_90\n"
        ".address_size 64\n"
        ".visible .entry k(.param .u64 p) .reqntid 64\n"
        "{\n"
        ".reg .pred %p<4>;\n"
        ".reg .b32 %r<12>;\n"
        ".reg .b64 %rd<8>;\n"
        ".reg .f32 %f<4>;\n"
        ".shared .align 8 .b64 bar;\n"
        ".shared .align 128 .b8 data[1024];\n"
        "mov.u32 %r1, %tid.x;\n"
        "mov.u32 %r2, bar;\n"
        "mov.u32 %r3, data;\n"
        "setp.ne.u32 %p1, %r1, 0;\n"
        "ld.param.u64 %rd1, [p];\n"
        "cvta.to.global.u64 %rd1, %rd1;\n"
        "\n"
        "@%p1 bra READY;\n"
        "mbarrier.init.shared::cta.b64 [%r2], 1;\n"
        "READY:\n"
        "bar.sync 0;\n"
        "\n"
        "@%p1 bra COPIED;\n"
        "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2], 1024;\n"
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r3], [%rd1], 1024, [%r2];\n"
        "COPIED:\n"
        "\n"
        "WAIT:\n"
        "mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r2], 0;\n"
        "@!%p2 bra WAIT;\n"
        "\n"
        "shl.b32 %r4, %r1, 2;\n"
        "add.u32 %r4, %r3, %r4;\n"
        "ld.shared.u32 %r5, [%r4];\n"
        "ret;\n"
        "}\n"
    ),
    proof=(
        "All threads of the CTA (or of the cluster) are run side by side with numbers for what the kernel is given: in one run that is "
        "possible, what is announced for a phase is not what its copies bring; only copies whose size is a constant count. "
        "A warning without a run: more bytes than a stage has room for, or a number that copies by one tensor map cannot bring."
    ),
    sanitizer=(
        "synccheck knows some misuse of barriers at run time; racecheck and synccheck reported none of the seeded asynchronous "
        "mistakes on an H200 (which left mbarrier counts alone)."
    ),
    check=check,
)
