"""Real scalars that a kernel compares with real numbers from memory: those between which they lie select elements."""

from __future__ import annotations

from ptxkit.analyses.framework.bindings import matching
from ptxkit.analyses.framework.routine import Routine, fact
from ptxkit.analyses.inputs.parameters import Leaf, leaf_of
from ptxkit.analyses.symbolic.values import values

MIDDLE = 0.5
"""About half of the random real numbers of an example array, which lie in [0, 1), are below it."""


@fact
def thresholds(routine: Routine) -> frozenset[Leaf]:
    """The parts of parameters that are compared with something that is no parameter and no constant."""
    known = values(routine)
    found: set[Leaf] = set()
    for i, _ in matching(routine, lambda one: bool(one.slot(".cmp")) and one.type.startswith((".f", ".bf"))):
        sides = [term for operand in routine.instructions[i].operands if (term := known.operand(i, operand)) is not None]
        leaves = [leaf_of(term) for term in sides]
        if any(leaf is None and term.constant is None for leaf, term in zip(leaves, sides, strict=True)):
            found.update([leaf for leaf in leaves if leaf is not None])
    return frozenset(found)
