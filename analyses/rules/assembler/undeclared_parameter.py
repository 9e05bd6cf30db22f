"""E014 undeclared-parameter."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.framework.rule import Facts, Rule
from ptxkit.analyses.rules.assembler._undeclared import undeclared
from ptxkit.diagnostics import Diagnostic, Severity
from ptxkit.names import Kind


def check(facts: Facts) -> Iterator[Diagnostic]:
    """Undeclared parameter names."""
    for use, notes, related in undeclared(facts, Kind.PARAMETER):
        yield facts.report(RULE, use.path, f"parameter `{use.name}` is not declared", *notes, related=related)


RULE = Rule(
    id="E014",
    name="undeclared-parameter",
    severity=Severity.ERROR,
    summary="a parameter that nothing declares",
    why="Every name needs a declaration in a scope around its use (7.1).",
    bad="ld.param.u64 %rd1, [nowhere];",
    good="""
        .version 8.0
        .target sm_80
        .address_size 64
        .entry k(.param .u64 p) { .reg .u64 a; ld.param.u64 a, [p]; ret; }
    """,
    ptxas="refuses the bad example: Illegal operand type to instruction 'ld'",
    check=check,
)
