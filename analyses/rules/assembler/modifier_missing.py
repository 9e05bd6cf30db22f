"""E105 modifier-missing."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.framework.rule import Facts, Rule
from ptxkit.diagnostics import Diagnostic, Severity


def check(facts: Facts) -> Iterator[Diagnostic]:
    """The problems found with the instruction table."""
    return facts.problem_reports(RULE)


RULE = Rule(
    id="E105",
    name="modifier-missing",
    severity=Severity.ERROR,
    summary="an instruction without a modifier that it needs",
    why="Types, rounding, shapes and `.sync` are often mandatory (9.7).",
    bad="div.f32 %f1, %f2, %f3;",
    good="div.rn.f32 %f1, %f2, %f3;",
    ptxas="refuses the bad example: Rounding modifier or '.approx' modifier required for instruction 'div'",
    check=check,
)
