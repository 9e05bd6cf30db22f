"""E130 bad-directive."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.framework.rule import Facts, Rule
from ptxkit.diagnostics import Diagnostic, Severity


def check(facts: Facts) -> Iterator[Diagnostic]:
    """What the checks of declarations say."""
    return facts.problem_reports(RULE)


RULE = Rule(
    id="E130",
    name="bad-directive",
    severity=Severity.ERROR,
    summary="a directive that a function cannot have, or with wrong arguments",
    why=(
        "What stands between a function's parameters and its body is for kernels or for device functions, takes a fixed number "
        "of values, and some exclude each other (11.4, 11.7)."
    ),
    bad=".version 9.0\n.target sm_90a\n.address_size 64\n.entry k() .maxntid 64 .reqntid 64 { ret; }",
    good=".version 9.0\n.target sm_90a\n.address_size 64\n.entry k() .reqntid 64 { ret; }",
    check=check,
)
