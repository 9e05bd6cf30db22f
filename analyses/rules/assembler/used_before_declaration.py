"""E136 used-before-declaration."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.framework.rule import Facts, Rule
from ptxkit.diagnostics import Diagnostic, Severity


def check(facts: Facts) -> Iterator[Diagnostic]:
    """The problems found by the declaration checks."""
    return facts.problem_reports(RULE)


RULE = Rule(
    id="E136",
    name="used-before-declaration",
    severity=Severity.ERROR,
    summary="a name that is declared only after its use",
    why="A module is read once: everything but labels is declared before it is used (5.4.1, 7.1).",
    bad="""
        mov.u32 late, 1;
        .reg .u32 late;
    """,
    good="""
        .reg .u32 early;
        mov.u32 early, 1;
    """,
    ptxas="refuses the bad example: Arguments mismatch for instruction 'mov'",
    check=check,
)
