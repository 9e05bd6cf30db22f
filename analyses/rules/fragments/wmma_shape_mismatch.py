"""F001 wmma-shape-mismatch."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.framework.rule import Facts, Rule
from ptxkit.analyses.protocols.fragments.fragments import disagreements, where
from ptxkit.diagnostics import Diagnostic, Severity
from ptxkit.isa.forms import Fragment


def check(facts: Facts) -> Iterator[Diagnostic]:
    """Fragments used with another matrix shape than they were produced for."""
    for routine in facts.routines:
        for found in disagreements(routine, _differ):
            made = found.source.fragment
            yield facts.report(
                RULE,
                where(routine, found.use),
                f"this fragment is used with shape `{found.use.fragment.shape}`, but was produced with shape `{made.shape}`",
                related=[(routine.where(found.source.instruction), "produced here")],
                severity=Severity.ERROR if found.is_certain else Severity.WARNING,
            )


def _differ(made: Fragment, taken: Fragment) -> bool:
    return made.shape != taken.shape


RULE = Rule(
    id="F001",
    name="wmma-shape-mismatch",
    severity=Severity.ERROR,
    summary="a matrix fragment that is read with a different shape than it was produced with",
    why="Which element a register of a fragment holds depends on the shape; load, MMA and store must name the same one (9.7.15.3.5).",
    bad="""
        wmma.load.c.sync.aligned.row.m8n32k16.f32 {%f0, %f1, %f2, %f3, %f4, %f5, %f6, %f7}, [%rd1];
        wmma.store.d.sync.aligned.row.m16n16k16.f32 [%rd2], {%f0, %f1, %f2, %f3, %f4, %f5, %f6, %f7};
    """,
    good="""
        wmma.load.c.sync.aligned.row.m16n16k16.f32 {%f0, %f1, %f2, %f3, %f4, %f5, %f6, %f7}, [%rd1];
        wmma.store.d.sync.aligned.row.m16n16k16.f32 [%rd2], {%f0, %f1, %f2, %f3, %f4, %f5, %f6, %f7};
    """,
    proof=(
        "The fragment that each register holds is followed from its load through copies, loops and control-flow merges; an "
        "operand is judged only if all of its registers hold one. The shapes differ."
    ),
    sanitizer="none of its tools looks for this.",
    check=check,
)
