"""R005 missing-terminator."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.rule import Facts, Rule
from ptxkit.diagnostics import Diagnostic, Severity


def check(facts: Facts) -> Iterator[Diagnostic]:
    """Functions whose last instruction lets control run past the end."""
    for path, function in facts.functions:
        flow = facts.control_flow(function)
        reachable = flow.reachable
        for block in flow.blocks:
            if block.falls_off and block.index in reachable:
                yield facts.report(
                    RULE,
                    (*path, *flow.instructions[block.end - 1][0]),
                    f"control can run past the end of `{function.name}`",
                    "ptxas takes this for a return without a word",
                )


RULE = Rule(
    id="R005",
    name="missing-terminator",
    severity=Severity.INFO,
    summary="control runs past the end of a function",
    why="A function ends with `ret`, `exit` or `trap`, or with a branch; ptxas adds a return silently (9.7.13.6).",
    bad=".version 8.0\n.target sm_80\n.address_size 64\n.entry k() { .reg .u32 a; mov.u32 a, 1; }",
    good=".version 8.0\n.target sm_80\n.address_size 64\n.entry k() { .reg .u32 a; mov.u32 a, 1; ret; }",
    check=check,
    default=False,
)
