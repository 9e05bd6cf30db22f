"""E138 bad-debug-directive."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.framework.rule import Facts, Rule
from ptxkit.diagnostics import Diagnostic, Severity


def check(facts: Facts) -> Iterator[Diagnostic]:
    """The problems found by the declaration checks."""
    return facts.problem_reports(RULE)


RULE = Rule(
    id="E138",
    name="bad-debug-directive",
    severity=Severity.ERROR,
    summary="an impossible source position or debugging section",
    why=("Files have distinct numbers, an inlined position names one that exists, and DWARF data have the size of their type (11.5)."),
    bad="""
        .file 1 "a.cu"
        .file 1 "b.cu"
        .entry k() { ret; }
    """,
    good="""
        .file 1 "a.cu"
        .file 2 "b.cu"
        .entry k() { ret; }
    """,
    ptxas="refuses the bad example: Duplicate file index #1",
    check=check,
)
