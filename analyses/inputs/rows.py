"""Lengths of rows: numbers that addresses multiply an index by, or that an index is divided by into row and column, or of which two bound
the same index, the elements of a row and its length with padding.

A host may pad rows to whole warps; then the threads that have an element are whole warps, too. A plain count of elements may be any number.
"""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.framework.routine import Routine, fact
from ptxkit.analyses.inputs.example import Example, Number, Structure
from ptxkit.analyses.inputs.parameters import Leaf, addresses, conditions, divisors, factors_of, leaf_of
from ptxkit.analyses.launch.launch import WARP
from ptxkit.analyses.symbolic.terms import Term, walk


@fact
def rows(routine: Routine) -> frozenset[Leaf]:
    """The parts of parameters that are lengths of rows."""
    return frozenset(factors_of(addresses(routine)) | divisors(routine) | _bounds_of_one_index(routine))


def depends_on_rows(routine: Routine, condition: Term) -> bool:
    """Whether the length of a row decides a condition."""
    return any(leaf_of(leaf) in rows(routine) for leaf in condition.leaves())


def has_broken_rows(routine: Routine, one: Example) -> bool:
    """Whether a launch has a row that is not a multiple of a warp long."""
    lengths = {(name, offset) for name, offset, _ in rows(routine)}
    return any((name, offset) in lengths and value % WARP for name, offset, value in _numbers(one))


def _numbers(one: Example) -> Iterator[tuple[str, int, int]]:
    """The integers that are passed: parameter, offset in it, and value."""
    for name, given in one.arguments:
        for offset, part in given.parts if isinstance(given, Structure) else [(0, given)]:
            if isinstance(part, Number):
                yield name, offset, int(part.value)


def _bounds_of_one_index(routine: Routine) -> set[Leaf]:
    """Parts of parameters that bound an index which another one bounds, too."""
    bounds: dict[Term, set[Leaf]] = {}
    for one in [part for condition in conditions(routine) for part in walk(condition) if part.operator in ("lt.s", "lt.u")]:
        index, bound = one.args
        leaf = leaf_of(bound)
        if leaf is not None:
            bounds.setdefault(index, set()).add(leaf)
    return {leaf for leaves in bounds.values() if len(leaves) > 1 for leaf in leaves}
