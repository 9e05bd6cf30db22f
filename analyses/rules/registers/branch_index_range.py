"""R007 branch-index-range."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.cfg.dominators import dominators
from ptxkit.analyses.cfg.graph import control_flow, find_label
from ptxkit.analyses.framework.bindings import matching
from ptxkit.analyses.framework.routine import Routine
from ptxkit.analyses.framework.rule import Facts, Rule
from ptxkit.analyses.symbolic.origins import origins
from ptxkit.analyses.symbolic.terms import Term
from ptxkit.analyses.symbolic.values import Values, values
from ptxkit.diagnostics import Diagnostic, Severity


def check(facts: Facts) -> Iterator[Diagnostic]:
    """Indices beyond the list of labels: certainly, or because their limit exceeds the number of labels."""
    for routine in facts.routines:
        known = values(routine)
        reachable = control_flow(routine).reachable
        for i, _ in matching(routine, lambda bound: bound.flow == "branch-indexed"):
            if control_flow(routine).block_of[i] in reachable:
                yield from _beyond(facts, routine, known, i)


def _beyond(facts: Facts, routine: Routine, known: Values, i: int) -> Iterator[Diagnostic]:
    instruction = routine.instructions[i]
    index = known.operand(i, instruction.operands[0])
    labels = find_label(routine.lists, routine.paths[i], instruction.operands[-1].text)
    if index is None or labels is None:
        return
    count = len(labels.children)
    least, most = index.bounds
    if most < count or (least < count and (not _reaches_its_bound(index) or _is_tested(routine, known, i, index))):
        return
    child = len(instruction.children) - len(instruction.operands)
    span = f"the index is {least}" if least == most else f"the index is {least} to {most}"
    yield facts.report(
        RULE,
        (*routine.where(i), child),
        f"{span}, but the list has {count} labels, 0 to {count - 1}",
        f"the index is {index}",
        related=origins(routine, i, child),
    )


def _reaches_its_bound(index: Term) -> bool:
    """Whether only a mask or a remainder by a constant limits an otherwise arbitrary index."""
    return (
        index.operator in ("and", "rem.u")
        and index.args[1].constant is not None
        and not index.args[0].known.zeros
        and index.args[0].is_leaf
        and index.args[0].operator in ("value", "parameter")
    )


def _is_tested(routine: Routine, known: Values, i: int, index: Term) -> bool:
    """Whether a branch that controls this point depends on part of the index."""
    blocks = control_flow(routine)
    own = set(index.leaves())
    guard = known.guard(i)
    if guard is not None and own & set(guard.leaves()):
        return True
    for before in dominators(routine).post.decide(blocks.block_of[i]):
        condition = known.guard(blocks.blocks[before].end - 1)
        if condition is None or own & set(condition.leaves()):
            return True
    return False


RULE = Rule(
    id="R007",
    name="branch-index-range",
    severity=Severity.ERROR,
    summary="a brx.idx whose index may be beyond its list of labels",
    why="An index that is not below the length of the list has no target: behavior is undefined (9.7.13.4).",
    bad="""
        and.b32 %r1, %r2, 7;
        list: .branchtargets a, b;
        brx.idx %r1, list;
        a:
        b:
    """,
    good="""
        and.b32 %r1, %r2, 1;
        list: .branchtargets a, b;
        brx.idx %r1, list;
        a:
        b:
    """,
    proof="The bits and the range of the index follow from the code.",
    sanitizer="none of its tools looks for this.",
    check=check,
)
