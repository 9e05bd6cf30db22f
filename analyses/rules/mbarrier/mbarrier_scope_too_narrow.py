"""M020 mbarrier-scope-too-narrow."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.framework.reporting import reports
from ptxkit.analyses.framework.rule import Facts, Rule
from ptxkit.analyses.protocols.mbarrier.kinds import MbarrierFault
from ptxkit.analyses.protocols.mbarrier.operands import findings
from ptxkit.diagnostics import Diagnostic, Severity


def check(facts: Facts) -> Iterator[Diagnostic]:
    """Arrivals at mbarriers of other CTAs with CTA scope."""
    return reports(facts, RULE, findings)


RULE = Rule(
    id="M020",
    name="mbarrier-scope-too-narrow",
    severity=Severity.WARNING,
    kind=MbarrierFault.MBARRIER_SCOPE_TOO_NARROW,
    summary="an arrival at an mbarrier of another CTA has only CTA scope",
    why="With .cta, nothing that was written before is published to the other CTA (9.7.14.15.13, 8.5).",
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
        mbarrier.init.shared::cta.b64 [%r2], 128;
        READY:
        bar.sync 0;
        barrier.cluster.arrive;
        barrier.cluster.wait;
        mov.u32 %r6, %cluster_ctarank;
        xor.b32 %r6, %r6, 1;
        mapa.shared::cluster.u32 %r7, %r2, %r6;
        mbarrier.arrive.release.cta.shared::cluster.b64 _, [%r7];
        mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r7];
        WAIT:
        mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p2, [%r2], 0;
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
        mbarrier.init.shared::cta.b64 [%r2], 128;
        READY:
        bar.sync 0;
        barrier.cluster.arrive;
        barrier.cluster.wait;
        mov.u32 %r6, %cluster_ctarank;
        xor.b32 %r6, %r6, 1;
        mapa.shared::cluster.u32 %r7, %r2, %r6;
        mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r7];
        mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r7];
        WAIT:
        mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p2, [%r2], 0;
        @!%p2 bra WAIT;
        barrier.cluster.arrive;
        barrier.cluster.wait;
        ret;
        }
    """,
    proof=(
        "The address comes from mapa, by data flow, and the scope is in the text. It is a warning, since the arrival may not be "
        "meant to publish anything."
    ),
    sanitizer="none of its tools looks for this.",
    check=check,
)
