"""E101 unknown-opcode."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.framework.rule import Facts, Rule
from ptxkit.diagnostics import Diagnostic, Severity


def check(facts: Facts) -> Iterator[Diagnostic]:
    """The problems found with the instruction table."""
    return facts.problem_reports(RULE)


RULE = Rule(
    id="E101",
    name="unknown-opcode",
    severity=Severity.ERROR,
    summary="an instruction that the table does not have",
    why="No PTX version that ptxkit knows has it (9.7). In a file of a newer version it may be valid, so it is a warning there.",
    bad="addd.u32 %r1, %r2, %r3;",
    good="add.u32 %r1, %r2, %r3;",
    ptxas="refuses the bad example: Not a name of any known instruction: 'addd'",
    check=check,
)
