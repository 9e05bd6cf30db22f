"""M014 mbarrier-remote-form."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.framework.reporting import reports
from ptxkit.analyses.framework.rule import Facts, Rule
from ptxkit.analyses.protocols.mbarrier.kinds import MbarrierFault
from ptxkit.analyses.protocols.mbarrier.operands import findings
from ptxkit.diagnostics import Diagnostic, Severity


def check(facts: Facts) -> Iterator[Diagnostic]:
    """CTA-local operations on an address from mapa."""
    return reports(facts, RULE, findings)


RULE = Rule(
    id="M014",
    name="mbarrier-remote-form",
    severity=Severity.ERROR,
    kind=MbarrierFault.MBARRIER_REMOTE_FORM,
    summary="an operation uses an mbarrier of another CTA, but takes only those of its own CTA",
    why=(
        "At mbarriers of other CTAs of the cluster, threads may arrive and expect bytes, with the shared::cluster forms; no other "
        "operation is allowed (9.7.14.15.8, 9.7.14.15.13)."
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
        mov.u32 %r6, %cluster_ctarank;
        xor.b32 %r6, %r6, 1;
        mapa.shared::cluster.u32 %r7, %r2, %r6;
        mbarrier.arrive.shared::cta.b64 _, [%r7];
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
        READY:
        bar.sync 0;
        barrier.cluster.arrive;
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
    proof="The address comes from mapa, by data flow.",
    sanitizer="synccheck reports operations on mbarriers of another CTA if a run reaches them.",
    check=check,
)
