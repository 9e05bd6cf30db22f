"""F002 wmma-layout-mismatch."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.framework.rule import Facts, Rule
from ptxkit.analyses.protocols.fragments.fragments import disagreements, where
from ptxkit.diagnostics import Diagnostic, Severity
from ptxkit.isa.forms import Fragment


def check(facts: Facts) -> Iterator[Diagnostic]:
    """Fragments loaded in row-major layout and multiplied as column-major, or the reverse."""
    for routine in facts.routines:
        for found in disagreements(routine, _differ):
            made = found.source.fragment
            yield facts.report(
                RULE,
                where(routine, found.use),
                f"matrix {made.matrix.upper()} is multiplied as `{found.use.fragment.layout}`, but was loaded as `{made.layout}`",
                related=[(routine.where(found.source.instruction), "loaded here")],
                severity=Severity.ERROR if found.is_certain else Severity.WARNING,
            )


def _differ(made: Fragment, taken: Fragment) -> bool:
    return made.matrix == taken.matrix != "c" and made.layout != taken.layout


RULE = Rule(
    id="F002",
    name="wmma-layout-mismatch",
    severity=Severity.ERROR,
    summary="a matrix fragment that is multiplied with a different layout than it was loaded with",
    why="The layouts that an MMA names must be those with which A and B were loaded (9.7.15.3.5).",
    bad="""
        wmma.load.a.sync.aligned.col.m16n16k16.s8 {%r0, %r1}, [%rd1];
        wmma.load.b.sync.aligned.col.m16n16k16.s8 {%r2, %r3}, [%rd2];
        wmma.mma.sync.aligned.row.col.m16n16k16.s32.s8.s8.s32 {%r4, %r5, %r6, %r7, %r8, %r9, %r10, %r11}, {%r0, %r1},
            {%r2, %r3}, {0, 0, 0, 0, 0, 0, 0, 0};
    """,
    good="""
        wmma.load.a.sync.aligned.row.m16n16k16.s8 {%r0, %r1}, [%rd1];
        wmma.load.b.sync.aligned.col.m16n16k16.s8 {%r2, %r3}, [%rd2];
        wmma.mma.sync.aligned.row.col.m16n16k16.s32.s8.s8.s32 {%r4, %r5, %r6, %r7, %r8, %r9, %r10, %r11}, {%r0, %r1},
            {%r2, %r3}, {0, 0, 0, 0, 0, 0, 0, 0};
    """,
    proof=(
        "The fragment that each register holds is followed from its load through copies, loops and control-flow merges; an "
        "operand is judged only if all of its registers hold one. The layouts differ."
    ),
    sanitizer="none of its tools looks for this.",
    check=check,
)
