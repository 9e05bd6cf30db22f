"""G007 unordered-critical-section."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.framework.rule import Facts, Rule
from ptxkit.diagnostics import Diagnostic, Severity


def check(facts: Facts) -> Iterator[Diagnostic]:
    """Nothing: which thread waits for which is seen by execution, which reports this rule."""
    return iter(())


RULE = Rule(
    id="G007",
    name="unordered-critical-section",
    severity=Severity.WARNING,
    summary="a lock or flag does not order what it protects: a fence is missing or too narrow, or one thread does not take the lock",
    why=(
        "Strong accesses of the same bytes are no data race, but only a release pattern and an acquire pattern order them (8.8, 8.9.5): "
        "without, a thread that has waited for another one may read an old value, or lose what it writes."
    ),
    is_shown=True,
    bad="""
        .global .align 4 .u32 lock;
        .visible .entry k(.param .u64 p) .reqntid 32
        {
        .reg .pred %p<3>;
        .reg .b32 %r<5>;
        .reg .b64 %rd<3>;
        ld.param.u64 %rd1, [p];
        cvta.to.global.u64 %rd2, %rd1;
        mov.u32 %r1, %tid.x;
        setp.ne.u32 %p1, %r1, 0;
        @%p1 bra DONE;
        TAKE:
        atom.global.cas.b32 %r2, [lock], 0, 1;
        setp.ne.u32 %p2, %r2, 0;
        @%p2 bra TAKE;
        fence.acq_rel.gpu;
        mov.u32 %r3, %ctaid.x;
        st.relaxed.gpu.global.u32 [%rd2], %r3;
        fence.acq_rel.cta;
        atom.global.exch.b32 %r4, [lock], 0;
        DONE:
        ret;
        }
    """,
    good="""
        .global .align 4 .u32 lock;
        .visible .entry k(.param .u64 p) .reqntid 32
        {
        .reg .pred %p<3>;
        .reg .b32 %r<5>;
        .reg .b64 %rd<3>;
        ld.param.u64 %rd1, [p];
        cvta.to.global.u64 %rd2, %rd1;
        mov.u32 %r1, %tid.x;
        setp.ne.u32 %p1, %r1, 0;
        @%p1 bra DONE;
        TAKE:
        atom.global.cas.b32 %r2, [lock], 0, 1;
        setp.ne.u32 %p2, %r2, 0;
        @%p2 bra TAKE;
        fence.acq_rel.gpu;
        mov.u32 %r3, %ctaid.x;
        st.relaxed.gpu.global.u32 [%rd2], %r3;
        fence.acq_rel.gpu;
        atom.global.exch.b32 %r4, [lock], 0;
        DONE:
        ret;
        }
    """,
    proof=(
        "The kernel is executed in an example launch: one thread waits for what another one has written, both access the same bytes by "
        "strong accesses, and no release and acquire that the manual knows of order them. A strong read right after the wait counts as "
        "ordered, as many programs rely on it."
    ),
    sanitizer="racecheck looks at shared memory only.",
    check=check,
)
