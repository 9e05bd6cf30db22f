"""M020 mbarrier-scope-too-narrow."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.framework.reporting import reports
from ptxkit.analyses.framework.rule import Facts, Rule
from ptxkit.analyses.protocols.mbarrier.kinds import MbarrierFault
from ptxkit.analyses.protocols.mbarrier.operands import findings
from ptxkit.diagnostics import Diagnostic, Severity


def check(facts: Facts) -> Iterator[Diagnostic]:
    """Arrivals in other CTAs with the scope of the own."""
    return reports(facts, RULE, findings)


RULE = Rule(
    id="M020",
    name="mbarrier-scope-too-narrow",
    severity=Severity.WARNING,
    kind=MbarrierFault.MBARRIER_SCOPE_TOO_NARROW,
    summary="an arrival at an mbarrier object of another CTA has the scope of the own one",
    why="With .cta nothing that was written before is published to the other CTA (9.7.14.15.13, 8.5).",
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
        "mbarrier.init.shared::cta.b64 [%r2], 128;\n"
        "READY:\n"
        "bar.sync 0;\n"
        "barrier.cluster.arrive;\n"
        "barrier.cluster.wait;\n"
        "mov.u32 %r6, %cluster_ctarank;\n"
        "xor.b32 %r6, %r6, 1;\n"
        "mapa.shared::cluster.u32 %r7, %r2, %r6;\n"
        "mbarrier.arrive.release.cta.shared::cluster.b64 _, [%r7];\n"
        "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r7];\n"
        "WAIT:\n"
        "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p2, [%r2], 0;\n"
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
        "mbarrier.init.shared::cta.b64 [%r2], 128;\n"
        "READY:\n"
        "bar.sync 0;\n"
        "barrier.cluster.arrive;\n"
        "barrier.cluster.wait;\n"
        "mov.u32 %r6, %cluster_ctarank;\n"
        "xor.b32 %r6, %r6, 1;\n"
        "mapa.shared::cluster.u32 %r7, %r2, %r6;\n"
        "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r7];\n"
        "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r7];\n"
        "WAIT:\n"
        "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p2, [%r2], 0;\n"
        "@!%p2 bra WAIT;\n"
        "barrier.cluster.arrive;\n"
        "barrier.cluster.wait;\n"
        "ret;\n"
        "}\n"
    ),
    proof="The address comes from mapa, by data flow, and the scope is written. A warning, since nothing may be published by it.",
    sanitizer="no tool of it looks for this.",
    check=check,
)
