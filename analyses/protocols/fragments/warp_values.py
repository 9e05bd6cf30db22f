"""Values that provably differ between threads of a warp, with two threads that show it."""

from __future__ import annotations

from ptxkit.analyses.framework.routine import Routine
from ptxkit.analyses.launch.inputs import warp_block
from ptxkit.analyses.launch.launch import WARP, launch
from ptxkit.analyses.symbolic.domains import lanes
from ptxkit.analyses.symbolic.evaluate import evaluate
from ptxkit.analyses.symbolic.terms import Term
from ptxkit.analyses.symbolic.values import values
from ptxkit.frozen import frozen

_INDICES = ("%tid.", "%laneid")
_SHARED = ("%ctaid", "%nctaid", "%ntid", "%clusterid", "%nclusterid", "%cluster_ctaid", "%cluster_nctaid", "%gridid")
"""Prefixes of special registers that are uniform in a CTA."""


@frozen
class Differing:
    """Two threads of one warp with different values."""

    one: int
    other: int
    """Their indices in the CTA."""
    difference: int
    """The difference of the second to the first value, unsigned."""
    assumed: bool
    """Whether this assumes that a CTA has at least a warp of threads along x."""


def differing(routine: Routine, term: Term) -> Differing | None:
    """Two threads of a warp in which a term has different values whenever they reach it together; None if that is not certain."""
    terms = values(routine).terms
    own, rest = terms.split(term, lambda atom: all(map(_is_index, atom.leaves())))
    if not all(_is_shared(routine, leaf) for leaf in rest.leaves()):
        return None
    leaves = own.leaves()
    if not any(map(_is_index, leaves)):
        return None
    shape = launch(routine).threads
    if shape is None and any(leaf.name in ("%tid.y", "%tid.z") for leaf in leaves):
        return None
    width, height, depth = warp_block(routine)
    count = width * height * depth
    threads = range(count)
    index = {
        "%tid.x": tuple([thread % width for thread in threads]),
        "%tid.y": tuple([thread // width % height for thread in threads]),
        "%tid.z": tuple([thread // (width * height) for thread in threads]),
        "%laneid": tuple([thread % WARP for thread in threads]),
    }
    numbers = evaluate(own, lanes(lambda leaf: index.get(leaf.name), count))
    if numbers is None:
        return None
    for thread, number in enumerate(numbers):
        first = numbers[thread - thread % WARP]
        if number != first:
            only_lane = all(leaf.name == "%laneid" for leaf in leaves)
            return Differing(thread - thread % WARP, thread, (number - first) % (1 << term.width), shape is None and not only_lane)
    return None


def _is_index(leaf: Term) -> bool:
    return leaf.operator == "special" and leaf.name.startswith(_INDICES)


def _is_shared(routine: Routine, leaf: Term, depth: int = 4) -> bool:
    """Whether a leaf has the same value in all threads of a warp, in the same iteration of enclosing loops."""
    if leaf.operator in ("parameter", "address", "window", "literal"):
        return True
    if leaf.operator == "special":
        return leaf.name.startswith(_SHARED)
    if leaf.operator != "phi" or leaf.ssa_value is None or not depth:
        return False
    induction = values(routine).induction(leaf.ssa_value)
    if induction is None or (induction.step is None and induction.repeats is None):
        return False
    return all(_is_shared(routine, inner, depth - 1) for inner in induction.start.leaves())
