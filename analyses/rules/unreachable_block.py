"""R003 unreachable-block."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.rule import Facts, Rule
from ptxkit.diagnostics import Diagnostic, Severity


def check(facts: Facts) -> Iterator[Diagnostic]:
    """Basic blocks that control cannot reach."""
    for path, function in facts.functions:
        flow = facts.control_flow(function)
        if flow.unknown_targets:
            continue
        reachable = flow.reachable
        for block in flow.blocks:
            if block.index in reachable or block.index - 1 in set(range(len(flow.blocks))) - reachable:
                continue
            before = flow.instructions[block.start - 1][0]
            yield facts.report(
                RULE,
                (*path, *flow.instructions[block.start][0]),
                "control never reaches this",
                related=[((*path, *before), "control leaves here, and nothing branches behind it")],
            )


RULE = Rule(
    id="R003",
    name="unreachable-block",
    severity=Severity.INFO,
    summary="instructions that control never reaches",
    why="Nothing branches there; often a label was lost, or a branch lost its guard (9.7.13.3).",
    bad="bra done;\nadd.u32 %r1, %r1, 1;\ndone:",
    good="@%p1 bra done;\nadd.u32 %r1, %r1, 1;\ndone:",
    check=check,
    default=False,
)
