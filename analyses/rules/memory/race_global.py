"""G006 race-global."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.framework.rule import Facts, Rule
from ptxkit.diagnostics import Diagnostic, Severity


def check(facts: Facts) -> Iterator[Diagnostic]:
    """Nothing: global addresses are not known well enough without execution, which reports this rule."""
    return iter(())


RULE = Rule(
    id="G006",
    name="race-global",
    severity=Severity.ERROR,
    summary="data race in global memory: two threads access the same bytes, at least one writes, and nothing orders them",
    why="Conflicting accesses that no synchronization orders, and that are not both atomic or strong, are a data race (8.7.1).",
    is_shown=True,
    bad="""
        .visible .entry k(.param .u64 p) .reqntid 64
        {
        .reg .b32 %r<2>;
        .reg .b64 %rd<4>;
        ld.param.u64 %rd1, [p];
        cvta.to.global.u64 %rd2, %rd1;
        mov.u32 %r1, %tid.x;
        st.global.u32 [%rd2], %r1;
        ret;
        }
    """,
    good="""
        .visible .entry k(.param .u64 p) .reqntid 64
        {
        .reg .b32 %r<2>;
        .reg .b64 %rd<4>;
        ld.param.u64 %rd1, [p];
        cvta.to.global.u64 %rd2, %rd1;
        mov.u32 %r1, %tid.x;
        mul.wide.u32 %rd3, %r1, 4;
        add.s64 %rd2, %rd2, %rd3;
        st.global.u32 [%rd2], %r1;
        ret;
        }
    """,
    proof="The kernel is executed in an example launch: two named threads access the same bytes, and nothing orders them.",
    sanitizer="racecheck looks at shared memory only.",
    check=check,
)
