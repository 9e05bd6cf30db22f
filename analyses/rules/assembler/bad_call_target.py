"""E134 bad-call-target."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.framework.rule import Facts, Rule
from ptxkit.diagnostics import Diagnostic, Severity


def check(facts: Facts) -> Iterator[Diagnostic]:
    """The problems found by the declaration checks."""
    return facts.problem_reports(RULE)


RULE = Rule(
    id="E134",
    name="bad-call-target",
    severity=Severity.ERROR,
    summary="a call of something that is not a device function",
    why="A call names a device function, or a register together with the label of a prototype or of a list of functions (9.7.13.5, 11.3).",
    bad="""
        .entry f() { ret; }
        .entry k() { call f; ret; }
    """,
    good="""
        .func f() { ret; }
        .entry k() { call f; ret; }
    """,
    ptxas="refuses the bad example: Illegal call target, device function expected",
    check=check,
)
