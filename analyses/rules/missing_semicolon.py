"""E002 missing-semicolon."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.rule import Facts, Rule
from ptxkit.diagnostics import Diagnostic, Severity


def check(facts: Facts) -> Iterator[Diagnostic]:
    """What the parser found of this kind."""
    return (diagnostic for diagnostic in facts.syntax if diagnostic.rule == RULE.id)


RULE = Rule(
    id="E002",
    name="missing-semicolon",
    severity=Severity.ERROR,
    summary="a statement without its semicolon",
    why="A statement ends with a semicolon, not with the line (4.3).",
    bad="mov.u32 %r1, 1\nmov.u32 %r2, 2;",
    good="mov.u32 %r1, 1;\nmov.u32 %r2, 2;",
    check=check,
)
