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
    """Waits after which a thread goes on no matter what they said."""
    return reports(facts, RULE, findings, retry)


RULE = Rule(
    id="M010",
    name="try-wait-not-retried",
    severity=Severity.ERROR,
    kind=MbarrierFault.TRY_WAIT_NOT_RETRIED,
    summary="a wait that may give up is not repeated",
    why="try_wait comes back after a while though the phase has not completed: it must be asked again until it says so (9.7.14.15.16).",
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
        "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2], 1024;\n"
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r3], [%rd1], 1024, [%r2];\n"
        "COPIED:\n"
        "mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r2], 0;\n"
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
        "possible, an access meets the bytes of a copy because a thread went on though the wait had said no."
    ),
    sanitizer=(
        "synccheck knows some misuse of barriers at run time; racecheck and synccheck reported none of the seeded asynchronous "
        "mistakes on an H200 (which left mbarrier counts alone)."
    ),
    check=check,
)
