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
    summary="CTAs of a cluster access the same shared memory, and nothing orders them",
    why=(
        "Only a cluster barrier that is not .relaxed, or fences around one that is, orders accesses of CTAs to each "
        "other's memory (9.7.14.3, 8.7.1)."
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
        barrier.cluster.arrive.relaxed;
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
    proof=(
        "All threads of the CTA (or of the cluster) are executed with example inputs: in one possible run, two CTAs "
        "access the same bytes and nothing orders them."
    ),
    sanitizer="racecheck follows shared memory; whether it does across CTAs was not measured.",
    check=check,
)
