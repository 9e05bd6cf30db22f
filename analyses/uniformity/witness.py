"""Two threads that diverge at a branch, as proof that their group is not uniform.

Both certainly reach the branch, and its condition, which depends only on their indices, holds for one and not for the other. If it also
depends on launch inputs, as in `i < n`, an example launch is given. For `elect.sync`, one lane of a warp is certainly elected and the
others are not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ptxkit.analyses.cfg.dominators import dominators
from ptxkit.analyses.cfg.graph import Via
from ptxkit.analyses.launch.inputs import ONE_BLOCK, arguments, fitted, special_number
from ptxkit.analyses.launch.launch import WARP
from ptxkit.analyses.numbers.bits import bits
from ptxkit.analyses.symbolic.domains import lanes
from ptxkit.analyses.symbolic.evaluate import evaluate
from ptxkit.analyses.symbolic.terms import Term
from ptxkit.analyses.symbolic.values import values
from ptxkit.analyses.symbolic.vectors import Numbers
from ptxkit.analyses.threads.lanes import holding, is_free
from ptxkit.analyses.uniformity.levels import Divergence, Level
from ptxkit.analyses.uniformity.propagation import Propagation
from ptxkit.analyses.uniformity.reaching_threads import Coming, Reach

GROUPS = (Level.WARP, Level.WARPGROUP, Level.CTA)
MOST_ARGUMENTS = 3
"""Maximum number of arguments tried: what differs for none of them is left to `example_runs`."""


def guard_witness(solved: Propagation, reach: Reach, i: int) -> Divergence | None:
    """Two threads of a CTA that reach instruction `i`, and its guard holds for one of them only."""
    routine = solved.routine
    block = solved.flow.block_of[i]
    if block not in solved.flow.reachable:
        return None
    coming = reach.block(block)
    condition = values(routine).guard(i)
    if condition is None or coming.one or not coming.sure:
        return None
    numbers = reach.first.numbers(condition, block)
    given = ""
    if numbers is None:
        if reach.elected(condition)[0] and reach.elected(condition)[1] is None:
            return _elected(solved, reach, i, coming)
        inverted = values(routine).terms.invert(condition)
        if reach.elected(inverted) == (True, None):
            found = _elected(solved, reach, i, coming)
            return None if found is None else Divergence(found.scope, found.other, found.one, i, found.why, "", found.assumption)
        numbers, given = _by_example(reach, condition)
    if numbers is None:
        return None
    return _pair(solved, reach, i, coming.sure & holding(numbers), coming.sure & ~holding(numbers), given)


def block_witness(
    solved: Propagation, reach: Reach, block: int, exits_count: bool, of_guard: Callable[[int], Divergence | None]
) -> Divergence | None:
    """Two threads of a CTA that reach a branch, of which one goes on to a block and the other elsewhere, without exiting.

    `of_guard` gives the witness for a branch.
    """
    if block not in solved.flow.reachable:
        return None
    dominance = dominators(solved.routine)
    for before in (dominance.post if exits_count else dominance.staying).decide(block):
        if before not in solved.flow.reachable:
            continue
        witness = of_guard(solved.flow.blocks[before].end - 1)
        found = _parted(solved, reach, block, before, exits_count, witness) if witness is not None else None
        if found is not None:
            return found
    return None


def _parted(solved: Propagation, reach: Reach, block: int, before: int, exits_count: bool, witness: Divergence) -> Divergence | None:
    """Two threads that diverge at the end of `before` so that one reaches `block` and the other does not."""
    i = solved.flow.blocks[before].end - 1
    arriving, coming = reach.block(before), reach.block(block)
    condition = values(solved.routine).guard(i)
    if condition is None or arriving.one:
        return None
    numbers = reach.first.numbers(condition, before)
    if numbers is not None:
        holds = holding(numbers)
        here = coming.sure & arriving.sure if not coming.one else 0
        there = arriving.sure & ~coming.possible
        pairs = [(here & path, there & ~path) for path in (holds, reach.all & ~holds)]
        found = [pair for pair in pairs if pair[0] and pair[1]]
        return _first([_pair(solved, reach, i, *pair, "", swap=pair[0] & holds == 0) for pair in found])
    taken = {
        edge.via
        for edge in solved.flow.blocks[before].edges
        if (dominators(solved.routine).post if exits_count else dominators(solved.routine).staying).dominates(block, edge.target)
    }
    if taken == {Via.TAKEN}:
        return witness
    if taken in ({Via.NOT_TAKEN}, {Via.FALL}):
        return Divergence(witness.scope, witness.other, witness.one, i, witness.why, witness.given, witness.assumption)
    return None


def _first(found: list[Divergence | None]) -> Divergence | None:
    return min([one for one in found if one is not None], key=lambda one: one.scope, default=None)


def _pair(solved: Propagation, reach: Reach, i: int, ones: int, others: int, given: str, swap: bool = False) -> Divergence | None:
    """One thread of each set, from the smallest group that contains both. With `swap`, the guard holds for the others."""
    template = reach.template
    count = template.count
    if not ones or not others:
        return None
    for scope in GROUPS:
        size = scope.threads or count
        for start in range(0, count, size):
            group = ((1 << size) - 1) << start
            if ones & group and others & group:
                one, other = next(bits(ones & group)), next(bits(others & group))
                holds, not_ = (other, one) if swap else (one, other)
                why = f"{_predicate(solved, i)} holds for {template.threads[holds]}, not for {template.threads[not_]}"
                threads = template.threads
                return Divergence(scope, threads[one], threads[other], i, why, given, reach.template.assumed(max(one, other)))
    return None


def _predicate(solved: Propagation, i: int) -> str:
    guard = solved.routine.instructions[i].guard
    return f"`{guard.text.strip()}`" if guard is not None else "the condition"


def _elected(solved: Propagation, reach: Reach, i: int, coming: Coming) -> Divergence | None:
    """An elected and a non-elected lane of a warp that arrives there as a whole."""
    full = (1 << WARP) - 1
    template = reach.template
    for start in range(0, template.count, WARP):
        if coming.sure >> start & full == full:
            one, other = template.threads[start], template.threads[start + 1]
            why = f"{_predicate(solved, i)} holds for the one lane of each warp that is elected, as {one}, and for no other"
            return Divergence(Level.WARP, one, other, i, why, "", reach.template.assumed(start + WARP - 1))
    return None


def _by_example(reach: Reach, condition: Term) -> tuple[Numbers | None, str]:
    """The condition for each thread of the first warp (and the first thread beyond), for arguments with which it differs."""
    if not is_free(condition) or not reach.template.has_indices:
        return None, ""
    leaves = condition.leaves()
    names = {leaf.name for leaf in leaves if leaf.operator == "special"}
    if not names & {"%tid.x", "%tid.y", "%tid.z", "%laneid"}:
        return None, ""
    count = min(WARP, reach.template.count)

    def index(leaf: Term) -> Numbers | None:
        found = reach.template.specials(leaf.name)
        return None if found is None else found[:count]

    for tried in arguments(MOST_ARGUMENTS):
        chosen = {leaf: _example(reach, leaf, tried) for leaf in leaves if _is_chosen(leaf)}
        numbers = evaluate(condition, lanes(index, count), {leaf: (number,) * count for leaf, number in chosen.items()})
        if numbers is not None and len(set(numbers)) == 2:
            return numbers + numbers[:1] * (reach.template.count - count), ", ".join(_assignments(chosen))
    return None, ""


def _is_chosen(leaf: Term) -> bool:
    return leaf.operator == "parameter" or not leaf.name.startswith(("%tid", "%lane"))


def _example(reach: Reach, leaf: Term, tried: int) -> int:
    if leaf.operator == "parameter":
        return fitted(tried, leaf.alignment, leaf.bounds, leaf.width)
    return special_number(leaf.name, reach.template.shape, ONE_BLOCK) or 0


def _assignments(chosen: dict[Term, int]) -> Iterator[str]:
    for leaf, number in chosen.items():
        yield f"{leaf} = {number}"
