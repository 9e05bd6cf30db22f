"""E121 type-not-in-space."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.framework.rule import Facts, Rule
from ptxkit.diagnostics import Diagnostic, Severity


def check(facts: Facts) -> Iterator[Diagnostic]:
    """The problems found by the declaration checks."""
    return facts.problem_reports(RULE)


RULE = Rule(
    id="E121",
    name="type-not-in-space",
    severity=Severity.ERROR,
    summary="a type that the state space cannot hold",
    why="Predicates live in registers, textures and surfaces in global memory, and a parameter is not a vector (5.2.1, 5.3).",
    bad="""
        .global .pred p;
        .entry k() { ret; }
    """,
    good=".reg .pred p;",
    ptxas="refuses the bad example: Predicate variable 'p' must be in register state space",
    check=check,
)
