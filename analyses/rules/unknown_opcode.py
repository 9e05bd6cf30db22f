"""E101 unknown-opcode."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.rule import Facts, Rule
from ptxkit.diagnostics import Diagnostic, Severity


def check(facts: Facts) -> Iterator[Diagnostic]:
    """What the instruction table says."""
    return facts.problem_reports(RULE)


RULE = Rule(
    id="E101",
    name="unknown-opcode",
    severity=Severity.WARNING,
    summary="an instruction that the table does not have",
    why="It may be a slip, or newer than ptxkit; it is kept, counted and named once (9.7).",
    bad="addd.u32 %r1, %r2, %r3;",
    good="add.u32 %r1, %r2, %r3;",
    check=check,
)
