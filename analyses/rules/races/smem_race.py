"""S003 smem-race."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.framework.reporting import reports
from ptxkit.analyses.framework.rule import Facts, Rule
from ptxkit.analyses.protocols.mbarrier.dynamic_checks import findings
from ptxkit.analyses.protocols.mbarrier.kinds import RaceFault
from ptxkit.diagnostics import Diagnostic, Severity


def check(facts: Facts) -> Iterator[Diagnostic]:
    """Unordered accesses to shared memory by threads of different warps."""
    return reports(facts, RULE, findings)


RULE = Rule(
    id="S003",
    name="smem-race",
    severity=Severity.ERROR,
    kind=RaceFault.SMEM_RACE,
    summary="two threads access the same shared memory, at least one writes, and no barrier orders them",
    why="Conflicting accesses that no barrier or other synchronization orders are a data race (8.7.1).",
    bad="""
        .visible .entry k() .reqntid 64
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
        xor.b32 %r8, %r1, 32;
        shl.b32 %r8, %r8, 2;
        add.u32 %r8, %r3, %r8;
        ld.shared.u32 %r5, [%r8];
        ret;
        }
    """,
    good="""
        .visible .entry k() .reqntid 64
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
        bar.sync 0;
        xor.b32 %r8, %r1, 32;
        shl.b32 %r8, %r8, 2;
        add.u32 %r8, %r3, %r8;
        ld.shared.u32 %r5, [%r8];
        ret;
        }
    """,
    proof=(
        "All threads of the CTA (or of the cluster) are executed with example inputs: in one possible run, two named "
        "threads access the same bytes, and nothing orders them."
    ),
    sanitizer="racecheck reports it if a run reaches it, unless ptxas has moved or removed one of the accesses.",
    check=check,
)
