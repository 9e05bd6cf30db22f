"""S010 publish-without-release."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.framework.reporting import reports
from ptxkit.analyses.framework.rule import Facts, Rule
from ptxkit.analyses.protocols.memory_order.flags import findings
from ptxkit.analyses.protocols.memory_order.kinds import FlagFault
from ptxkit.diagnostics import Diagnostic, Severity


def check(facts: Facts) -> Iterator[Diagnostic]:
    """Flags set by a relaxed store after a plain one, and polled elsewhere in the kernel."""
    return reports(facts, RULE, findings)


RULE = Rule(
    id="S010",
    name="publish-without-release",
    severity=Severity.WARNING,
    kind=FlagFault.PUBLISH_WITHOUT_RELEASE,
    summary="a flag is set without a release after the data that it announces",
    why=(
        "A thread that sees a relaxed store does not necessarily see the plain stores before it: the store must release, or a "
        "fence must precede it (8.8, 8.9.5)."
    ),
    bad="""
        .visible .entry k(.param .u64 p, .param .u64 q)
        {
        mov.u32 %r1, %ctaid.x;
        ld.param.u64 %rd1, [p];
        ld.param.u64 %rd2, [q];
        cvta.to.global.u64 %rd1, %rd1;
        cvta.to.global.u64 %rd2, %rd2;
        setp.ne.u32 %p1, %r1, 0;
        @%p1 bra READER;
        st.global.u32 [%rd2], 42;
        st.relaxed.gpu.global.u32 [%rd1], 1;
        ret;
        READER:
        ld.acquire.gpu.global.u32 %r2, [%rd1];
        setp.eq.u32 %p2, %r2, 0;
        @%p2 bra READER;
        ld.global.u32 %r3, [%rd2];
        st.global.u32 [%rd2+4], %r3;
        ret;
        }
    """,
    good="""
        .visible .entry k(.param .u64 p, .param .u64 q)
        {
        mov.u32 %r1, %ctaid.x;
        ld.param.u64 %rd1, [p];
        ld.param.u64 %rd2, [q];
        cvta.to.global.u64 %rd1, %rd1;
        cvta.to.global.u64 %rd2, %rd2;
        setp.ne.u32 %p1, %r1, 0;
        @%p1 bra READER;
        st.global.u32 [%rd2], 42;
        st.release.gpu.global.u32 [%rd1], 1;
        ret;
        READER:
        ld.acquire.gpu.global.u32 %r2, [%rd1];
        setp.eq.u32 %p2, %r2, 0;
        @%p2 bra READER;
        ld.global.u32 %r3, [%rd2];
        st.global.u32 [%rd2+4], %r3;
        ret;
        }
    """,
    proof="One store follows the other with no release in between, and the flag is polled elsewhere in the kernel.",
    sanitizer="none of its tools looks for this.",
    check=check,
)
