"""E134 bad-call-target."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.framework.rule import Facts, Rule
from ptxkit.diagnostics import Diagnostic, Severity


def check(facts: Facts) -> Iterator[Diagnostic]:
    """What the checks of declarations say."""
    return facts.problem_reports(RULE)


RULE = Rule(
    id="E134",
    name="bad-call-target",
    severity=Severity.ERROR,
    summary="a call of something that is no device function",
    why="A call names a device function, or a register together with the label of a prototype or of a list of functions (9.7.13.5, 11.3).",
    bad=".version 9.0\n.target sm_90a\n.address_size 64\n.entry f() { ret; }\n.entry k() { call f; ret; }",
    good=".version 9.0\n.target sm_90a\n.address_size 64\n.func f() { ret; }\n.entry k() { call f; ret; }",
    check=check,
)
