"""E132 bad-alias."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.framework.rule import Facts, Rule
from ptxkit.diagnostics import Diagnostic, Severity


def check(facts: Facts) -> Iterator[Diagnostic]:
    """The problems found by the declaration checks."""
    return facts.problem_reports(RULE)


RULE = Rule(
    id="E132",
    name="bad-alias",
    severity=Severity.ERROR,
    summary="an alias that is not, or does not name, a suitable function",
    why=(
        "An alias is a device function without a body. It has the parameters of the function that it names, which must be defined "
        "before it and must not be weak (11.2.3)."
    ),
    bad="""
        .entry k() { ret; }
        .visible .func f();
        .alias f, k;
    """,
    good="""
        .func g() { ret; }
        .visible .func f();
        .alias f, g;
        .entry k() { ret; }
    """,
    ptxas="refuses the bad example: Cannot define alias to entry function 'k'",
    check=check,
)
