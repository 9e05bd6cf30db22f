"""E133 argument-mismatch."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.framework.rule import Facts, Rule
from ptxkit.diagnostics import Diagnostic, Severity


def check(facts: Facts) -> Iterator[Diagnostic]:
    """The problems found by the declaration checks."""
    return facts.problem_reports(RULE)


RULE = Rule(
    id="E133",
    name="argument-mismatch",
    severity=Severity.ERROR,
    summary="arguments or results of a call that do not fit the parameters",
    why=(
        "Number, type, size and alignment must be those of the function's declaration, or of the prototype of an indirect call "
        "(7.1, 9.7.13.5)."
    ),
    bad="""
        .func f(.param .b64 a) { ret; }
        .entry k() { .reg .b32 %r; call f, (%r); ret; }
    """,
    good="""
        .func f(.param .b64 a) { ret; }
        .entry k() { .reg .b64 %r; call f, (%r); ret; }
    """,
    ptxas="refuses the bad example: Type of argument does not match formal parameter 'a'",
    check=check,
)
