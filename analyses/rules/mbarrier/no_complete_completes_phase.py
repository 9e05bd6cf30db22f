"""M015 no-complete-completes-phase."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.framework.reporting import reports
from ptxkit.analyses.framework.rule import Facts, Rule
from ptxkit.analyses.protocols.mbarrier.dynamic_checks import findings
from ptxkit.analyses.protocols.mbarrier.kinds import MbarrierFault
from ptxkit.diagnostics import Diagnostic, Severity


def check(facts: Facts) -> Iterator[Diagnostic]:
    """Phases that are completed by an arrival that says it does not."""
    return reports(facts, RULE, findings)


RULE = Rule(
    id="M015",
    name="no-complete-completes-phase",
    severity=Severity.ERROR,
    kind=MbarrierFault.NO_COMPLETE_COMPLETES_PHASE,
    summary="an arrival that may not complete a phase does",
    why="mbarrier.arrive.noComplete must not be the arrival that completes a phase (9.7.14.15.13).",
    bad=(
        ".version 8.5\n"
        ".target sm_90\n"
        ".address_size 64\n"
        ".visible .entry k() .reqntid 64\n"
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
        "mbarrier.arrive.noComplete.shared.b64 %rd2, [%r2], 1;\n"
        "ret;\n"
        "}\n"
    ),
    good=(
        ".version 8.5\n"
        ".target sm_90\n"
        ".address_size 64\n"
        ".visible .entry k() .reqntid 64\n"
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
        "mbarrier.init.shared::cta.b64 [%r2], 65;\n"
        "READY:\n"
        "bar.sync 0;\n"
        "mbarrier.arrive.noComplete.shared.b64 %rd2, [%r2], 1;\n"
        "@%p1 bra LAST;\n"
        "mbarrier.arrive.shared::cta.b64 _, [%r2];\n"
        "LAST:\n"
        "WAIT:\n"
        "mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r2], 0;\n"
        "@!%p2 bra WAIT;\n"
        "ret;\n"
        "}\n"
    ),
    proof=(
        "All threads of the CTA (or of the cluster) are run side by side with numbers for what the kernel is given: in one run that is "
        "possible, an arrival that promises not to completes the phase."
    ),
    sanitizer=(
        "synccheck knows some misuse of barriers at run time; racecheck and synccheck reported none of the seeded asynchronous "
        "mistakes on an H200 (which left mbarrier counts alone)."
    ),
    check=check,
)
