"""E126 bad-linkage."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.framework.rule import Facts, Rule
from ptxkit.diagnostics import Diagnostic, Severity


def check(facts: Facts) -> Iterator[Diagnostic]:
    """The problems found by the declaration checks."""
    return facts.problem_reports(RULE)


RULE = Rule(
    id="E126",
    name="bad-linkage",
    severity=Severity.ERROR,
    summary="linkage that is not allowed, or is given twice",
    why="Only functions and variables of the module have linkage, it comes first, and `.common` is for global variables (11.6).",
    bad="""
        .common .shared .u32 x;
        .entry k() { ret; }
    """,
    good="""
        .common .global .u32 x;
        .entry k() { ret; }
    """,
    ptxas="refuses the bad example: .common variables must be declared in .global space",
    check=check,
)
