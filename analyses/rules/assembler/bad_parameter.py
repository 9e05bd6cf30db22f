"""E129 bad-parameter."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.framework.rule import Facts, Rule
from ptxkit.diagnostics import Diagnostic, Severity


def check(facts: Facts) -> Iterator[Diagnostic]:
    """The problems found by the declaration checks."""
    return facts.problem_reports(RULE)


RULE = Rule(
    id="E129",
    name="bad-parameter",
    severity=Severity.ERROR,
    summary="a parameter that cannot be passed, or is used in the wrong direction",
    why=(
        "Kernels take `.param` of known size and return nothing; device functions take `.param` and `.reg`; inputs are read, "
        "results written (5.1.6, 7.1, 11.2)."
    ),
    bad=".entry k(.reg .u32 n) { ret; }",
    good=".entry k(.param .u32 n) { ret; }",
    ptxas="refuses the bad example: Entry parameter 'n' must have .param state space",
    check=check,
)
