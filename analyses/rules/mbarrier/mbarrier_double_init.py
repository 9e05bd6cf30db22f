"""M004 mbarrier-double-init."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.framework.reporting import reports
from ptxkit.analyses.framework.rule import Facts, Rule
from ptxkit.analyses.protocols.mbarrier.dynamic_checks import findings
from ptxkit.analyses.protocols.mbarrier.kinds import MbarrierFault
from ptxkit.diagnostics import Diagnostic, Severity


def check(facts: Facts) -> Iterator[Diagnostic]:
    """Initializations of an mbarrier that is already initialized."""
    return reports(facts, RULE, findings)


RULE = Rule(
    id="M004",
    name="mbarrier-double-init",
    severity=Severity.ERROR,
    kind=MbarrierFault.MBARRIER_DOUBLE_INIT,
    summary="an mbarrier is initialized a second time",
    why=(
        "Before the memory of an mbarrier is used for anything else, another mbarrier included, the mbarrier must be invalidated "
        "(9.7.14.15.10)."
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
        mbarrier.init.shared::cta.b64 [%r2], 32;
        READY:
        bar.sync 0;
        mbarrier.arrive.shared::cta.b64 _, [%r2];
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
        mbarrier.inval.shared::cta.b64 [%r2];
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
        "All threads of the CTA (or of the cluster) are executed with example inputs: in one possible run, the mbarrier is valid "
        "when it is initialized again."
    ),
    sanitizer=(
        "synccheck reports some misuse of barriers at run time. racecheck and synccheck reported none of the asynchronous "
        "mistakes that were seeded on an H200 (none of these was in an mbarrier count)."
    ),
    check=check,
)
