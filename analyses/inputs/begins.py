"""Numbers that say where a part of memory begins: they are only added to addresses.

A host that passes such numbers lays out the planes of an array, or divides dynamic shared memory into parts, so parts of example inputs do
not overlap either.
"""

from __future__ import annotations

from ptxkit.analyses.framework.routine import Routine, fact
from ptxkit.analyses.inputs.parameters import Leaf, addressed, conditions, leaf_of
from ptxkit.analyses.inputs.reached import has_dynamic_shared
from ptxkit.analyses.symbolic.terms import walk
from ptxkit.frozen import frozen

DYNAMIC_SHARED = 48 << 10
"""Initial size of dynamic shared memory in bytes: the most that a kernel has without opting in to more."""
ALIGNMENT = 128
"""Alignment of each part in bytes, enough for any access."""


@frozen
class Added:
    """How a part of a parameter is added to an address."""

    space: str
    """The state space of the access."""
    factor: int
    """What the part is multiplied by in its sum."""
    is_index: bool
    """Whether the sum is part of an index, which is extended or multiplied before it is added to the address."""


@fact
def only_added(routine: Routine) -> dict[Leaf, frozenset[Added]]:
    """The parts of parameters that are only added to addresses or indices, and neither compared nor used otherwise."""
    found: dict[Leaf, set[Added]] = {}
    others = {leaf for condition in conditions(routine) for one in condition.leaves() if (leaf := leaf_of(one)) is not None}
    for space, address in addressed(routine):
        for one in walk(address):
            if one.operator != "sum":
                others.update([leaf for arg in one.args if (leaf := leaf_of(arg)) is not None])
                continue
            for atom, factor in one.parts:
                if (leaf := leaf_of(atom)) is not None:
                    found.setdefault(leaf, set()).add(Added(space, factor, one is not address))
    return {leaf: frozenset(how) for leaf, how in found.items() if leaf not in others}


@fact
def begins_of_planes(routine: Routine) -> frozenset[Leaf]:
    """The parts of parameters that say where a plane of an array begins, in elements or bytes."""
    return frozenset([leaf for leaf, how in only_added(routine).items() if {one.factor for one in how} == {1}])


@fact
def begins_of_parts(routine: Routine) -> dict[Leaf, int]:
    """By part of a parameter, the offset that it is: parts of dynamic shared memory are of equal length. In elements if the kernel
    multiplies it by their size; empty if there is no dynamic shared memory."""
    if not has_dynamic_shared(routine):
        return {}
    uniform = {leaf: next(iter(how)) for leaf, how in only_added(routine).items() if len(how) == 1}
    found = {leaf: one.factor for leaf, one in uniform.items() if one.space == ".shared" and one.factor > 0 and not one.is_index}
    length = DYNAMIC_SHARED // (len(found) + 1) // ALIGNMENT * ALIGNMENT
    return {leaf: n * length // factor for n, (leaf, factor) in enumerate(found.items(), 1)}


__all__ = ["DYNAMIC_SHARED", "begins_of_parts", "begins_of_planes"]
