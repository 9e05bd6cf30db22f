"""E108 operand-type."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.framework.rule import Facts, Rule
from ptxkit.diagnostics import Diagnostic, Severity


def check(facts: Facts) -> Iterator[Diagnostic]:
    """The problems found with the instruction table."""
    return facts.problem_reports(RULE)


RULE = Rule(
    id="E108",
    name="operand-type",
    severity=Severity.ERROR,
    summary="a register of the wrong type or size",
    why="Sizes must match, and floats and integers do not mix; untyped registers take either (9.4).",
    bad="add.f32 %f1, %fd1, %f2;",
    good="add.f32 %f1, %f3, %f2;",
    ptxas="refuses the bad example: Arguments mismatch for instruction 'add'",
    check=check,
)
