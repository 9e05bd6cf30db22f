"""G004 dsmem-owner-may-exit."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.framework.reporting import reports
from ptxkit.analyses.framework.rule import Facts, Rule
from ptxkit.analyses.protocols.grid.dependencies import findings
from ptxkit.analyses.protocols.grid.kinds import GridFault
from ptxkit.diagnostics import Diagnostic, Severity


def check(facts: Facts) -> Iterator[Diagnostic]:
    """Accesses to other CTAs' memory with no cluster barrier on the path to the exit."""
    return reports(facts, RULE, findings)


RULE = Rule(
    id="G004",
    name="dsmem-owner-may-exit",
    severity=Severity.ERROR,
    kind=GridFault.DSMEM_OWNER_MAY_EXIT,
    summary="shared memory of another CTA is accessed, and that CTA may have ended",
    why=(
        "Shared memory lives only as long as its CTA: a cluster barrier must separate the last remote access from the end "
        "of the kernel (9.7.14.3)."
    ),
    bad="""
        .visible .entry k() .reqntid 64 .reqnctapercluster 2
        {
        .shared .align 8 .b64 bar;
        .shared .align 128 .b8 data[1024];
        mov.u32 %r1, %tid.x;
        mov.u32 %r2, bar;
        mov.u32 %r3, data;
        setp.ne.u32 %p1, %r1, 0;
        shl.b32 %r4, %r1, 2;
        add.u32 %r4, %r3, %r4;
        st.shared.u32 [%r4], %r1;
        barrier.cluster.arrive;
        barrier.cluster.wait;
        mov.u32 %r6, %cluster_ctarank;
        xor.b32 %r6, %r6, 1;
        mapa.shared::cluster.u32 %r7, %r4, %r6;
        ld.shared::cluster.u32 %r5, [%r7];
        ret;
        }
    """,
    good="""
        .visible .entry k() .reqntid 64 .reqnctapercluster 2
        {
        .shared .align 8 .b64 bar;
        .shared .align 128 .b8 data[1024];
        mov.u32 %r1, %tid.x;
        mov.u32 %r2, bar;
        mov.u32 %r3, data;
        setp.ne.u32 %p1, %r1, 0;
        shl.b32 %r4, %r1, 2;
        add.u32 %r4, %r3, %r4;
        st.shared.u32 [%r4], %r1;
        barrier.cluster.arrive;
        barrier.cluster.wait;
        mov.u32 %r6, %cluster_ctarank;
        xor.b32 %r6, %r6, 1;
        mapa.shared::cluster.u32 %r7, %r4, %r6;
        ld.shared::cluster.u32 %r5, [%r7];
        barrier.cluster.arrive;
        barrier.cluster.wait;
        ret;
        }
    """,
    proof=("By its directives the cluster has several CTAs, and a path leads from the remote access to the end with no cluster barrier."),
    sanitizer="memcheck may report an access to a CTA that has exited, if a run reaches it.",
    check=check,
)
