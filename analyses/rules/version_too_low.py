"""V001 version-too-low."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.rule import Facts, Rule
from ptxkit.diagnostics import Diagnostic, Severity


def check(facts: Facts) -> Iterator[Diagnostic]:
    """What the instruction table says."""
    return facts.problem_reports(RULE)


RULE = Rule(
    id="V001",
    name="version-too-low",
    severity=Severity.ERROR,
    summary="an instruction that needs a later `.version`",
    why="Each form came with a version of PTX, and the file must claim at least that one (11.1.1).",
    bad=".version 6.0\n.target sm_70\n.address_size 64\n.entry k() { .reg .pred p; .reg .b32 r; activemask.b32 r; ret; }",
    good=".version 6.2\n.target sm_70\n.address_size 64\n.entry k() { .reg .pred p; .reg .b32 r; activemask.b32 r; ret; }",
    check=check,
)
