"""E011 undeclared-variable."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.framework.rule import Facts, Rule
from ptxkit.analyses.rules.assembler._undeclared import undeclared
from ptxkit.diagnostics import Diagnostic, Severity
from ptxkit.names import Kind


def check(facts: Facts) -> Iterator[Diagnostic]:
    """Undeclared variable names."""
    for use, notes, related in undeclared(facts, Kind.VARIABLE):
        yield facts.report(RULE, use.path, f"variable `{use.name}` is not declared", *notes, related=related)


RULE = Rule(
    id="E011",
    name="undeclared-variable",
    severity=Severity.ERROR,
    summary="a variable that nothing declares",
    why="Every name needs a declaration in a scope around its use (5.4.1).",
    bad="ld.shared.u32 %r1, [nowhere];",
    good="""
        .shared .u32 here;
        ld.shared.u32 %r1, [here];
    """,
    ptxas="refuses the bad example: Illegal operand type to instruction 'ld'",
    check=check,
)
