"""E128 bad-attribute."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.framework.rule import Facts, Rule
from ptxkit.diagnostics import Diagnostic, Severity


def check(facts: Facts) -> Iterator[Diagnostic]:
    """The problems found by the declaration checks."""
    return facts.problem_reports(RULE)


RULE = Rule(
    id="E128",
    name="bad-attribute",
    severity=Severity.ERROR,
    summary="an attribute that does not exist, or does not apply to what has it",
    why="`.managed` is for global variables, `.unified` for them and for device functions (5.4.8).",
    bad="""
        .const .attribute(.managed) .u32 x;
        .entry k() { ret; }
    """,
    good="""
        .global .attribute(.managed) .u32 x;
        .entry k() { ret; }
    """,
    ptxas="refuses the bad example: Illegal attribute '.managed' for symbol 'x'",
    check=check,
)
