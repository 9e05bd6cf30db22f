"""E102 unknown-modifier."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.framework.rule import Facts, Rule
from ptxkit.diagnostics import Diagnostic, Severity


def check(facts: Facts) -> Iterator[Diagnostic]:
    """The problems found with the instruction table."""
    return facts.problem_reports(RULE)


RULE = Rule(
    id="E102",
    name="unknown-modifier",
    severity=Severity.ERROR,
    summary="a modifier that no form of the instruction has",
    why="Each instruction takes the modifiers that its section lists, and no others (9.7).",
    bad="add.u33 %r1, %r2, %r3;",
    good="add.u32 %r1, %r2, %r3;",
    ptxas="refuses the bad example: Unknown modifier '.u33'",
    check=check,
)
