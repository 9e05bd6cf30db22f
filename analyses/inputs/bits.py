"""Parameters that select bits of an index, as masks or shift counts."""

from __future__ import annotations

from collections.abc import Iterable

from ptxkit.analyses.framework.routine import Routine, fact
from ptxkit.analyses.inputs.parameters import conditions
from ptxkit.analyses.inputs.reached import reached
from ptxkit.analyses.memory.accesses import accesses
from ptxkit.analyses.registers.ssa import ssa
from ptxkit.analyses.symbolic.terms import Term, walk
from ptxkit.analyses.symbolic.values import values

_OF_BITS = frozenset(("and", "or", "xor", "shl", "shr.u", "shr.s"))
_SIGN = -1, 0
"""Bounds of a value that keeps all bits of another or none, as its sign bit is copied to every position."""
_INDICES = frozenset(("%tid", "%laneid", "%warpid", "%ctaid", "%clusterid", "%cluster_ctaid", "%cluster_ctarank"))


@fact
def with_chosen_bits(routine: Routine) -> tuple[tuple[Routine, int], ...]:
    """The accesses at whose address a parameter selects the bits of a thread or CTA index: a function and an instruction each. With
    synthesized values, threads would share addresses that are meant to be distinct, and use unaligned ones. These are all accesses if a
    branch depends on such bits, since it may decide which threads execute them."""
    found = []
    for of in reached(routine):
        # an `or` in a condition tests whether two numbers both fit in 32 bits, before a division
        decides = any(part.operator != "or" and _chooses(of, part) for part in _through_loops(of, conditions(of)))
        found += [(of, one.instruction) for one in accesses(of) if decides or _is_chosen(of, one.address)]
    return tuple(found)


def _is_chosen(routine: Routine, address: Term | None) -> bool:
    return address is not None and any(_chooses(routine, part) for part in _through_loops(routine, (address,)))


def _chooses(routine: Routine, term: Term) -> bool:
    """Whether one operand comes from a parameter and the other from an index."""
    if term.operator not in _OF_BITS or len(term.args) != 2 or term.width == 1 or any(one.signed_bounds == _SIGN for one in term.args):
        return False
    made_of = [{_kind_of(part) for part in _through_loops(routine, (one,)) if part.is_leaf} for one in term.args]
    return any("parameter" in one and "index" not in one and "index" in other for one, other in (made_of, made_of[::-1]))


def _kind_of(leaf: Term) -> str:
    return "index" if leaf.name.partition(".")[0] in _INDICES else leaf.operator


def _through_loops(routine: Routine, terms: Iterable[Term]) -> tuple[Term, ...]:
    """All subterms, following loop values to their initial and updated values."""
    known, numbering = values(routine), ssa(routine)
    found: dict[Term, None] = {}
    stack = list(terms)
    while stack:
        for part in walk(stack.pop(), found):
            found[part] = None
            if part.operator == "phi" and part.ssa_value is not None:
                stack += [known.of(one) for one in numbering.values[part.ssa_value].operands if one >= 0]
    return tuple(found)
