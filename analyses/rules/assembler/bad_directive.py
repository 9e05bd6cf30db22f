"""E130 bad-directive."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.framework.rule import Facts, Rule
from ptxkit.diagnostics import Diagnostic, Severity


def check(facts: Facts) -> Iterator[Diagnostic]:
    """The problems found by the declaration checks."""
    return facts.problem_reports(RULE)


RULE = Rule(
    id="E130",
    name="bad-directive",
    severity=Severity.ERROR,
    summary="a directive that a function cannot have, or with wrong arguments",
    why=(
        "A directive between the parameters of a function and its body applies either to kernels or to device functions, takes a "
        "fixed number of values, and may exclude others (11.4, 11.7)."
    ),
    bad=".entry k() .maxntid 64 .reqntid 64 { ret; }",
    good=".entry k() .reqntid 64 { ret; }",
    ptxas="refuses the bad example: Conflicting directives: .maxntid and .reqntid cannot both be specified",
    check=check,
)
