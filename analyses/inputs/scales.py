"""How large scalars may be so that addresses stay within arrays: one that counts large pieces of an array, or that is multiplied by other
scalars, must be small."""

from __future__ import annotations

from ptxkit.analyses.framework.routine import Routine, fact
from ptxkit.analyses.inputs.parameters import Leaf, addresses, leaf_of
from ptxkit.analyses.registers.ssa import SSA, ssa
from ptxkit.analyses.symbolic.terms import Term
from ptxkit.analyses.symbolic.values import Values, values

REACH = 1 << 24
"""How far the product of a constant and scalars moves an address at most, in bytes. Arrays can grow to more."""
MOST_FACTORS = 4
"""Scalars of one product that are counted."""
_SAME = frozenset(("zext", "sext", "trunc", "select", "join", "mul"))
"""Operators whose result changes at least as much as an operand."""


def most_of(routine: Routine, leaf: Leaf, number: int) -> int:
    """The largest value of a scalar, a power of two, with which no product that it is part of moves an address farther than `REACH`. In a
    product of several scalars it may be as large as their usual `number`: rows are not shorter than what is in them."""
    alone, among = _most(routine).get(leaf, (REACH, REACH))
    return min(alone, max(among, number))


@fact
def _most(routine: Routine) -> dict[Leaf, tuple[int, int]]:
    """For each part of a parameter in an address, the largest value as the only scalar of a product, and as one of several."""
    known, numbering = values(routine), ssa(routine)
    found: dict[Leaf, tuple[int, int]] = {}
    waiting = [(address, 1, 1) for address in addresses(routine)]
    largest: dict[tuple[Term, int], int] = {}
    while waiting:
        term, scale, count = waiting.pop()
        before = largest.get((term, count), 0)
        # a loop may multiply its variable: one iteration is enough
        if scale <= before or (before and term.operator == "phi"):
            continue
        largest[term, count] = scale
        leaf = leaf_of(term)
        if leaf is None:
            waiting += _inner(known, numbering, term, scale, count)
            continue
        alone, among = found.get(leaf, (REACH, REACH))
        most = _root(REACH // scale, count)
        found[leaf] = (min(alone, most), among) if count == 1 else (alone, min(among, most))
    return found


def _inner(known: Values, numbering: SSA, term: Term, scale: int, count: int) -> list[tuple[Term, int, int]]:
    """The operands that a term is a multiple of, each with the constant factor and the number of scalars in the product."""
    if term.operator == "phi" and term.ssa_value is not None:
        return [(known.of(one), scale, count) for one in numbering.values[term.ssa_value].operands if one >= 0]
    if term.operator == "sum":
        return [(atom, scale * min(factor % (1 << term.width), -factor % (1 << term.width)), count) for atom, factor in term.parts]
    if term.operator not in _SAME:
        return []
    if term.operator == "mul":
        scalars = sum([any(leaf_of(leaf) is not None for leaf in one.leaves()) for one in term.args])
        count = min(count + max(0, scalars - 1), MOST_FACTORS)
    return [(one, scale, count) for one in term.args]


def _root(number: int, count: int) -> int:
    """The largest power of two whose power to `count` does not exceed a number; at least 1."""
    return 1 << max(0, number.bit_length() - 1) // count


__all__ = ["most_of"]
