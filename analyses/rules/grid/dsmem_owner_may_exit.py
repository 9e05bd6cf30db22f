"""G004 dsmem-owner-may-exit."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.framework.reporting import reports
from ptxkit.analyses.framework.rule import Facts, Rule
from ptxkit.analyses.protocols.grid.dependencies import findings
from ptxkit.analyses.protocols.grid.kinds import GridFault
from ptxkit.diagnostics import Diagnostic, Severity


def check(facts: Facts) -> Iterator[Diagnostic]:
    """Accesses of the memory of other CTAs with no barrier of the cluster on the path out."""
    return reports(facts, RULE, findings)


RULE = Rule(
    id="G004",
    name="dsmem-owner-may-exit",
    severity=Severity.ERROR,
    kind=GridFault.DSMEM_OWNER_MAY_EXIT,
    summary="shared memory of another CTA is touched, and that CTA may have ended",
    why="Shared memory lives as long as its CTA: a barrier of the cluster must stand between the last touch and the end (9.7.14.3).",
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
        "barrier.cluster.arrive;\n"
        "barrier.cluster.wait;\n"
        "mov.u32 %r6, %cluster_ctarank;\n"
        "xor.b32 %r6, %r6, 1;\n"
        "mapa.shared::cluster.u32 %r7, %r4, %r6;\n"
        "ld.shared::cluster.u32 %r5, [%r7];\n"
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
        "The cluster has several CTAs by its directives, and a way leads from the remote access to the end with no barrier of the "
        "cluster behind it."
    ),
    sanitizer="memcheck may report the access of a CTA that is gone when a run comes to it.",
    check=check,
)
