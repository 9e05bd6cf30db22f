"""E012 undeclared-label."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.framework.rule import Facts, Rule
from ptxkit.analyses.rules.assembler._undeclared import undeclared
from ptxkit.diagnostics import Diagnostic, Severity
from ptxkit.names import Kind


def check(facts: Facts) -> Iterator[Diagnostic]:
    """Undeclared label names."""
    for use, notes, related in undeclared(facts, Kind.LABEL):
        yield facts.report(RULE, use.path, f"label `{use.name}` is not declared", *notes, related=related)


RULE = Rule(
    id="E012",
    name="undeclared-label",
    severity=Severity.ERROR,
    summary="a branch to a label that does not exist",
    why="Every name needs a declaration in a scope around its use (9.7.13.3).",
    bad="bra nowhere;",
    good="""
        bra here;
        here:
    """,
    ptxas="refuses the bad example: Unknown symbol 'nowhere'",
    check=check,
)
