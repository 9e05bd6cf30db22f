"""Which waits of those who start MMAs are matched by a commit, and which are not (9.7.16.12).

In a ring, who starts MMAs waits for a stage, uses it, and a commit releases it, to the same mbarriers in each iteration. Where the code
of a ring is there several times, unrolled or with its first round in front, each copy has its commit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise

from ptxkit.analyses.cfg.graph import control_flow
from ptxkit.analyses.cfg.paths import states
from ptxkit.analyses.events.effects import syncs
from ptxkit.analyses.events.mbarriers import Where, uses
from ptxkit.analyses.framework.finding import Finding
from ptxkit.analyses.framework.routine import Routine
from ptxkit.analyses.protocols.mbarrier.arriver_conventions import groups, locations_of, ring_of
from ptxkit.analyses.protocols.mbarrier.usage import usage
from ptxkit.analyses.protocols.tcgen05.tensor_memory import FEW, MMAS, tensor

LEAST_SIMILAR = 6
"""What so many locations do, and one does not, is left out there."""
MOST_PAIRS = 200
"""So many pairs of waits and commits are looked at in a function."""


def unanswered(routine: Routine) -> tuple[Finding, ...]:
    """The waits that alone have MMAs after them that are not committed to the mbarrier that the others of their kind are committed to.

    Who fills what is waited for waits for that mbarrier itself: then one other is enough to distinguish it. Without that, there are
    several.
    """
    known = tensor(routine)
    if known is None or known.may_arrive or not known.commits:
        return ()
    mmas = set(known.starts.get(MMAS, ()))
    commits = groups([use for use in uses(routine) if use.instruction in known.commits])
    waits = groups([use for use in uses(routine) if not use.arrives])
    pairs = [(wait, commit) for wait in waits for commit in commits if len(wait.instructions) > 1 and not wait.overlaps(commit.locations)]
    refills = _refills(routine, known.commits) if pairs else []
    events = _events(routine, {i for group in (*waits, *commits) for i in group.instructions}, mmas) if pairs else set()
    found: dict[int, Finding] = {}
    for wait, commit in pairs[:MOST_PAIRS]:
        is_ring = any(wait.overlaps((location,)) and commit.overlaps(given) for location, given in refills)
        # where it is done twice and left out once, the rounds may be meant to differ
        if not is_ring and len(wait.instructions) < FEW:
            continue
        answered, bare = _outcomes(routine, wait.instructions, commit.instructions, mmas, events)
        if len(bare) == 1 and len(answered) >= (1 if is_ring else FEW - 1):
            at, end = next(iter(bare.items()))
            other = min(answered)
            message = "no commit after this wait signals the mbarrier that is signalled after all others of its kind"
            found.setdefault(at, Finding(at, message, [(end, "then waited here"), (other, "after this wait it is signalled")], False))
    return tuple(found.values())


def alone(routine: Routine) -> Iterator[Finding]:
    """The commits that signal one ring alone, while all others to that ring, which are many, come with one to another ring."""
    known = tensor(routine)
    if known is None or len(known.commits) <= LEAST_SIMILAR:
        return
    names = ring_of(routine)
    ring = {
        use.instruction: names[location]
        for use in usage(routine).uses
        if use.instruction in known.commits
        for location in locations_of(use)[:1]
    }
    beside = _beside(routine, ring.keys())
    for name in sorted(set(ring.values())):
        own = [i for i in ring if ring[i] == name]
        single = [i for i in own if all(ring[other] == name for other in beside.get(i, ()))]
        if len(single) == 1 and len(own) > LEAST_SIMILAR:
            other = next(i for i in own if i not in single)
            message = "MMAs are committed to this mbarrier alone, and everywhere else to another with it"
            with_it = next(i for i in beside[other] if ring[i] != name)
            yield Finding(single[0], message, [(other, "elsewhere committed here"), (with_it, "and with it here")], False)


def _beside(routine: Routine, commits: Iterable[int]) -> dict[int, set[int]]:
    """The commits that reconverge on some path: with no MMA started, and nothing waited for, between."""
    known, own = tensor(routine), set(commits)
    ends = {i for i, sync in syncs(routine).items() if sync.waits} | set(known.starts.get(MMAS, ()) if known is not None else ())

    def step(i: int, state: frozenset[int]) -> frozenset[int]:
        return state | {i} if i in own else frozenset()

    found: dict[int, set[int]] = {}
    for i, state in states(routine, own | ends, step):
        for other in state - {i} if i in own else ():
            found.setdefault(i, set()).add(other)
            found.setdefault(other, set()).add(i)
    return found


def _refills(routine: Routine, commits: Iterable[int]) -> list[tuple[Where, tuple[Where, ...]]]:
    """The mbarriers that are signalled by other things than commits, with those that were waited for right before."""
    waits: dict[int, Where] = {}
    fills: dict[int, list[Where]] = {}
    for use in uses(routine):
        if use.where is not None and not use.arrives:
            waits[use.instruction] = use.where
        elif use.where is not None and use.instruction not in commits:
            fills.setdefault(use.instruction, []).append(use.where)

    def step(i: int, state: frozenset[int]) -> frozenset[int]:
        return frozenset((i,)) if i in waits else state

    paths = states(routine, waits.keys() | fills.keys(), step)
    return [(location, tuple([waits[wait] for wait in state])) for i, state in paths for location in fills.get(i, ())]


def _events(routine: Routine, marks: set[int], mmas: set[int]) -> set[int]:
    """Waits and commits, and of MMAs that stand in one block with none of these between, the first."""
    block_of = control_flow(routine).block_of
    ordered = sorted(marks | mmas)
    again = {i for before, i in pairwise(ordered) if {before, i}.isdisjoint(marks) and block_of[before] == block_of[i]}
    return set(ordered) - again


def _outcomes(
    routine: Routine, waits: frozenset[int], commits: frozenset[int], mmas: set[int], events: set[int]
) -> tuple[set[int], dict[int, int]]:
    """The waits after which MMAs are always committed before the next wait, and the others with that next one.

    All of these are among the `events`; so may be waits and commits of other mbarriers.
    """

    def step(i: int, state: frozenset[int]) -> frozenset[int]:
        """The waits that were passed; those after which an MMA was started, as numbers below 0."""
        if i in waits:
            return frozenset((i,))
        if i in commits:
            return frozenset()
        return frozenset([~wait if wait >= 0 else wait for wait in state]) if state and i in mmas else state

    answered: set[int] = set()
    bare: dict[int, int] = {}
    for i, state in states(routine, events, step):
        started = [~wait for wait in state if wait < 0]
        if i in commits:
            answered.update(started)
        elif i in waits:
            for wait in started:
                bare.setdefault(wait, i)
    return answered - bare.keys(), bare
