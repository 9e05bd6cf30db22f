"""E123 bad-vector-type."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.framework.rule import Facts, Rule
from ptxkit.diagnostics import Diagnostic, Severity


def check(facts: Facts) -> Iterator[Diagnostic]:
    """The problems found by the declaration checks."""
    return facts.problem_reports(RULE)


RULE = Rule(
    id="E123",
    name="bad-vector-type",
    severity=Severity.ERROR,
    summary="a vector of a wrong width or element",
    why="A declared vector has two or four elements, at most 128 bits, and no predicates (5.4.2).",
    bad="""
        .global .v4 .f64 x;
        .entry k() { ret; }
    """,
    good="""
        .global .v2 .f64 x;
        .entry k() { ret; }
    """,
    ptxas="refuses the bad example: Vector type too large, exceeds 128 bit limit",
    check=check,
)
