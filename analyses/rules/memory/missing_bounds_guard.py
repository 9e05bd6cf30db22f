"""S004 missing-bounds-guard."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.framework.reporting import reports
from ptxkit.analyses.framework.rule import Facts, Rule
from ptxkit.analyses.protocols.memory_order.flags import findings
from ptxkit.analyses.protocols.memory_order.kinds import FlagFault
from ptxkit.diagnostics import Diagnostic, Severity


def check(facts: Facts) -> Iterator[Diagnostic]:
    """Indexed accesses to global memory in kernels that leave a number parameter unread."""
    return reports(facts, RULE, findings)


RULE = Rule(
    id="S004",
    name="missing-bounds-guard",
    severity=Severity.INFO,
    kind=FlagFault.MISSING_BOUNDS_GUARD,
    summary="every thread of the grid accesses global memory, and no parameter is ever compared",
    why=(
        "A grid usually has more threads than there are elements: the index of a thread should be compared with the number of "
        "elements (9.7.10.8)."
    ),
    bad="""
        .visible .entry k(.param .u64 p, .param .u32 n) .reqntid 64
        {
        ld.param.u64 %rd1, [p];
        cvta.to.global.u64 %rd1, %rd1;
        mov.u32 %r1, %ctaid.x;
        mov.u32 %r2, %tid.x;
        mad.lo.s32 %r1, %r1, 64, %r2;
        mul.wide.s32 %rd2, %r1, 4;
        add.s64 %rd1, %rd1, %rd2;
        st.global.u32 [%rd1], 0;
        ret;
        }
    """,
    good="""
        .visible .entry k(.param .u64 p, .param .u32 n) .reqntid 64
        {
        ld.param.u64 %rd1, [p];
        ld.param.u32 %r3, [n];
        cvta.to.global.u64 %rd1, %rd1;
        mov.u32 %r1, %ctaid.x;
        mov.u32 %r2, %tid.x;
        mad.lo.s32 %r1, %r1, 64, %r2;
        setp.ge.s32 %p1, %r1, %r3;
        @%p1 bra DONE;
        mul.wide.s32 %rd2, %r1, 4;
        add.s64 %rd1, %rd1, %rd2;
        st.global.u32 [%rd1], 0;
        DONE:
        ret;
        }
    """,
    proof=(
        "A heuristic: an index is computed from the thread indices, a parameter that is a number is never read, and there is no "
        "comparison. It is never more than information."
    ),
    sanitizer="memcheck reports accesses outside of an allocation, if the sizes of the run cause them.",
    check=check,
)
