"""E120 type-not-declarable."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.framework.rule import Facts, Rule
from ptxkit.diagnostics import Diagnostic, Severity


def check(facts: Facts) -> Iterator[Diagnostic]:
    """The problems found by the declaration checks."""
    return facts.problem_reports(RULE)


RULE = Rule(
    id="E120",
    name="type-not-declarable",
    severity=Severity.ERROR,
    summary="a declaration without a type, or with a type that variables cannot have",
    why="Packed and narrow floating point types are types of instructions; the registers that hold them are untyped (5.2.3, 5.2.5).",
    bad=".reg .bf16 x;",
    good=".reg .b16 x;",
    ptxas="refuses the bad example: Parsing error near '.bf16': syntax error",
    check=check,
)
