"""V002 target-too-low."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.framework.rule import Facts, Rule
from ptxkit.diagnostics import Diagnostic, Severity


def check(facts: Facts) -> Iterator[Diagnostic]:
    """The problems found with the instruction table."""
    return facts.problem_reports(RULE)


RULE = Rule(
    id="V002",
    name="target-too-low",
    severity=Severity.ERROR,
    summary="an instruction that needs a later or different `.target`",
    why="Each form needs a minimum architecture, and some need exactly one (11.1.2).",
    bad="""
        .version 8.0
        .target sm_75
        .address_size 64
        .entry k() { cp.async.commit_group; ret; }
    """,
    good="""
        .version 8.0
        .target sm_80
        .address_size 64
        .entry k() { cp.async.commit_group; ret; }
    """,
    ptxas="refuses the bad example: Feature 'cp.async.commit_group' requires .target sm_80 or higher",
    proof="The targets are in the instruction table.",
    sanitizer="it never gets to run: no assembler accepts it.",
    check=check,
)
