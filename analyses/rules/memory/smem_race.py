"""S003 smem-race."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.framework.reporting import reports
from ptxkit.analyses.framework.rule import Facts, Rule
from ptxkit.analyses.protocols.mbarrier.dynamic_checks import findings
from ptxkit.analyses.protocols.mbarrier.kinds import RaceFault
from ptxkit.diagnostics import Diagnostic, Severity


def check(facts: Facts) -> Iterator[Diagnostic]:
    """Accesses of shared memory by threads of different warps that nothing orders."""
    return reports(facts, RULE, findings)


RULE = Rule(
    id="S003",
    name="smem-race",
    severity=Severity.ERROR,
    kind=RaceFault.SMEM_RACE,
    summary="two threads touch the same shared memory, at least one writes, and nothing says which comes first",
    why="Conflicting accesses that no barrier or other synchronization orders are a data race (8.7.1).",
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
        "shl.b32 %r4, %r1, 2;\n"
        "add.u32 %r4, %r3, %r4;\n"
        "st.shared.u32 [%r4], %r1;\n"
        "xor.b32 %r8, %r1, 32;\n"
        "shl.b32 %r8, %r8, 2;\n"
        "add.u32 %r8, %r3, %r8;\n"
        "ld.shared.u32 %r5, [%r8];\n"
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
        "bar.sync 0;\n"
        "xor.b32 %r8, %r1, 32;\n"
        "shl.b32 %r8, %r8, 2;\n"
        "add.u32 %r8, %r3, %r8;\n"
        "ld.shared.u32 %r5, [%r8];\n"
        "ret;\n"
        "}\n"
    ),
    proof=(
        "All threads of the CTA (or of the cluster) are run side by side with numbers for what the kernel is given: in one run that is "
        "possible, two named threads touch the same bytes, and nothing orders them."
    ),
    sanitizer="racecheck reports it in a run that comes there; not if the compiler has moved one access away, and ptxas may.",
    check=check,
)
