"""E119 not-modelled."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.framework.rule import Facts, Rule
from ptxkit.diagnostics import Diagnostic, Severity


def check(facts: Facts) -> Iterator[Diagnostic]:
    """The problems found with the instruction table."""
    return facts.problem_reports(RULE)


RULE = Rule(
    id="E119",
    name="not-modelled",
    severity=Severity.INFO,
    summary="an instruction that is known by name only",
    why="Its syntax is not published in any manual that ptxkit was written from, so nothing is checked (9.7).",
    bad="ldmatrix.sync.aligned.m8n16.s8 {%r1}, [%r2];",
    good="ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r1}, [%r2];",
    ptxas="refuses the bad example: Unexpected instruction types specified for 'ldmatrix'",
    check=check,
)
