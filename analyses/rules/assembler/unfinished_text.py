"""E005 unfinished-text."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.framework.rule import Facts, Rule
from ptxkit.diagnostics import Diagnostic, Severity


def check(facts: Facts) -> Iterator[Diagnostic]:
    """The errors of this kind found by the parser."""
    return (diagnostic for diagnostic in facts.syntax if diagnostic.rule == RULE.id)


RULE = Rule(
    id="E005",
    name="unfinished-text",
    severity=Severity.ERROR,
    summary="a comment or string that is never closed",
    why="Everything after it is read as part of it (4.2).",
    bad="mov.u32 %r1, 1; /* and so on",
    good="mov.u32 %r1, 1; /* and so on */",
    ptxas="refuses the bad example: Parsing error near '': unexpected EOF while scanning",
    check=check,
)
