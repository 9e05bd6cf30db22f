"""Numbers that a kernel counts in tiles without a remainder: a loop makes `n / 32` iterations, and nothing asks for `n % 32`.

The elements of the remainder are left out, so a host passes a multiple of the tile.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from ptxkit.analyses.framework.routine import Routine, fact
from ptxkit.analyses.inputs.parameters import Leaf, addresses, conditions, leaf_of
from ptxkit.analyses.symbolic.terms import Term, walk
from ptxkit.analyses.symbolic.values import values

MOST_OF_TILE = 1 << 10
"""Largest tile, in elements: a number may be divided by more to find out how large it is."""


@fact
def tiles(routine: Routine) -> dict[Leaf, int]:
    """By part of a parameter, the elements of a tile that the number consists of; the least common multiple, if there are several."""
    bounds = tuple(_of_loops(routine))
    found: dict[Leaf, int] = {}
    for part in {part: None for term in bounds for part in walk(term)}:
        quotient = _quotient(part)
        if quotient is not None:
            leaf, tile = quotient
            found[leaf] = math.lcm(found.get(leaf, 1), tile)
    asked = {part: None for term in (*bounds, *conditions(routine), *addresses(routine)) for part in walk(term)}
    rest = {leaf for part in asked for leaf in _with_a_rest(part)}
    return {leaf: tile for leaf, tile in found.items() if leaf not in rest}


def _of_loops(routine: Routine) -> Iterator[Term]:
    """The conditions of branches that depend on a variable of a loop, and the values that such variables begin with."""
    known = values(routine)
    for condition in conditions(routine):
        variables = [number for leaf in condition.leaves() if leaf.operator == "phi" and (number := leaf.ssa_value) is not None]
        if variables:
            yield condition
        yield from [loop.start for number in variables if (loop := known.induction(number)) is not None]


def _quotient(term: Term) -> tuple[Leaf, int] | None:
    """The number that a term is a quotient of, rounded down, and the constant divisor; None if the term is anything else."""
    divisor = term.args[1].constant if len(term.args) == 2 else None
    if not divisor or not term.operator.startswith(("shr", "div")):
        return None
    leaf = _dividend(term.args[0])
    tile = 1 << divisor if term.operator.startswith("shr") else divisor
    return (leaf, tile) if leaf is not None and tile <= MOST_OF_TILE else None


def _dividend(term: Term) -> Leaf | None:
    """The number that is divided. A signed one may have been made larger if it is negative, so that the shift rounds toward zero."""
    if term.operator != "sum":
        return leaf_of(term)
    leaves = {leaf_of(leaf) for leaf in term.leaves()}
    return leaves.pop() if len(leaves) == 1 and not term.offset and all(factor == 1 for _, factor in term.parts) else None


def _with_a_rest(term: Term) -> Iterator[Leaf]:
    """The numbers of which a term is the remainder, a multiple that is subtracted from the number itself, or a quotient rounded up."""
    if term.operator.startswith(("and", "rem")):
        yield from filter(None, map(leaf_of, term.args))
    elif term.operator == "sum" and (term.offset or any(factor != 1 for _, factor in term.parts)):
        yield from [leaf for atom, factor in term.parts if factor == 1 and (leaf := leaf_of(atom)) is not None]


__all__ = ["tiles"]
