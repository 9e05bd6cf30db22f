"""E106 operand-count."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.framework.rule import Facts, Rule
from ptxkit.diagnostics import Diagnostic, Severity


def check(facts: Facts) -> Iterator[Diagnostic]:
    """The problems found with the instruction table."""
    return facts.problem_reports(RULE)


RULE = Rule(
    id="E106",
    name="operand-count",
    severity=Severity.ERROR,
    summary="too few or too many operands",
    why="The form says how many there are, and which may be left out (9.7).",
    bad="add.u32 %r1, %r2;",
    good="add.u32 %r1, %r2, %r3;",
    ptxas="refuses the bad example: Arguments mismatch for instruction 'add'",
    check=check,
)
