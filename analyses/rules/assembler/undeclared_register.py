"""E010 undeclared-register."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.framework.rule import Facts, Rule
from ptxkit.analyses.rules.assembler._undeclared import undeclared
from ptxkit.diagnostics import Diagnostic, Severity
from ptxkit.names import Kind


def check(facts: Facts) -> Iterator[Diagnostic]:
    """Undeclared register names."""
    for use, notes, related in undeclared(facts, Kind.REGISTER):
        yield facts.report(RULE, use.path, f"register `{use.name}` is not declared", *notes, related=related)


RULE = Rule(
    id="E010",
    name="undeclared-register",
    severity=Severity.ERROR,
    summary="a register that nothing declares",
    why="Every name needs a declaration in a scope around its use (5.4.1).",
    bad="add.u32 %r1, %r2, %nowhere;",
    good="add.u32 %r1, %r2, %r3;",
    ptxas="refuses the bad example: Arguments mismatch for instruction 'add'",
    check=check,
)
