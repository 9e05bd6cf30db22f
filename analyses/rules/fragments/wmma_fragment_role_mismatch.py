"""F004 wmma-fragment-role-mismatch."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.framework.rule import Facts, Rule
from ptxkit.analyses.protocols.fragments.fragments import disagreements, where
from ptxkit.diagnostics import Diagnostic, Severity
from ptxkit.isa.forms import Fragment

_NAMES = {"a": "matrix A", "b": "matrix B", "c": "the accumulator"}


def check(facts: Facts) -> Iterator[Diagnostic]:
    """Fragments used in another role: A as B, or an accumulator as A."""
    for routine in facts.routines:
        for found in disagreements(routine, _differ):
            made, taken = _NAMES[found.source.fragment.matrix], _NAMES[found.use.fragment.matrix]
            yield facts.report(
                RULE,
                where(routine, found.use),
                f"this fragment is used as {taken}, but was produced as {made}",
                related=[(routine.where(found.source.instruction), "produced here")],
            )


def _differ(made: Fragment, taken: Fragment) -> bool:
    return made.matrix != taken.matrix


RULE = Rule(
    id="F004",
    name="wmma-fragment-role-mismatch",
    severity=Severity.WARNING,
    summary="a fragment of one matrix that is used as that of another",
    why=(
        "Fragments of A, B and the accumulator are distributed over the threads in different layouts, which are not specified (9.7.15.3.1)."
    ),
    bad="""
        wmma.load.a.sync.aligned.row.m16n16k16.s8 {%r0, %r1}, [%rd1];
        wmma.load.b.sync.aligned.col.m16n16k16.s8 {%r2, %r3}, [%rd2];
        wmma.mma.sync.aligned.row.col.m16n16k16.s32.s8.s8.s32 {%r4, %r5, %r6, %r7, %r8, %r9, %r10, %r11}, {%r2, %r3},
            {%r0, %r1}, {0, 0, 0, 0, 0, 0, 0, 0};
    """,
    good="""
        wmma.load.a.sync.aligned.row.m16n16k16.s8 {%r0, %r1}, [%rd1];
        wmma.load.b.sync.aligned.col.m16n16k16.s8 {%r2, %r3}, [%rd2];
        wmma.mma.sync.aligned.row.col.m16n16k16.s32.s8.s8.s32 {%r4, %r5, %r6, %r7, %r8, %r9, %r10, %r11}, {%r0, %r1},
            {%r2, %r3}, {0, 0, 0, 0, 0, 0, 0, 0};
    """,
    proof=(
        "The fragment that each register holds is followed from its load through copies, loops and control-flow merges; an "
        "operand is judged only if all of its registers hold one. The matrices differ. It is a warning, since the manual does not "
        "say which register holds which element."
    ),
    sanitizer="none of its tools looks for this.",
    check=check,
)
