"""E002 missing-semicolon."""

from __future__ import annotations

from collections.abc import Iterator

import attrs

from ptxkit.analyses.framework.rule import Facts, Rule
from ptxkit.diagnostics import Diagnostic, Edit, Fix, Severity


def check(facts: Facts) -> Iterator[Diagnostic]:
    """The errors of this kind found by the parser."""
    return (attrs.evolve(found, fix=_fix(facts, found)) for found in facts.syntax if found.rule == RULE.id)


def _fix(facts: Facts, found: Diagnostic) -> Fix:
    """Adds a semicolon after the existing text; what was meant to follow is unknown."""
    text, at = facts.index.text, found.span.start
    while at and text[at - 1].isspace():
        at -= 1
    return Fix("insert a semicolon", (Edit(at, at, ";"),), is_safe=False)


RULE = Rule(
    id="E002",
    name="missing-semicolon",
    severity=Severity.ERROR,
    summary="a statement without its semicolon",
    why="A statement ends with a semicolon, not with the line (4.3).",
    bad="""
        mov.u32 %r1, 1
        mov.u32 %r2, 2;
    """,
    good="""
        mov.u32 %r1, 1;
        mov.u32 %r2, 2;
    """,
    ptxas="refuses the bad example: Parsing error near 'mov': syntax error",
    check=check,
)
