"""M003 mbarrier-init-fence."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.framework.reporting import reports
from ptxkit.analyses.framework.rule import Facts, Rule
from ptxkit.analyses.protocols.mbarrier.dynamic_checks import findings
from ptxkit.analyses.protocols.mbarrier.kinds import MbarrierFault
from ptxkit.diagnostics import Diagnostic, Severity


def check(facts: Facts) -> Iterator[Diagnostic]:
    """mbarriers used from other CTAs after a barrier of the cluster that orders nothing."""
    return reports(facts, RULE, findings)


RULE = Rule(
    id="M003",
    name="mbarrier-init-fence",
    severity=Severity.ERROR,
    kind=MbarrierFault.MBARRIER_INIT_FENCE,
    summary="the initialization of an mbarrier object is not made visible to the cluster",
    why="A relaxed arrival at the barrier of the cluster orders no memory: fence.mbarrier_init must stand before it (9.7.14.3, 9.7.14.4).",
    bad=(
        ".version 8.5\n"
        ".target sm_90\n"
        ".address_size 64\n"
        ".visible .entry k() .reqntid 64 .reqnctapercluster 2\n"
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
        "@%p1 bra READY;\n"
        "mbarrier.init.shared::cta.b64 [%r2], 64;\n"
        "READY:\n"
        "barrier.cluster.arrive.relaxed;\n"
        "barrier.cluster.wait;\n"
        "\n"
        "mov.u32 %r6, %cluster_ctarank;\n"
        "xor.b32 %r6, %r6, 1;\n"
        "mapa.shared::cluster.u32 %r7, %r2, %r6;\n"
        "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r7];\n"
        "\n"
        "WAIT:\n"
        "mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r2], 0;\n"
        "@!%p2 bra WAIT;\n"
        "barrier.cluster.arrive;\n"
        "barrier.cluster.wait;\n"
        "ret;\n"
        "}\n"
    ),
    good=(
        ".version 8.5\n"
        ".target sm_90\n"
        ".address_size 64\n"
        ".visible .entry k() .reqntid 64 .reqnctapercluster 2\n"
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
        "@%p1 bra READY;\n"
        "mbarrier.init.shared::cta.b64 [%r2], 64;\n"
        "fence.mbarrier_init.release.cluster;\n"
        "READY:\n"
        "barrier.cluster.arrive.relaxed;\n"
        "barrier.cluster.wait;\n"
        "\n"
        "mov.u32 %r6, %cluster_ctarank;\n"
        "xor.b32 %r6, %r6, 1;\n"
        "mapa.shared::cluster.u32 %r7, %r2, %r6;\n"
        "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r7];\n"
        "\n"
        "WAIT:\n"
        "mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r2], 0;\n"
        "@!%p2 bra WAIT;\n"
        "barrier.cluster.arrive;\n"
        "barrier.cluster.wait;\n"
        "ret;\n"
        "}\n"
    ),
    proof=(
        "All threads of the CTA (or of the cluster) are run side by side with numbers for what the kernel is given: in one run that is "
        "possible, another CTA uses the object, and what stands between its initialization and the use orders nothing."
    ),
    sanitizer=(
        "synccheck knows some misuse of barriers at run time; racecheck and synccheck reported none of the seeded asynchronous "
        "mistakes on an H200 (which left mbarrier counts alone)."
    ),
    check=check,
)
