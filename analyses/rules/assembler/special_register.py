"""E113 special-register."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.framework.rule import Facts, Rule
from ptxkit.diagnostics import Diagnostic, Severity


def check(facts: Facts) -> Iterator[Diagnostic]:
    """The problems found with the instruction table."""
    return facts.problem_reports(RULE)


RULE = Rule(
    id="E113",
    name="special-register",
    severity=Severity.ERROR,
    summary="a special register where none is allowed",
    why="Special registers can be read by mov, and by few other instructions (10).",
    bad="mov.u64 %rd1, %tid.x;",
    good="mov.u32 %r1, %tid.x;",
    ptxas="refuses the bad example: Arguments mismatch for instruction 'mov'",
    check=check,
)
