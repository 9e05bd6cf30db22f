"""Branches that those on the path to them have decided: where `x & 7` is neither 0 nor above 1, a comparison with 1 comes out the same.

A compiler that makes a tree of comparisons of a `switch` leaves some of these. All threads that come to such a branch take the same
path. The values of a comparison that dominates a branch are those that the branch sees: in between none of them can be made anew.
"""

from __future__ import annotations

from ptxkit.analyses.cfg.dominators import dominators
from ptxkit.analyses.cfg.graph import Via, control_flow
from ptxkit.analyses.numbers.arithmetic import compute
from ptxkit.analyses.symbolic.terms import Term, negated, walk
from ptxkit.analyses.symbolic.values import Values

COMPARISONS = frozenset(("eq", "lt.s", "lt.u"))
MOST_NUMBERS = 64
"""What is compared is followed only if it is known to be one of so few numbers."""
MOST_BRANCHES = 8
"""Dominating blocks that are looked at: comparisons of one number stand close together."""


def is_decided(known: Values, block: int) -> bool:
    """Whether what is compared at the end of a block can, by the branches on the path there, only be such that it comes out the same."""
    guard = known.guard(control_flow(known.routine).blocks[block].end - 1)
    subject = None if guard is None else _subject(guard)
    if guard is None or subject is None:
        return False
    low, high = subject.bounds
    if high - low >= MOST_NUMBERS or any(at.operator == "join" for at in walk(subject)):
        return False
    conditions = [condition for condition in _on_the_path(known, block) if _subject(condition) is subject]
    numbers = [number for number in range(low, high + 1) if all(_outcome(condition, subject, number) != 0 for condition in conditions)]
    return len({_outcome(guard, subject, number) for number in numbers}) == 1


def _on_the_path(known: Values, block: int) -> list[Term]:
    """Conditions that hold where control comes to a block."""
    flow, tree = control_flow(known.routine), dominators(known.routine).tree
    found = []
    at = block
    for _ in range(MOST_BRANCHES):
        before = tree.parent[at]
        if before in (-1, at):
            break
        edges = flow.blocks[before].edges
        guard = known.guard(flow.blocks[before].end - 1)
        # the only path from there, where nothing else leads in
        if guard is not None and flow.blocks[at].predecessors == (before,) and len({edge.target for edge in edges}) == 2:
            (edge,) = [edge for edge in edges if edge.target == at]
            if edge.via in (Via.TAKEN, Via.NOT_TAKEN):
                found.append(guard if edge.via is Via.TAKEN else known.terms.invert(guard))
        at = before
    return found


def _subject(condition: Term) -> Term | None:
    """What a condition compares with a constant."""
    condition = negated(condition) or condition
    if condition.operator not in COMPARISONS:
        return None
    left, right = condition.args
    if left.constant is not None:
        return right
    return left if right.constant is not None else None


def _outcome(condition: Term, subject: Term, number: int) -> int | None:
    """How a condition comes out where what it compares with a constant is this number; None if it compares something else."""
    positive = negated(condition)
    compared = positive or condition
    if _subject(compared) is not subject:
        return None
    numbers = [number if arg is subject else arg.constant for arg in compared.args]
    found = compute(compared.operator, 1, numbers, [arg.width for arg in compared.args])  # type: ignore[arg-type]
    return found if found is None or positive is None else 1 - found
