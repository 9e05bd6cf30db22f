"""G005 dsmem-access-unsynchronised."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.framework.reporting import reports
from ptxkit.analyses.framework.rule import Facts, Rule
from ptxkit.analyses.protocols.mbarrier.dynamic_checks import findings
from ptxkit.analyses.protocols.mbarrier.kinds import RaceFault
from ptxkit.diagnostics import Diagnostic, Severity


def check(facts: Facts) -> Iterator[Diagnostic]:
    """Races between CTAs of a cluster."""
    return reports(facts, RULE, findings)


RULE = Rule(
    id="G005",
    name="dsmem-access-unsynchronised",
    severity=Severity.ERROR,
    kind=RaceFault.DSMEM_ACCESS_UNSYNCHRONISED,
    summary="CTAs of a cluster touch the same shared memory, and nothing says which comes first",
    why=(
        "Only a barrier of the cluster that is not .relaxed, or fences around it, orders what CTAs do to the memory of "
        "each other (9.7.14.3, 8.7.1)."
    ),
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
        "shl.b32 %r4, %r1, 2;\n"
        "add.u32 %r4, %r3, %r4;\n"
        "st.shared.u32 [%r4], %r1;\n"
        "barrier.cluster.arrive.relaxed;\n"
        "barrier.cluster.wait;\n"
        "mov.u32 %r6, %cluster_ctarank;\n"
        "xor.b32 %r6, %r6, 1;\n"
        "mapa.shared::cluster.u32 %r7, %r4, %r6;\n"
        "ld.shared::cluster.u32 %r5, [%r7];\n"
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
        "shl.b32 %r4, %r1, 2;\n"
        "add.u32 %r4, %r3, %r4;\n"
        "st.shared.u32 [%r4], %r1;\n"
        "barrier.cluster.arrive;\n"
        "barrier.cluster.wait;\n"
        "mov.u32 %r6, %cluster_ctarank;\n"
        "xor.b32 %r6, %r6, 1;\n"
        "mapa.shared::cluster.u32 %r7, %r4, %r6;\n"
        "ld.shared::cluster.u32 %r5, [%r7];\n"
        "barrier.cluster.arrive;\n"
        "barrier.cluster.wait;\n"
        "ret;\n"
        "}\n"
    ),
    proof=(
        "All threads of the CTA (or of the cluster) are run side by side with numbers for what the kernel is given: in one run that is "
        "possible, two CTAs touch the same bytes and nothing orders them."
    ),
    sanitizer="racecheck follows shared memory; whether it does across CTAs was not measured.",
    check=check,
)
