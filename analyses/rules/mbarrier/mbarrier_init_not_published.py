"""M002 mbarrier-init-not-published."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.framework.reporting import reports
from ptxkit.analyses.framework.rule import Facts, Rule
from ptxkit.analyses.protocols.mbarrier.kinds import MbarrierFault
from ptxkit.analyses.protocols.mbarrier.static_checks import findings
from ptxkit.diagnostics import Diagnostic, Severity


def check(facts: Facts) -> Iterator[Diagnostic]:
    """Uses of an mbarrier that are not ordered after its initialization."""
    return reports(facts, RULE, findings)


RULE = Rule(
    id="M002",
    name="mbarrier-init-not-published",
    severity=Severity.ERROR,
    kind=MbarrierFault.MBARRIER_INIT_NOT_PUBLISHED,
    summary="an mbarrier is used by threads that have not waited for its initialization",
    why="One thread initializes the mbarrier; the others may use it only after a barrier (9.7.14.15.9, 8.7.1).",
    bad="""
        .visible .entry k() .reqntid 64
        {
        .shared .align 8 .b64 bar;
        .shared .align 128 .b8 data[1024];
        mov.u32 %r1, %tid.x;
        mov.u32 %r2, bar;
        mov.u32 %r3, data;
        setp.ne.u32 %p1, %r1, 0;
        bar.sync 0;

        @%p1 bra READY;
        mbarrier.init.shared::cta.b64 [%r2], 64;
        READY:
        mbarrier.arrive.shared::cta.b64 _, [%r2];

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
        "All threads of the CTA (or of the cluster) are executed with example inputs: in one possible run, a thread uses the "
        "mbarrier, and nothing orders that after the initialization. It is a warning without a run: a path leads to a use without "
        "a barrier or an initialization."
    ),
    sanitizer=(
        "synccheck reports some misuse of barriers at run time. racecheck and synccheck reported none of the asynchronous "
        "mistakes that were seeded on an H200 (none of these was in an mbarrier count)."
    ),
    check=check,
)
