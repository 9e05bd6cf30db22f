"""E109 vector-width."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.framework.rule import Facts, Rule
from ptxkit.diagnostics import Diagnostic, Severity


def check(facts: Facts) -> Iterator[Diagnostic]:
    """The problems found with the instruction table."""
    return facts.problem_reports(RULE)


RULE = Rule(
    id="E109",
    name="vector-width",
    severity=Severity.ERROR,
    summary="a vector with the wrong number of elements",
    why="The modifiers say how many elements there are (9.7).",
    bad="ld.global.v4.f32 {%f1, %f2}, [%rd1];",
    good="ld.global.v2.f32 {%f1, %f2}, [%rd1];",
    ptxas="refuses the bad example: Argument vector size mismatch for instruction 'ld'",
    check=check,
)
