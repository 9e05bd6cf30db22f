"""E018 misplaced-specifier."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.framework.rule import Facts, Rule
from ptxkit.diagnostics import Diagnostic, Severity


def check(facts: Facts) -> Iterator[Diagnostic]:
    """What the checks of declarations say."""
    return facts.problem_reports(RULE)


RULE = Rule(
    id="E018",
    name="misplaced-specifier",
    severity=Severity.ERROR,
    summary="a word of a declaration in the wrong place",
    why="State space, alignment and attributes come in any order, then the vector width, then the type, then the names (5.4.1).",
    bad=".version 9.0\n.target sm_90a\n.address_size 64\n.global .u32 .align 16 x;\n.entry k() { ret; }",
    good=".version 9.0\n.target sm_90a\n.address_size 64\n.global .align 16 .u32 x;\n.entry k() { ret; }",
    check=check,
)
