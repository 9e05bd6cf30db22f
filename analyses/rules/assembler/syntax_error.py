"""E001 syntax-error."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.framework.rule import Facts, Rule
from ptxkit.diagnostics import Diagnostic, Severity


def check(facts: Facts) -> Iterator[Diagnostic]:
    """The errors of this kind found by the parser."""
    return (diagnostic for diagnostic in facts.syntax if diagnostic.rule == RULE.id)


RULE = Rule(
    id="E001",
    name="syntax-error",
    severity=Severity.ERROR,
    summary="text that is not PTX",
    why="An assembler stops at the first syntax error; ptxkit continues and reports all of them (4).",
    bad="add.u32 %r1, %r2 %r3;",
    good="add.u32 %r1, %r2, %r3;",
    ptxas="refuses the bad example: Parsing error near '%r3': syntax error",
    check=check,
)
