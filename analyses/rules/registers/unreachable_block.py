"""R003 unreachable-block, by request."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit import fixing
from ptxkit.analyses.cfg.graph import control_flow
from ptxkit.analyses.framework.routine import Routine
from ptxkit.analyses.framework.rule import Facts, Rule
from ptxkit.diagnostics import Diagnostic, Fix, Severity


def check(facts: Facts) -> Iterator[Diagnostic]:
    """Basic blocks that control cannot reach."""
    for routine in facts.routines:
        flow = control_flow(routine)
        if flow.unknown_targets:
            continue
        for block in flow.blocks:
            if block.index in flow.reachable or block.index - 1 not in flow.reachable:
                continue
            yield facts.report(
                RULE,
                routine.where(block.start),
                "control never reaches this",
                related=[(routine.where(block.start - 1), "control leaves here, and nothing branches after it")],
                fix=_fix(facts, routine, block.index),
            )


def _fix(facts: Facts, routine: Routine, first: int) -> Fix:
    """Removes the unreachable instructions from here on; their labels and declarations stay."""
    flow = control_flow(routine)
    edits = []
    for block in flow.blocks[first:]:
        if block.index in flow.reachable:
            break
        edits += [fixing.remove(facts.index, routine.where(i)) for i in range(block.start, block.end)]
    return Fix("remove the instructions", tuple(edits), is_safe=False)


RULE = Rule(
    id="R003",
    name="unreachable-block",
    severity=Severity.INFO,
    summary="instructions that control never reaches",
    why="Nothing branches there. Often a label is missing, or a branch has lost its guard (9.7.13.3).",
    bad="""
        bra done;
        add.u32 %r1, %r1, 1;
        done:
    """,
    good="""
        @%p1 bra done;
        add.u32 %r1, %r1, 1;
        done:
    """,
    proof="Control flow alone: no path from the entry leads there.",
    sanitizer="none of its tools looks for this.",
    check=check,
    default=False,
)
