"""E104 modifiers-exclude-each-other."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.framework.rule import Facts, Rule
from ptxkit.diagnostics import Diagnostic, Severity


def check(facts: Facts) -> Iterator[Diagnostic]:
    """The problems found with the instruction table."""
    return facts.problem_reports(RULE)


RULE = Rule(
    id="E104",
    name="modifiers-exclude-each-other",
    severity=Severity.ERROR,
    summary="two modifiers that exclude each other",
    why="They choose between alternatives, or one is meaningless with the other (9.7).",
    bad="add.rn.rz.f32 %f1, %f2, %f3;",
    good="add.rn.f32 %f1, %f2, %f3;",
    ptxas="refuses the bad example: Multiple rounding modifiers specified",
    check=check,
)
