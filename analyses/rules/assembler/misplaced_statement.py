"""E139 misplaced-statement."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.framework.rule import Facts, Rule
from ptxkit.diagnostics import Diagnostic, Severity


def check(facts: Facts) -> Iterator[Diagnostic]:
    """What the checks of declarations say."""
    return facts.problem_reports(RULE)


RULE = Rule(
    id="E139",
    name="misplaced-statement",
    severity=Severity.ERROR,
    summary="a statement where none of its kind may stand",
    why=(
        "Instructions and labels stand in functions; functions, files and sections stand side by side in the module; no "
        "statement is empty (4.3, 11)."
    ),
    bad="""
        mov.u32 x, 1;
        .entry k() { ret; }
    """,
    good="mov.u32 %r1, 1;",
    ptxas="refuses the bad example: Parsing error near 'mov': syntax error",
    check=check,
)
