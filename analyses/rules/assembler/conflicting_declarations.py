"""E131 conflicting-declarations."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.framework.rule import Facts, Rule
from ptxkit.diagnostics import Diagnostic, Severity


def check(facts: Facts) -> Iterator[Diagnostic]:
    """The problems found by the declaration checks."""
    return facts.problem_reports(RULE)


RULE = Rule(
    id="E131",
    name="conflicting-declarations",
    severity=Severity.ERROR,
    summary="declarations of one name that disagree, or a function that is never defined",
    why=(
        "All declarations of a function have the same parameters and linkage, the definition comes last, and what another "
        "module defines is `.extern` (7.1, 11.6)."
    ),
    bad="""
        .func f(.param .b32 a);
        .func f(.param .b64 a) { ret; }
        .entry k() { ret; }
    """,
    good="""
        .func f(.param .b64 a);
        .func f(.param .b64 a) { ret; }
        .entry k() { ret; }
    """,
    ptxas="refuses the bad example: Inconsistent prototypes of 'f', parameter types differ",
    check=check,
)
