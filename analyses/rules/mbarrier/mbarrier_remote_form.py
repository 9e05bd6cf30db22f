"""M014 mbarrier-remote-form."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.framework.reporting import reports
from ptxkit.analyses.framework.rule import Facts, Rule
from ptxkit.analyses.protocols.mbarrier.kinds import MbarrierFault
from ptxkit.analyses.protocols.mbarrier.operands import findings
from ptxkit.diagnostics import Diagnostic, Severity


def check(facts: Facts) -> Iterator[Diagnostic]:
    """Operations of the own CTA on what mapa gives."""
    return reports(facts, RULE, findings)


RULE = Rule(
    id="M014",
    name="mbarrier-remote-form",
    severity=Severity.ERROR,
    kind=MbarrierFault.MBARRIER_REMOTE_FORM,
    summary="an mbarrier object of another CTA is used by an operation that takes only those of the own one",
    why=(
        "Of the objects of other CTAs of the cluster, threads may arrive at them and announce bytes, in the "
        "shared::cluster forms, and no more (9.7.14.15.8, 9.7.14.15.13)."
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
        "mov.u32 %r6, %cluster_ctarank;\n"
        "xor.b32 %r6, %r6, 1;\n"
        "mapa.shared::cluster.u32 %r7, %r2, %r6;\n"
        "mbarrier.arrive.shared::cta.b64 _, [%r7];\n"
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
        "READY:\n"
        "bar.sync 0;\n"
        "barrier.cluster.arrive;\n"
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
    proof="The address comes from mapa, by data flow.",
    sanitizer="synccheck reports operations on objects of another CTA, in a run that comes there.",
    check=check,
)
