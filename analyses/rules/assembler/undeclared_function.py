"""E013 undeclared-function."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.framework.rule import Facts, Rule
from ptxkit.analyses.rules.assembler._undeclared import undeclared
from ptxkit.diagnostics import Diagnostic, Severity
from ptxkit.names import Kind


def check(facts: Facts) -> Iterator[Diagnostic]:
    """Undeclared function names."""
    for use, notes, related in undeclared(facts, Kind.FUNCTION):
        yield facts.report(RULE, use.path, f"function `{use.name}` is not declared", *notes, related=related)


RULE = Rule(
    id="E013",
    name="undeclared-function",
    severity=Severity.ERROR,
    summary="a call of a function that nothing declares",
    why="Every name needs a declaration in a scope around its use (9.7.13.5).",
    bad="call nowhere;",
    good="""
        .version 8.0
        .target sm_80
        .address_size 64
        .extern .func there();
        .entry k() { call there; ret; }
    """,
    ptxas="refuses the bad example: Call to 'nowhere' requires call prototype",
    check=check,
)
