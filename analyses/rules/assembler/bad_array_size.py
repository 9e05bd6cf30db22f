"""E124 bad-array-size."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.framework.rule import Facts, Rule
from ptxkit.diagnostics import Diagnostic, Severity


def check(facts: Facts) -> Iterator[Diagnostic]:
    """The problems found by the declaration checks."""
    return facts.problem_reports(RULE)


RULE = Rule(
    id="E124",
    name="bad-array-size",
    severity=Severity.ERROR,
    summary="an array or count whose size is missing, too large, or not a plain number",
    why=(
        "Only an external array, or one with initial values, may omit its first dimension; registers can be counted but are never "
        "arrays (5.4.3, 5.4.6)."
    ),
    bad=".reg .u32 x[4];",
    good=".reg .u32 x<4>;",
    ptxas="refuses the bad example: Variable 'x' cannot be allocated into a register",
    check=check,
)
