"""Numbers that say where a part of dynamic shared memory begins: they are only added to shared addresses.

A host that passes such a number divides the memory into parts, so parts of example inputs do not overlap either.
"""

from __future__ import annotations

from ptxkit.analyses.framework.routine import Routine, fact
from ptxkit.analyses.inputs.parameters import Leaf, addressed, conditions, leaf_of
from ptxkit.analyses.inputs.shapes import has_dynamic_shared

DYNAMIC_SHARED = 48 << 10
"""Initial size of dynamic shared memory in bytes: the most that a kernel has without opting in to more."""
ALIGNMENT = 128
"""Alignment of each part in bytes, enough for any access."""


@fact
def begins_of_parts(routine: Routine) -> dict[Leaf, int]:
    """By part of a parameter, the offset that it is: parts of dynamic shared memory are of equal length. In elements if the kernel
    multiplies it by their size; empty if there is no dynamic shared memory."""
    if not has_dynamic_shared(routine):
        return {}
    factors: dict[Leaf, int] = {}
    others = {leaf for condition in conditions(routine) for one in condition.leaves() if (leaf := leaf_of(one)) is not None}
    for space, address in addressed(routine):
        _, parts = address.linear
        for atom, factor in parts:
            leaf = leaf_of(atom)
            if leaf is None:
                others.update([inner for one in atom.leaves() if (inner := leaf_of(one)) is not None])
            elif space == ".shared" and factor > 0 and factors.setdefault(leaf, factor) == factor:
                continue
            else:
                others.add(leaf)
    found = {leaf: factor for leaf, factor in factors.items() if leaf not in others}
    length = DYNAMIC_SHARED // (len(found) + 1) // ALIGNMENT * ALIGNMENT
    return {leaf: n * length // factor for n, (leaf, factor) in enumerate(found.items(), 1)}


__all__ = ["DYNAMIC_SHARED", "begins_of_parts"]
