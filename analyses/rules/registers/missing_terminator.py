"""R005 missing-terminator, by request."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit import fixing
from ptxkit.analyses.cfg.graph import control_flow
from ptxkit.analyses.framework.routine import Routine
from ptxkit.analyses.framework.rule import Facts, Rule
from ptxkit.diagnostics import Diagnostic, Fix, Severity
from ptxkit.syntax import Block


def check(facts: Facts) -> Iterator[Diagnostic]:
    """Functions in which control may run past the last instruction."""
    for routine in facts.routines:
        flow = control_flow(routine)
        for index in flow.order:
            block = flow.blocks[index]
            if block.falls_off:
                yield facts.report(
                    RULE,
                    routine.where(block.end - 1),
                    f"control can run past the end of `{routine.name}`",
                    "ptxas silently adds a return",
                    fix=_fix(facts, routine),
                )


def _fix(facts: Facts, routine: Routine) -> Fix | None:
    """Adds a return after the last statement of the body."""
    body = routine.function.body
    if body is None or not body.children:
        return None
    last = (*routine.path, 1, len(body.children) - 1)
    return None if isinstance(body.children[-1], Block) else Fix("insert a return", (fixing.insert_after(facts.index, last, "ret;"),))


RULE = Rule(
    id="R005",
    name="missing-terminator",
    severity=Severity.INFO,
    summary="control runs past the end of a function",
    why="A function ends with `ret`, `exit` or `trap`, or with a branch; ptxas adds a return silently (9.7.13.6).",
    bad=".entry k() { .reg .u32 a; mov.u32 a, 1; }",
    good=".entry k() { .reg .u32 a; mov.u32 a, 1; ret; }",
    proof="Control flow alone: control can continue after the last instruction.",
    sanitizer="none of its tools looks for this.",
    check=check,
    default=False,
)
