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
    bad=".version 9.0\n.target sm_90a\n.address_size 64\nmov.u32 x, 1;\n.entry k() { ret; }",
    good="mov.u32 %r1, 1;",
    check=check,
)
