"""M001 mbarrier-use-before-init."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.framework.reporting import reports
from ptxkit.analyses.framework.rule import Facts, Rule
from ptxkit.analyses.protocols.mbarrier.kinds import MbarrierFault
from ptxkit.analyses.protocols.mbarrier.static_checks import findings
from ptxkit.diagnostics import Diagnostic, Severity


def check(facts: Facts) -> Iterator[Diagnostic]:
    """Mbarriers that threads use and no thread initializes."""
    return reports(facts, RULE, findings)


RULE = Rule(
    id="M001",
    name="mbarrier-use-before-init",
    severity=Severity.ERROR,
    kind=MbarrierFault.MBARRIER_USE_BEFORE_INIT,
    summary="an mbarrier is used that no thread has initialized",
    why="Any operation on an uninitialized mbarrier, other than mbarrier.init, is undefined (9.7.14.15).",
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
        "All threads of the CTA (or of the cluster) are executed with example inputs: in one possible run, threads wait at the "
        "mbarrier, and nothing has initialized it; the address cannot come from elsewhere. Without a run: the kernel arrives and "
        "waits at an mbarrier of its own, and no init can be for it; it is a warning if only one stage of a ring is left out."
    ),
    sanitizer=(
        "synccheck reports some misuse of barriers at run time. racecheck and synccheck reported none of the asynchronous "
        "mistakes that were seeded on an H200 (none of these was in an mbarrier count)."
    ),
    check=check,
)
