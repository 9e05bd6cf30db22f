"""S009 implicit-warp-synchrony."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.framework.reporting import reports
from ptxkit.analyses.framework.rule import Facts, Rule
from ptxkit.analyses.protocols.mbarrier.dynamic_checks import findings
from ptxkit.analyses.protocols.mbarrier.kinds import RaceFault
from ptxkit.diagnostics import Diagnostic, Severity


def check(facts: Facts) -> Iterator[Diagnostic]:
    """Unordered accesses to shared memory by threads of one warp."""
    return reports(facts, RULE, findings)


RULE = Rule(
    id="S009",
    name="implicit-warp-synchrony",
    severity=Severity.ERROR,
    kind=RaceFault.IMPLICIT_WARP_SYNCHRONY,
    summary="threads of a warp communicate through shared memory without bar.warp.sync",
    why=(
        "Threads of a warp do not necessarily run in lockstep: bar.warp.sync must separate a write from the read by another lane "
        "(9.7.14.2, 3.2)."
    ),
    bad="""
        .visible .entry k() .reqntid 64
        {
        .shared .align 8 .b64 bar;
        .shared .align 128 .b8 data[1024];
        mov.u32 %r1, %tid.x;
        mov.u32 %r2, bar;
        mov.u32 %r3, data;
        setp.ne.u32 %p1, %r1, 0;
        setp.lt.u32 %p2, %r1, 16;
        @%p2 bra LOW;
        shl.b32 %r4, %r1, 2;
        add.u32 %r4, %r3, %r4;
        st.shared.u32 [%r4], %r1;
        bra DONE;
        LOW:
        xor.b32 %r8, %r1, 16;
        shl.b32 %r8, %r8, 2;
        add.u32 %r8, %r3, %r8;
        ld.shared.u32 %r5, [%r8];
        DONE:
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
        bar.warp.sync -1;
        xor.b32 %r8, %r1, 1;
        shl.b32 %r8, %r8, 2;
        add.u32 %r8, %r3, %r8;
        ld.shared.u32 %r5, [%r8];
        ret;
        }
    """,
    proof=(
        "All threads of the CTA (or of the cluster) are executed with example inputs: in one possible run, two named threads of "
        "one warp access the same bytes, with no bar.warp.sync or the like in between."
    ),
    sanitizer="racecheck reports hazards within a warp if a run reaches it.",
    check=check,
)
