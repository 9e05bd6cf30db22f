"""M009 wait-never-arrived."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.framework.reporting import reports
from ptxkit.analyses.framework.rule import Facts, Rule
from ptxkit.analyses.protocols.mbarrier.kinds import MbarrierFault
from ptxkit.analyses.protocols.mbarrier.static_checks import findings
from ptxkit.diagnostics import Diagnostic, Severity


def check(facts: Facts) -> Iterator[Diagnostic]:
    """Waits at mbarriers at which no thread arrives, and others that never complete."""
    return reports(facts, RULE, findings)


RULE = Rule(
    id="M009",
    name="wait-never-arrived",
    severity=Severity.ERROR,
    kind=MbarrierFault.WAIT_NEVER_ARRIVED,
    summary="threads wait for a phase that nothing completes",
    why="Only arrivals complete a phase; expect_tx is not an arrival (9.7.14.15.6).",
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

        WAIT:
        mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r2], 0;
        @!%p2 bra WAIT;
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
        ret;
        }
    """,
    proof=(
        "All threads of the CTA (or of the cluster) are executed with example inputs: in one possible run, all threads wait, and "
        "none is left that could arrive. If the path of a thread is not known, nothing is reported. Without a run: no arrival of "
        "the kernel can be at the mbarrier; it is a warning if a loop waits for stage after stage and releases none."
    ),
    sanitizer=(
        "synccheck reports some misuse of barriers at run time. racecheck and synccheck reported none of the asynchronous "
        "mistakes that were seeded on an H200 (none of these was in an mbarrier count)."
    ),
    check=check,
)
