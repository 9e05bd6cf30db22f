"""E111 state-space."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.framework.rule import Facts, Rule
from ptxkit.diagnostics import Diagnostic, Severity


def check(facts: Facts) -> Iterator[Diagnostic]:
    """The problems found with the instruction table."""
    return facts.problem_reports(RULE)


RULE = Rule(
    id="E111",
    name="state-space",
    severity=Severity.ERROR,
    summary="an address in a state space that the instruction does not take",
    why="The modifier and the variable must name the same space (5.1, 9.7).",
    bad="""
        .shared .u32 s;
        ld.global.u32 %r1, [s];
    """,
    good="""
        .shared .u32 s;
        ld.shared.u32 %r1, [s];
    """,
    ptxas="refuses the bad example: State space mismatch between instruction and address in instruction 'ld'",
    check=check,
)
