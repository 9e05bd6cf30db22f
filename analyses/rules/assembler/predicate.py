"""E112 predicate."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.framework.rule import Facts, Rule
from ptxkit.diagnostics import Diagnostic, Severity


def check(facts: Facts) -> Iterator[Diagnostic]:
    """The problems found with the instruction table."""
    return facts.problem_reports(RULE)


RULE = Rule(
    id="E112",
    name="predicate",
    severity=Severity.ERROR,
    summary="a negated predicate where negation is not allowed",
    why="`!` belongs to guards and to the few operands whose form says so (9.3).",
    bad="setp.eq.u32 !%p1, %r1, %r2;",
    good="setp.ne.u32 %p1, %r1, %r2;",
    ptxas="refuses the bad example: Result register required for instruction 'setp'",
    check=check,
)
