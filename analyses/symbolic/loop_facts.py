"""What terms say of a loop-carried value while its own facts are still being found: their numbers, and their bits and ranges.

A loop-carried value stands in such terms as a leaf of kind `rough`. Facts are raised from bottom, None, to a fixed point.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice

from ptxkit.analyses.cfg.reachability import closure, nearest_first, unfold
from ptxkit.analyses.numbers.known_bits import Known, bits, join, low_known, result, top, total
from ptxkit.analyses.symbolic.evaluate import number_of
from ptxkit.analyses.symbolic.terms import SUM, Term, walk

MOST_ROUNDS = 256
"""Loops whose counter takes more numbers than this are not followed step by step."""
MOST_TERMS = 100
"""Steps with more terms than this are not followed."""
MOST_CHANGES = 4
"""After this many changes of the facts of a loop-carried value, they are dropped."""


def outcomes(term: Term, memory: dict[Term, int | None]) -> list[int] | None:
    """The possible numbers of a term; both sides of a selection with an unknown condition. None if one of them is unknown."""

    def sides(at: Term) -> Sequence[Term]:
        if at.operator != "select":
            return at.args if at.operator == "join" else ()
        condition = number_of(at.args[0], None, memory)
        return at.args[1:] if condition is None else [at.args[1] if condition else at.args[2]]

    parts = list(islice(unfold(term, sides), MOST_ROUNDS))
    found = [number_of(at, None, memory) for at in parts if at.operator not in ("join", "select")]
    known = [number for number in found if number is not None]
    return known if len(parts) < MOST_ROUNDS and len(known) == len(found) else None


def is_small(term: Term) -> bool:
    """Whether a term is small enough to be evaluated repeatedly."""
    return len(list(islice(nearest_first([term], lambda at: at.inner), MOST_TERMS + 1))) <= MOST_TERMS


def rough_leaves(term: Term) -> list[Term]:
    """The leaves in a term that stand for loop-carried values."""
    if not term.in_loop:
        return []

    def inner(at: Term) -> list[Term]:
        within = (*at.inner, at.rank) if at.rank is not None else at.inner
        return [one for one in within if one.in_loop]

    return [at for at in closure([term], inner) if at.operator == "rough"]


def known_in(term: Term, state: Mapping[Term, Known | None], found: dict[Term, Known | None]) -> Known | None:
    """The facts of a term, given those of loop-carried values; None if one that it needs is still at bottom."""
    for at in walk(term, found, _changing):
        found[at] = _known_of(at, found) if _changing(at) else state.get(at, at.known)
    return found[term]


def _changing(term: Term) -> Sequence[Term]:
    """The operands of a term that changes in a loop."""
    return term.inner if term.in_loop and not term.is_leaf else ()


def _known_of(at: Term, found: Mapping[Term, Known | None]) -> Known | None:
    if at.operator == SUM:
        parts = [(known, factor) for atom, factor in at.parts if (known := found[atom]) is not None]
        return total(at.offset, parts, at.width) if len(parts) == len(at.parts) else None
    args = [found[arg] for arg in at.args]
    if at.operator in ("join", "select"):
        sides = [known for known in (args[1:] if at.operator == "select" else args) if known is not None]
        return join(sides, at.width) if sides else None
    given = [known for known in args if known is not None]
    if len(given) < len(args):
        return None
    return result(at.operator, at.width, given, [arg.width for arg in at.args])


def widened(known: Known, width: int, changes: int) -> Known:
    """Widening, to ensure termination: first the interval is dropped, then all but the lowest bits, finally everything."""
    if changes <= 1:
        return known
    if changes <= MOST_CHANGES:
        low = (1 << low_known(known, width)) - 1
        return bits(known.zeros & low, known.ones & low, width)
    return top(width)
