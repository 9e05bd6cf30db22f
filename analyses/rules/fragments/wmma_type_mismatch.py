"""F003 wmma-type-mismatch."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.framework.rule import Facts, Rule
from ptxkit.analyses.protocols.fragments.fragments import disagreements, where
from ptxkit.diagnostics import Diagnostic, Severity
from ptxkit.isa.forms import Fragment


def check(facts: Facts) -> Iterator[Diagnostic]:
    """Fragments whose elements are used as another type."""
    for routine in facts.routines:
        for found in disagreements(routine, _differ):
            made = found.source.fragment
            yield facts.report(
                RULE,
                where(routine, found.use),
                f"the elements of this fragment are used as `{found.use.fragment.type}`, but were produced as `{made.type}`",
                related=[(routine.where(found.source.instruction), "produced here")],
                severity=Severity.ERROR if found.is_certain else Severity.WARNING,
            )


def _differ(made: Fragment, taken: Fragment) -> bool:
    return made.type != taken.type and made.matrix == taken.matrix


RULE = Rule(
    id="F003",
    name="wmma-type-mismatch",
    severity=Severity.ERROR,
    summary="a matrix fragment whose elements are used with a type other than that of the instruction that produced them",
    why="The types that load, MMA and store name must match; passing a fragment on does not convert it (9.7.15.3.1, 9.7.15.3.5).",
    bad="""
        wmma.load.a.sync.aligned.row.m16n16k16.u8 {%r0, %r1}, [%rd1];
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
        "operand is judged only if all of its registers hold one. The types differ."
    ),
    sanitizer="none of its tools looks for this.",
    check=check,
)
