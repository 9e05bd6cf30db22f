"""E132 bad-alias."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.framework.rule import Facts, Rule
from ptxkit.diagnostics import Diagnostic, Severity


def check(facts: Facts) -> Iterator[Diagnostic]:
    """What the checks of declarations say."""
    return facts.problem_reports(RULE)


RULE = Rule(
    id="E132",
    name="bad-alias",
    severity=Severity.ERROR,
    summary="an alias of or for something that is no fitting function",
    why=(
        "An alias is a device function without a body, with the parameters of the one it stands for, which is defined before "
        "and not weak (11.2.3)."
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
