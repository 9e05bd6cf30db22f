"""E110 immediate-range."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.framework.rule import Facts, Rule
from ptxkit.diagnostics import Diagnostic, Severity


def check(facts: Facts) -> Iterator[Diagnostic]:
    """The problems found with the instruction table."""
    return facts.problem_reports(RULE)


RULE = Rule(
    id="E110",
    name="immediate-range",
    severity=Severity.ERROR,
    summary="a constant outside the range that the form allows",
    why="Counts, identifiers and sizes that are constants must be in range (9.7).",
    bad="bar.sync 16;",
    good="bar.sync 15;",
    ptxas="refuses the bad example: Barrier number '16' out of range, expected to be in range [0..15]",
    check=check,
)
