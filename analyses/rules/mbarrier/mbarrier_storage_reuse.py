"""M011 mbarrier-storage-reuse."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.framework.reporting import reports
from ptxkit.analyses.framework.rule import Facts, Rule
from ptxkit.analyses.protocols.mbarrier.dynamic_checks import findings
from ptxkit.analyses.protocols.mbarrier.kinds import MbarrierFault
from ptxkit.diagnostics import Diagnostic, Severity


def check(facts: Facts) -> Iterator[Diagnostic]:
    """Plain writes to mbarriers, and operations on invalidated ones."""
    return reports(facts, RULE, findings)


RULE = Rule(
    id="M011",
    name="mbarrier-storage-reuse",
    severity=Severity.ERROR,
    kind=MbarrierFault.MBARRIER_STORAGE_REUSE,
    summary="the memory of a valid mbarrier is used for something else",
    why="mbarrier.inval must come before any other use of the memory, and only mbarrier.init may follow it (9.7.14.15.10).",
    bad="""
        .visible .entry k() .reqntid 64
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
        mbarrier.arrive.shared::cta.b64 _, [%r2];

        WAIT:
        mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r2], 0;
        @!%p2 bra WAIT;
        bar.sync 0;
        @%p1 bra DONE;
        st.shared.u32 [%r2], 0;
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
        @%p1 bra READY;
        mbarrier.init.shared::cta.b64 [%r2], 64;
        READY:
        bar.sync 0;
        mbarrier.arrive.shared::cta.b64 _, [%r2];

        WAIT:
        mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r2], 0;
        @!%p2 bra WAIT;
        bar.sync 0;
        @%p1 bra DONE;
        mbarrier.inval.shared::cta.b64 [%r2];
        st.shared.u32 [%r2], 0;
        DONE:
        ret;
        }
    """,
    proof=(
        "All threads of the CTA (or of the cluster) are executed with example inputs: in one possible run, the memory of a valid "
        "mbarrier is written, or an invalidated one is used."
    ),
    sanitizer=(
        "synccheck reports some misuse of barriers at run time. racecheck and synccheck reported none of the asynchronous "
        "mistakes that were seeded on an H200 (none of these was in an mbarrier count)."
    ),
    check=check,
)
