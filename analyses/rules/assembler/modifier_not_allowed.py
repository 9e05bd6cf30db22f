"""E103 modifier-not-allowed."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.framework.rule import Facts, Rule
from ptxkit.diagnostics import Diagnostic, Severity


def check(facts: Facts) -> Iterator[Diagnostic]:
    """The problems found with the instruction table."""
    return facts.problem_reports(RULE)


RULE = Rule(
    id="E103",
    name="modifier-not-allowed",
    severity=Severity.ERROR,
    summary="a modifier that this form of the instruction does not take",
    why="Many modifiers go with certain types or state spaces only (9.7).",
    bad="add.ftz.f64 %fd1, %fd2, %fd3;",
    good="add.ftz.f32 %f1, %f2, %f3;",
    ptxas="refuses the bad example: Illegal modifier '.ftz' for instruction 'add'",
    check=check,
)
