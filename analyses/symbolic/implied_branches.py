"""Branches decided by earlier ones: where `x & 7` is neither 0 nor above 1, a comparison with 1 has one outcome.

Compilers leave such branches when they lower a `switch` to a tree of comparisons. All threads that reach such a branch take the same path.
The values compared in a dominating block are those that the branch sees: they cannot be redefined in between.
"""

from __future__ import annotations

from ptxkit.analyses.cfg.dominators import dominators
from ptxkit.analyses.cfg.graph import Via, control_flow
from ptxkit.analyses.numbers.arithmetic import compute
from ptxkit.analyses.symbolic.terms import Term, walk
from ptxkit.analyses.symbolic.values import Values

COMPARISONS = frozenset(("eq", "lt.s", "lt.u"))
MOST_NUMBERS = 64
"""A compared value is followed only if it is known to be one of this many numbers."""
MOST_BRANCHES = 8
"""Maximum number of dominating blocks that are considered: comparisons of one value are close together."""


def is_decided(known: Values, block: int) -> bool:
    """Whether the branches on the path to a block leave only one outcome for the branch at its end."""
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
    """Conditions that hold on entry to a block."""
    flow, tree = control_flow(known.routine), dominators(known.routine).tree
    found = []
    at = block
    for _ in range(MOST_BRANCHES):
        before = tree.parent[at]
        if before in (-1, at):
            break
        edges = flow.blocks[before].edges
        guard = known.guard(flow.blocks[before].end - 1)
        # this edge is the only way in
        if guard is not None and flow.blocks[at].predecessors == (before,) and len({edge.target for edge in edges}) == 2:
            (edge,) = [edge for edge in edges if edge.target == at]
            if edge.via in (Via.TAKEN, Via.NOT_TAKEN):
                found.append(guard if edge.via is Via.TAKEN else known.terms.invert(guard))
        at = before
    return found


def _subject(condition: Term) -> Term | None:
    """The value that a condition compares with a constant."""
    condition = condition.negated or condition
    if condition.operator not in COMPARISONS:
        return None
    left, right = condition.args
    if left.constant is not None:
        return right
    return left if right.constant is not None else None


def _outcome(condition: Term, subject: Term, number: int) -> int | None:
    """The outcome of a condition if the value that it compares with a constant is this number; None if it compares another."""
    positive = condition.negated
    compared = positive or condition
    if _subject(compared) is not subject:
        return None
    numbers = [number if arg is subject else arg.constant for arg in compared.args]
    found = compute(compared.operator, 1, numbers, [arg.width for arg in compared.args])  # type: ignore[arg-type]
    return found if found is None or positive is None else 1 - found
