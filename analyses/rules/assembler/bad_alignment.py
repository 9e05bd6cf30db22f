"""E122 bad-alignment."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.framework.rule import Facts, Rule
from ptxkit.diagnostics import Diagnostic, Severity


def check(facts: Facts) -> Iterator[Diagnostic]:
    """The problems found by the declaration checks."""
    return facts.problem_reports(RULE)


RULE = Rule(
    id="E122",
    name="bad-alignment",
    severity=Severity.ERROR,
    summary="an alignment that is not a power of two, or too large for a parameter",
    why="Memory is aligned to powers of two, parameters of device functions to 128 bytes at most (5.4.5, 7.1).",
    bad="""
        .shared .align 12 .b8 x[64];
        .entry k() { ret; }
    """,
    good="""
        .shared .align 16 .b8 x[64];
        .entry k() { ret; }
    """,
    ptxas="refuses the bad example: Alignment must be a power of two",
    check=check,
)
