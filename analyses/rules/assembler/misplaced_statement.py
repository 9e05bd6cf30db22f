"""E139 misplaced-statement."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.framework.rule import Facts, Rule
from ptxkit.diagnostics import Diagnostic, Severity


def check(facts: Facts) -> Iterator[Diagnostic]:
    """The problems found by the declaration checks."""
    return facts.problem_reports(RULE)


RULE = Rule(
    id="E139",
    name="misplaced-statement",
    severity=Severity.ERROR,
    summary="a statement where its kind is not allowed",
    why=(
        "Instructions and labels belong in functions; functions, files and sections belong in the module; no statement is empty (4.3, 11)."
    ),
    bad="""
        mov.u32 x, 1;
        .entry k() { ret; }
    """,
    good="mov.u32 %r1, 1;",
    ptxas="refuses the bad example: Parsing error near 'mov': syntax error",
    check=check,
)
