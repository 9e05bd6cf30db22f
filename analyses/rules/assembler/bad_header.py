"""E017 bad-header."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.framework.rule import Facts, Rule
from ptxkit.diagnostics import Diagnostic, Severity


def check(facts: Facts) -> Iterator[Diagnostic]:
    """The problems found by the declaration checks."""
    return facts.problem_reports(RULE)


RULE = Rule(
    id="E017",
    name="bad-header",
    severity=Severity.ERROR,
    summary="a version, target or address size that does not exist or does not fit the others",
    why="The header of a module says how to read the rest; an assembler that does not know it stops there (11.1).",
    bad="""
        .version 8.5
        .target sm_80a
        .address_size 64
        .entry k() { ret; }
    """,
    good="""
        .version 8.5
        .target sm_90a, texmode_unified
        .address_size 64
        .entry k() { ret; }
    """,
    ptxas="refuses the bad example: Value 'sm_80a' is not defined for option 'gpu-name'",
    check=check,
)
