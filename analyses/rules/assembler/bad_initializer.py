"""E127 bad-initializer."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.framework.rule import Facts, Rule
from ptxkit.diagnostics import Diagnostic, Severity


def check(facts: Facts) -> Iterator[Diagnostic]:
    """The problems found by the declaration checks."""
    return facts.problem_reports(RULE)


RULE = Rule(
    id="E127",
    name="bad-initializer",
    severity=Severity.ERROR,
    summary="an initial value that does not fit its variable, or where none is allowed",
    why=(
        "Only variables in `.global` and `.const` have initial values: numbers that suit the type, lists nested as deeply as the "
        "array, and addresses (5.4.4)."
    ),
    bad="""
        .global .u32 x[2] = {1, 2, 3};
        .entry k() { ret; }
    """,
    good="""
        .global .u32 x[3] = {1, 2, 3};
        .entry k() { ret; }
    """,
    ptxas="refuses the bad example: Greater number of elements in array initializer",
    check=check,
)
