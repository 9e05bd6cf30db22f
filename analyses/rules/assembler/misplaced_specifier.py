"""E018 misplaced-specifier."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.framework.rule import Facts, Rule
from ptxkit.diagnostics import Diagnostic, Severity


def check(facts: Facts) -> Iterator[Diagnostic]:
    """The problems found by the declaration checks."""
    return facts.problem_reports(RULE)


RULE = Rule(
    id="E018",
    name="misplaced-specifier",
    severity=Severity.ERROR,
    summary="a word of a declaration in the wrong position",
    why="State space, alignment and attributes come in any order, then the vector width, then the type, then the names (5.4.1).",
    bad="""
        .global .u32 .align 16 x;
        .entry k() { ret; }
    """,
    good="""
        .global .align 16 .u32 x;
        .entry k() { ret; }
    """,
    ptxas="refuses the bad example: Parsing error near '.align': syntax error",
    check=check,
)
