"""E107 operand-kind."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.framework.rule import Facts, Rule
from ptxkit.diagnostics import Diagnostic, Severity


def check(facts: Facts) -> Iterator[Diagnostic]:
    """The problems found with the instruction table."""
    return facts.problem_reports(RULE)


RULE = Rule(
    id="E107",
    name="operand-kind",
    severity=Severity.ERROR,
    summary="an operand of the wrong kind",
    why="A register, a constant, an address, a vector and a label are not interchangeable (6.4).",
    bad="ld.global.u32 %r1, %rd1;",
    good="ld.global.u32 %r1, [%rd1];",
    ptxas="refuses the bad example: Arguments mismatch for instruction 'ld'",
    check=check,
)
