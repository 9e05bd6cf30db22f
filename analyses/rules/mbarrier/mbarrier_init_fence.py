"""M003 mbarrier-init-fence."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.framework.reporting import reports
from ptxkit.analyses.framework.rule import Facts, Rule
from ptxkit.analyses.protocols.mbarrier.dynamic_checks import findings
from ptxkit.analyses.protocols.mbarrier.kinds import MbarrierFault
from ptxkit.diagnostics import Diagnostic, Severity


def check(facts: Facts) -> Iterator[Diagnostic]:
    """Mbarriers used from other CTAs after a cluster barrier without ordering."""
    return reports(facts, RULE, findings)


RULE = Rule(
    id="M003",
    name="mbarrier-init-fence",
    severity=Severity.ERROR,
    kind=MbarrierFault.MBARRIER_INIT_FENCE,
    summary="the initialization of an mbarrier is not made visible to the cluster",
    why="A relaxed arrival at the cluster barrier orders no memory: fence.mbarrier_init must come before it (9.7.14.3, 9.7.14.4).",
    bad="""
        .visible .entry k() .reqntid 64 .reqnctapercluster 2
        {
        .shared .align 8 .b64 bar;
        .shared .align 128 .b8 data[1024];
        mov.u32 %r1, %tid.x;
        mov.u32 %r2, bar;
        mov.u32 %r3, data;
        setp.ne.u32 %p1, %r1, 0;
        @%p1 bra READY;
        mbarrier.init.shared::cta.b64 [%r2], 64;
        READY:
        barrier.cluster.arrive.relaxed;
        barrier.cluster.wait;

        mov.u32 %r6, %cluster_ctarank;
        xor.b32 %r6, %r6, 1;
        mapa.shared::cluster.u32 %r7, %r2, %r6;
        mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r7];

        WAIT:
        mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r2], 0;
        @!%p2 bra WAIT;
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
        @%p1 bra READY;
        mbarrier.init.shared::cta.b64 [%r2], 64;
        fence.mbarrier_init.release.cluster;
        READY:
        barrier.cluster.arrive.relaxed;
        barrier.cluster.wait;

        mov.u32 %r6, %cluster_ctarank;
        xor.b32 %r6, %r6, 1;
        mapa.shared::cluster.u32 %r7, %r2, %r6;
        mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r7];

        WAIT:
        mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r2], 0;
        @!%p2 bra WAIT;
        barrier.cluster.arrive;
        barrier.cluster.wait;
        ret;
        }
    """,
    proof=(
        "All threads of the CTA (or of the cluster) are executed with example inputs: in one possible run, another CTA uses the "
        "mbarrier, and nothing orders that after its initialization."
    ),
    sanitizer=(
        "synccheck reports some misuse of barriers at run time. racecheck and synccheck reported none of the asynchronous "
        "mistakes that were seeded on an H200 (none of these was in an mbarrier count)."
    ),
    check=check,
)
