"""S009 implicit-warp-synchrony."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.framework.reporting import reports
from ptxkit.analyses.framework.rule import Facts, Rule
from ptxkit.analyses.protocols.mbarrier.dynamic_checks import findings
from ptxkit.analyses.protocols.mbarrier.kinds import RaceFault
from ptxkit.diagnostics import Diagnostic, Severity


def check(facts: Facts) -> Iterator[Diagnostic]:
    """Accesses of shared memory by threads of one warp that nothing orders."""
    return reports(facts, RULE, findings)


RULE = Rule(
    id="S009",
    name="implicit-warp-synchrony",
    severity=Severity.ERROR,
    kind=RaceFault.IMPLICIT_WARP_SYNCHRONY,
    summary="threads of a warp exchange through shared memory without bar.warp.sync",
    why="Threads of a warp need not go in step: bar.warp.sync must stand between a write and the read of another lane (9.7.14.2, 3.2).",
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
        "setp.lt.u32 %p2, %r1, 16;\n"
        "@%p2 bra LOW;\n"
        "shl.b32 %r4, %r1, 2;\n"
        "add.u32 %r4, %r3, %r4;\n"
        "st.shared.u32 [%r4], %r1;\n"
        "bra DONE;\n"
        "LOW:\n"
        "xor.b32 %r8, %r1, 16;\n"
        "shl.b32 %r8, %r8, 2;\n"
        "add.u32 %r8, %r3, %r8;\n"
        "ld.shared.u32 %r5, [%r8];\n"
        "DONE:\n"
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
        "shl.b32 %r4, %r1, 2;\n"
        "add.u32 %r4, %r3, %r4;\n"
        "st.shared.u32 [%r4], %r1;\n"
        "bar.warp.sync -1;\n"
        "xor.b32 %r8, %r1, 1;\n"
        "shl.b32 %r8, %r8, 2;\n"
        "add.u32 %r8, %r3, %r8;\n"
        "ld.shared.u32 %r5, [%r8];\n"
        "ret;\n"
        "}\n"
    ),
    proof=(
        "All threads of the CTA (or of the cluster) are run side by side with numbers for what the kernel is given: in one run that is "
        "possible, two named threads of one warp touch the same bytes, and no bar.warp.sync or the like is between."
    ),
    sanitizer="racecheck reports hazards within a warp in a run that comes there.",
    check=check,
)
