"""How large scalars must be so that every CTA of a launch has work. A tile may have more elements than a block has threads."""

from __future__ import annotations

from ptxkit.analyses.framework.routine import Routine
from ptxkit.analyses.inputs.decisions import special
from ptxkit.analyses.inputs.parameters import Leaf, conditions, leaf_of
from ptxkit.analyses.inputs.shapes import Shape
from ptxkit.analyses.symbolic.evaluate import number_of
from ptxkit.analyses.symbolic.terms import Term

MOST = 1 << 16
"""Largest value that is considered."""


def covering(routine: Routine, shape: Shape) -> dict[Leaf, int]:
    """For each scalar that conditions compare with a CTA index, the least value from which on the last thread of the last CTA behaves
    the same for all values."""
    found: dict[Leaf, int] = {}
    for condition in dict.fromkeys(conditions(routine)):
        leaves = condition.leaves()
        asked = {leaf for one in leaves if (leaf := leaf_of(one)) is not None}
        if len(asked) != 1 or not any(one.name.startswith("%ctaid") for one in leaves):
            continue
        leaf, last = asked.pop(), _outcome(condition, shape, MOST)
        if last is None:
            continue
        least, most = 0, MOST
        while least < most:
            middle = (least + most) // 2
            if _outcome(condition, shape, middle) == last:
                most = middle
            else:
                least = middle + 1
        found[leaf] = max(found.get(leaf, 0), most)
    return found


def _outcome(condition: Term, shape: Shape, number: int) -> int | None:
    """The value of a condition in the last thread of the last CTA, if the scalar that it depends on is `number`."""
    thread, cta = [tuple([side - 1 for side in sides]) for sides in (shape.block, shape.grid)]
    return number_of(condition, lambda leaf: number if leaf_of(leaf) is not None else special(leaf.name, thread, shape, cta))


__all__ = ["covering"]
