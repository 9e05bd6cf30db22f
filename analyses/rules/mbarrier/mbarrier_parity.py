"""M008 mbarrier-parity."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.framework.reporting import reports
from ptxkit.analyses.framework.rule import Facts, Rule
from ptxkit.analyses.protocols.mbarrier.kinds import MbarrierFault
from ptxkit.analyses.protocols.mbarrier.static_checks import findings
from ptxkit.diagnostics import Diagnostic, Severity


def check(facts: Facts) -> Iterator[Diagnostic]:
    """Waits of which the parity is not that of the phase that comes next."""
    return reports(facts, RULE, findings)


RULE = Rule(
    id="M008",
    name="mbarrier-parity",
    severity=Severity.ERROR,
    kind=MbarrierFault.MBARRIER_PARITY,
    summary="a wait is for the phase of the wrong parity",
    why="A wait by parity tells apart only the current phase and the one before: the parity must change with every phase (9.7.14.15.16).",
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
        "mbarrier.arrive.shared::cta.b64 _, [%r2];\n"
        "\n"
        "FIRST:\n"
        "mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r2], 0;\n"
        "@!%p2 bra FIRST;\n"
        "mbarrier.arrive.shared::cta.b64 _, [%r2];\n"
        "\n"
        "SECOND:\n"
        "mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r2], 0;\n"
        "@!%p2 bra SECOND;\n"
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
        "mbarrier.init.shared::cta.b64 [%r2], 64;\n"
        "READY:\n"
        "bar.sync 0;\n"
        "mbarrier.arrive.shared::cta.b64 _, [%r2];\n"
        "\n"
        "FIRST:\n"
        "mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r2], 0;\n"
        "@!%p2 bra FIRST;\n"
        "mbarrier.arrive.shared::cta.b64 _, [%r2];\n"
        "\n"
        "SECOND:\n"
        "mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r2], 1;\n"
        "@!%p2 bra SECOND;\n"
        "ret;\n"
        "}\n"
    ),
    proof=(
        "All threads of the CTA (or of the cluster) are run side by side with numbers for what the kernel is given: in one run that is "
        "possible, the wait lets threads pass at once or stops them for ever, and with the other parity all goes well. "
        "A warning without a run: waits at one ring whose parities "
        "or lengths disagree, or a first phase that all who could complete it wait for themselves."
    ),
    sanitizer=(
        "synccheck knows some misuse of barriers at run time; racecheck and synccheck reported none of the seeded asynchronous "
        "mistakes on an H200 (which left mbarrier counts alone)."
    ),
    check=check,
)
