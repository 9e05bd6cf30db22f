"""E128 bad-attribute."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.framework.rule import Facts, Rule
from ptxkit.diagnostics import Diagnostic, Severity


def check(facts: Facts) -> Iterator[Diagnostic]:
    """What the checks of declarations say."""
    return facts.problem_reports(RULE)


RULE = Rule(
    id="E128",
    name="bad-attribute",
    severity=Severity.ERROR,
    summary="an attribute that does not exist, or on what cannot have it",
    why="`.managed` is for global variables, `.unified` for them and for device functions (5.4.8).",
    bad=".version 9.0\n.target sm_90a\n.address_size 64\n.const .attribute(.managed) .u32 x;\n.entry k() { ret; }",
    good=".version 9.0\n.target sm_90a\n.address_size 64\n.global .attribute(.managed) .u32 x;\n.entry k() { ret; }",
    check=check,
)
