"""E112 predicate."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.rule import Facts, Rule
from ptxkit.diagnostics import Diagnostic, Severity


def check(facts: Facts) -> Iterator[Diagnostic]:
    """What the instruction table says."""
    return facts.problem_reports(RULE)


RULE = Rule(
    id="E112",
    name="predicate",
    severity=Severity.ERROR,
    summary="a predicate where none can stand, or something else where one must",
    why="Predicates live in registers of their own kind (9.3).",
    bad="selp.u32 %r1, %r2, %r3, %r4;",
    good="selp.u32 %r1, %r2, %r3, %p1;",
    check=check,
)
