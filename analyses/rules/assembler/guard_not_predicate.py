"""E137 guard-not-predicate."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.framework.rule import Facts, Rule
from ptxkit.diagnostics import Diagnostic, Severity


def check(facts: Facts) -> Iterator[Diagnostic]:
    """The problems found by the declaration checks."""
    return facts.problem_reports(RULE)


RULE = Rule(
    id="E137",
    name="guard-not-predicate",
    severity=Severity.ERROR,
    summary="a guard that is not a predicate",
    why="The guard of an instruction is a `.pred` register, which may be negated (9.3).",
    bad="@%r1 mov.u32 %r2, 1;",
    good="@%p1 mov.u32 %r2, 1;",
    ptxas="refuses the bad example: Predicate expression expected",
    check=check,
)
