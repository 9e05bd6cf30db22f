"""M008 mbarrier-parity."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.framework.reporting import reports
from ptxkit.analyses.framework.rule import Facts, Rule
from ptxkit.analyses.protocols.mbarrier.kinds import MbarrierFault
from ptxkit.analyses.protocols.mbarrier.static_checks import findings
from ptxkit.diagnostics import Diagnostic, Severity


def check(facts: Facts) -> Iterator[Diagnostic]:
    """Waits whose parity is not that of the next phase."""
    return reports(facts, RULE, findings)


RULE = Rule(
    id="M008",
    name="mbarrier-parity",
    severity=Severity.ERROR,
    kind=MbarrierFault.MBARRIER_PARITY,
    summary="a wait has the wrong parity",
    why=(
        "A wait by parity distinguishes only the current phase from the one before: the parity must change with every phase (9.7.14.15.16)."
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
        @%p1 bra READY;
        mbarrier.init.shared::cta.b64 [%r2], 64;
        READY:
        bar.sync 0;
        mbarrier.arrive.shared::cta.b64 _, [%r2];

        FIRST:
        mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r2], 0;
        @!%p2 bra FIRST;
        mbarrier.arrive.shared::cta.b64 _, [%r2];

        SECOND:
        mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r2], 0;
        @!%p2 bra SECOND;
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

        FIRST:
        mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r2], 0;
        @!%p2 bra FIRST;
        mbarrier.arrive.shared::cta.b64 _, [%r2];

        SECOND:
        mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r2], 1;
        @!%p2 bra SECOND;
        ret;
        }
    """,
    proof=(
        "All threads of the CTA (or of the cluster) are executed with example inputs: in one possible run, the wait lets threads "
        "pass at once or ends in a deadlock, and with the other parity the run completes. It is a warning without a run: waits at "
        "one ring whose parities or lengths contradict each other, or a first phase for which all threads wait that could "
        "complete it."
    ),
    sanitizer=(
        "synccheck reports some misuse of barriers at run time. racecheck and synccheck reported none of the asynchronous "
        "mistakes that were seeded on an H200 (none of these was in an mbarrier count)."
    ),
    check=check,
)
