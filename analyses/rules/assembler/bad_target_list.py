"""E135 bad-target-list."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.framework.rule import Facts, Rule
from ptxkit.diagnostics import Diagnostic, Severity


def check(facts: Facts) -> Iterator[Diagnostic]:
    """The problems found by the declaration checks."""
    return facts.problem_reports(RULE)


RULE = Rule(
    id="E135",
    name="bad-target-list",
    severity=Severity.ERROR,
    summary="a list of branch or call targets without a label, or with the wrong contents",
    why=(
        "`.branchtargets` lists labels of the function, `.calltargets` lists functions, and the label before them is what the "
        "instruction names (11.3)."
    ),
    bad="A: brx.idx %r1, A;",
    good="""
        t: .branchtargets A;
        A: brx.idx %r1, t;
    """,
    ptxas="refuses the bad example: Label with '.branchtargets' directive expected for argument 1 of instruction 'brx.idx'",
    check=check,
)
