"""V003 deprecated-form."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.framework.rule import Facts, Rule
from ptxkit.diagnostics import Diagnostic, Severity


def check(facts: Facts) -> Iterator[Diagnostic]:
    """The problems found with the instruction table."""
    return facts.problem_reports(RULE)


RULE = Rule(
    id="V003",
    name="deprecated-form",
    severity=Severity.WARNING,
    summary="a deprecated form of an instruction",
    why="It has a successor, and a later version or target refuses it (9.7).",
    bad="""
        .version 6.3
        .target sm_60
        .address_size 64
        .entry k() { .reg .b32 %r<4>; shfl.up.b32 %r1, %r2, 1, 0; ret; }
    """,
    good="""
        .version 6.3
        .target sm_60
        .address_size 64
        .entry k() { .reg .b32 %r<4>; shfl.sync.up.b32 %r1, %r2, 1, 0, -1; ret; }
    """,
    ptxas="takes the bad example, and warns: Instruction 'shfl' without '.sync' may produce unpredictable "
    "results on sm_70 and later architectures",
    proof="The instruction table says which forms are deprecated.",
    sanitizer="none of its tools looks for this.",
    check=check,
)
