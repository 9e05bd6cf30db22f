"""E003 unbalanced-brace."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.framework.rule import Facts, Rule
from ptxkit.diagnostics import Diagnostic, Severity


def check(facts: Facts) -> Iterator[Diagnostic]:
    """The errors of this kind found by the parser."""
    return (diagnostic for diagnostic in facts.syntax if diagnostic.rule == RULE.id)


RULE = Rule(
    id="E003",
    name="unbalanced-brace",
    severity=Severity.ERROR,
    summary="a brace without its counterpart",
    why="What is meant to be inside a scope is outside, or vice versa (4.3).",
    bad="{ mov.u32 %r1, 1;",
    good="{ mov.u32 %r1, 1; }",
    ptxas="refuses the bad example: Parsing error near '': syntax error",
    check=check,
)
