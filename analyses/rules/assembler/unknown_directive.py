"""E004 unknown-directive."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.framework.rule import Facts, Rule
from ptxkit.diagnostics import Diagnostic, Severity


def check(facts: Facts) -> Iterator[Diagnostic]:
    """The errors of this kind found by the parser."""
    return (diagnostic for diagnostic in facts.syntax if diagnostic.rule == RULE.id)


RULE = Rule(
    id="E004",
    name="unknown-directive",
    severity=Severity.WARNING,
    summary="a directive that no known version of PTX has",
    why="It may be a slip, or newer than ptxkit (11).",
    bad=".frobnicate 3;",
    good='.pragma "nounroll";',
    ptxas="refuses the bad example: Parsing error near '.frobnicate': syntax error",
    check=check,
)
