"""E019 unusable-name."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.framework.rule import Facts, Rule
from ptxkit.diagnostics import Diagnostic, Severity


def check(facts: Facts) -> Iterator[Diagnostic]:
    """The problems found by the declaration checks."""
    return facts.problem_reports(RULE)


RULE = Rule(
    id="E019",
    name="unusable-name",
    severity=Severity.ERROR,
    summary="a declaration of a reserved name",
    why="`_` stands for an unused result and `WARP_SZ` is a constant (4.4, 6.4.1).",
    bad=".reg .u32 WARP_SZ;",
    good=".reg .u32 warp_size;",
    ptxas="refuses the bad example: Parsing error near 'WARP_SZ': syntax error",
    check=check,
)
