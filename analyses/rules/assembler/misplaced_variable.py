"""E125 misplaced-variable."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.framework.rule import Facts, Rule
from ptxkit.diagnostics import Diagnostic, Severity


def check(facts: Facts) -> Iterator[Diagnostic]:
    """The problems found by the declaration checks."""
    return facts.problem_reports(RULE)


RULE = Rule(
    id="E125",
    name="misplaced-variable",
    severity=Severity.ERROR,
    summary="a variable whose state space is not allowed there",
    why="Registers, parameters and local memory belong to functions; special registers are predefined (5.1, 7.1.1).",
    bad="""
        .reg .u32 x;
        .entry k() { ret; }
    """,
    good=".reg .u32 x;",
    ptxas="refuses the bad example: Module-scoped variables in .reg state space are not allowed with ABI",
    check=check,
)
