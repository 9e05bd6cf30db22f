"""Writes that others are told of with no proxy fence before, where no way of control leads from the write to the read (8.6, 9.7.14.4).

Warps with different tasks meet at mbarriers only. Whoever is told of a write reads it at once, whatever the writer fences later on. So
a fence is missing if the writer comes to none at all; if it comes to one only behind the arrival that whoever reads waits for last; if it
has one before it tells of the other parts of what is read, but not of one; and if all who arrive at the same mbarrier have one before, but
one.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator

import attrs

from ptxkit.analyses.cfg.paths import comes_to, states
from ptxkit.analyses.events.descriptors import ASYNC
from ptxkit.analyses.events.effects import Action, Reach, effects, syncs
from ptxkit.analyses.events.mbarrier_objects import Where, uses
from ptxkit.analyses.framework.routine import Routine, fact
from ptxkit.analyses.protocols.mbarrier.arriver_conventions import Odd, arrivals, arrivals_by_ring, odd_ones
from ptxkit.analyses.protocols.proxy.crossings import (
    Crossing,
    Meeting,
    Touch,
    async_reads,
    async_writes,
    first_ends,
    generic_touches,
    has_proxy,
    is_filled,
    meet,
    proxy_fences,
)
from ptxkit.frozen import frozen

FEW = 4
"""One of so many is an exception."""
MOST_BYTES = 256
"""An object of which no more is known than that it lies in more bytes than this may be any."""


@frozen
class Untold:
    """A write that is told of with no fence before, though others of the same bytes are fenced."""

    crossing: Crossing
    barrier: int
    """Where it is told of."""
    fence: int
    """Where another is fenced; -1 if who writes never comes to a fence behind it."""
    is_odd: bool = False
    """Whether all others that arrive at the same mbarrier are behind a fence."""
    is_late: bool = False
    """Whether that fence is the next that the writer comes to, and stands behind what tells."""


@fact
def untold(routine: Routine) -> tuple[Untold, ...]:
    """The writes that are told of with no fence before, for each barrier that tells of them the first that is read."""
    writes = list(generic_touches(routine, "write")) if has_proxy(routine, ASYNC) else []
    return _untold(routine, writes, list(async_reads(routine)) if writes else [])


def released(routine: Routine) -> tuple[Untold, ...]:
    """The reads that are told of with no fence before, for each barrier that tells of them the first that is written over."""
    writes = list(async_writes(routine)) if has_proxy(routine, ASYNC) else []
    return _untold(routine, list(generic_touches(routine, "read")) if writes else [], writes)


def _untold(routine: Routine, writes: list[Touch], reads: list[Touch]) -> tuple[Untold, ...]:
    if not writes or not reads:
        return ()
    fenced, bare = _first_behind(routine, {touch.instruction for touch in writes})
    open_ = [touch for touch in writes if touch.instruction in bare and touch.instruction not in fenced]
    closed = [touch for touch in writes if touch.instruction in fenced and touch.instruction not in bare]
    found: dict[int, Untold] = {}
    wrong_by_kind: dict[Hashable, list[Crossing]] = {}
    for read in reads:
        wrong = [Crossing(touch, read, -1, False, False) for touch in _met(routine, read, open_)]
        for crossing in wrong:
            wrong_by_kind.setdefault(_kind(routine, crossing.write), []).append(crossing)
        one = _never_fenced(routine, wrong, bare) or _fenced_late(routine, wrong)
        if one is None and wrong:
            one = _exception(routine, wrong, _fences(_met(routine, read, closed), fenced), bare)
        if one is not None:
            found.setdefault(one.barrier, one)
    for odd in _odd_ones(routine, writes, reads):
        found[odd.barrier] = odd
    for kind, crossings in wrong_by_kind.items() if not found else ():
        # of a ring, each read may meet but one of the writes
        one = _exception(routine, crossings, _fences([touch for touch in closed if _kind(routine, touch) == kind], fenced), bare)
        if one is not None and not one.crossing.is_guess:
            return (one,)
    return tuple(found.values())


def _odd_ones(routine: Routine, writes: list[Touch], reads: list[Touch]) -> Iterator[Untold]:
    """What is told of with no fence before, where all others that arrive at the same mbarrier are behind one.

    Whoever waits there comes to a read of what is told of.
    """
    fences = set(proxy_fences(routine))
    touched = {touch.instruction for touch in writes}
    waits = {i for i, sync in syncs(routine).items() if sync.waits and sync.reach >= Reach.OBJECT}
    tells = {i for i, sync in syncs(routine).items() if sync.arrives and sync.reach is Reach.OBJECT}

    def step(i: int, state: frozenset[int]) -> frozenset[int]:
        """The writes since the last wait; once a fence has come behind them, that, as a number below nought."""
        if i in waits:
            return frozenset()
        if i in fences:
            return frozenset((~i,)) if state else state
        return state | {i} if i in touched else state

    bare: dict[int, frozenset[int]] = {}
    fenced: dict[int, int] = {}
    for i, state in states(routine, touched | fences | waits | tells, step) if fences else ():
        own = frozenset([one for one in state if one >= 0])
        if i in tells and own:
            bare[i] = own
        elif i in tells and state:
            fenced[i] = ~min(state)
    among = (*arrivals(routine), *arrivals_by_ring(routine)) if bare and fenced else ()
    told: set[int] = set()
    for odd in odd_ones(among, bare, set(fenced)):
        pair = _handed_on(routine, odd, writes, reads) if odd.instruction not in told else None
        if pair is not None:
            told.add(odd.instruction)
            yield Untold(Crossing(*pair, -1, False, False), odd.instruction, fenced[odd.other], True)


def _handed_on(routine: Routine, odd: Odd, writes: list[Touch], reads: list[Touch]) -> tuple[Touch, Touch] | None:
    """What an arrival tells of, with what whoever waits there comes to that may be of the same bytes; None if there is nothing."""
    places = [use.where for use in uses(routine) if use.instruction == odd.instruction and use.where is not None]
    waited = [use for use in uses(routine) if not use.arrives and use.where is not None]
    waits = [use.instruction for use in waited for place in places if use.where is not None and use.where.may_be(place)]
    told = [touch for touch in writes if touch.instruction in odd.touched]
    for read in reads:
        if any(comes_to(routine, wait, read.instruction) for wait in waits):
            for touch in told:
                if touch.root is read.root and meet(routine, touch, read) is not None:
                    return touch, read
    return None


def _fences(touches: list[Touch], fenced: dict[int, set[int]]) -> set[int]:
    return set[int]().union(*[fenced[touch.instruction] for touch in touches])


def _kind(routine: Routine, touch: Touch) -> Hashable:
    """Equal for touches of the stages of one ring that are alike: the instruction, and where the ring starts."""
    starts = {address.linear[0] for address in touch.addresses}
    return routine.instructions[touch.instruction].opcode.text, id(touch.root), frozenset(starts)


def _first_behind(routine: Routine, writes: set[int]) -> tuple[dict[int, set[int]], dict[int, set[int]]]:
    """The fences that come behind writes before anybody is told, and what tells of writes before a fence comes."""
    fences = set(proxy_fences(routine))
    # with what copies tell of themselves much that is in use has no fence
    copied = {i for i, own in effects(routine).items() if any(effect.action is Action.SIGNAL for effect in own)}
    tells = {i for i, sync in syncs(routine).items() if sync.arrives and sync.reach >= Reach.OBJECT}

    def step(i: int, state: frozenset[int]) -> frozenset[int]:
        return frozenset() if i in fences or i in tells else state | {i}

    fenced: dict[int, set[int]] = {}
    bare: dict[int, set[int]] = {}
    for i, state in states(routine, writes | fences | tells, step):
        for write in state if i in fences else ():
            fenced.setdefault(write, set()).add(i)
        for write in state if i in tells - copied else ():
            bare.setdefault(write, set()).add(i)
    return fenced, bare


def _met(routine: Routine, read: Touch, writes: list[Touch]) -> list[Touch]:
    """The writes of which it is likely that they are of the first bytes that are read."""
    ends = first_ends(routine, read)
    near = [touch for touch in writes if touch.root is read.root]
    if ends is not None:
        spans = [(touch, first_ends(routine, touch)) for touch in near]
        near = [touch for touch, own in spans if own is None or (own[0] < ends[1] + read.bytes and ends[0] < own[1] + touch.bytes)]
    return [touch for touch in near if meet(routine, touch, read) in (Meeting.CERTAIN, Meeting.LIKELY)]


def _never_fenced(routine: Routine, wrong: list[Crossing], bare: dict[int, set[int]]) -> Untold | None:
    for one in wrong:
        if is_filled(routine, one.read, one.write) or any(comes_to(routine, one.write.instruction, i) for i in proxy_fences(routine)):
            continue
        barrier = _told_to(routine, bare[one.write.instruction], one.read.instruction)
        if barrier >= 0:
            return Untold(one, barrier, -1)
    return None


def _fenced_late(routine: Routine, wrong: list[Crossing]) -> Untold | None:
    """The first write of which whoever reads is told last, for certain, by what stands before the next fence of the writer."""
    seen: set[tuple[int, int]] = set()
    for one in wrong:
        write, read = one.write.instruction, one.read.instruction
        if (write, read) in seen:
            continue
        seen.add((write, read))
        fences = [i for i in proxy_fences(routine) if comes_to(routine, write, i)]
        if not fences:
            continue
        bare, late = _tellings(routine, write)
        told = {use.instruction: use.where for use in uses(routine) if use.arrives and use.instruction in bare | late}
        if not bare or bare & late or len(told) < len(bare | late) or None in told.values():
            continue
        waits = {use.instruction: use.where for use in uses(routine) if not use.arrives}
        own = {i: where for i, where in waits.items() if where is None or any(_may_be(where, place) for place in told.values())}
        last = _last(routine, read, set(own))
        if last and all(_is_of(own[i], [told[j] for j in bare]) and not _is_of(own[i], [told[j] for j in late]) for i in last):
            return Untold(one, min(bare), fences[0], is_late=True)
    return None


def _may_be(one: Where | None, other: Where | None) -> bool:
    return one is None or other is None or one.may_be(other)


def _is_of(place: Where | None, places: list[Where | None]) -> bool:
    return any(_may_be(place, other) for other in places)


def _tellings(routine: Routine, write: int) -> tuple[set[int], set[int]]:
    """The arrivals at mbarrier objects that may tell of a write with no fence between, and those behind one, up to the next such write."""
    fences = set(proxy_fences(routine))
    tells = {i for i, sync in syncs(routine).items() if sync.arrives and sync.reach is Reach.OBJECT}

    def step(i: int, state: frozenset[int]) -> frozenset[int]:
        if i == write:
            return frozenset((write,))
        return frozenset((i,)) if i in fences and state else state

    bare, late = set(), set()
    for i, state in states(routine, {write} | fences | tells, step):
        if i in tells and write in state:
            bare.add(i)
        if i in tells and state - {write}:
            late.add(i)
    return bare, late


def _last(routine: Routine, end: int, some: set[int]) -> set[int]:
    """Those of some instructions that may be the last of them before another."""

    def step(i: int, state: frozenset[int]) -> frozenset[int]:
        return frozenset((i,)) if i in some else state

    return next((set(state) for i, state in states(routine, some | {end}, step) if i == end), set())


def _exception(routine: Routine, wrong: list[Crossing], fences: set[int], bare: dict[int, set[int]]) -> Untold | None:
    barriers = set[int]().union(*[bare[one.write.instruction] for one in wrong])
    if len(barriers) != 1 or not fences:
        return None
    is_guess = len(fences) < FEW - 1
    # where copies fill the same memory, what is read may be theirs
    if is_guess and any(is_filled(routine, one.read, one.write) for one in wrong):
        return None
    return Untold(attrs.evolve(wrong[0], is_guess=is_guess), next(iter(barriers)), min(fences))


def _told_to(routine: Routine, barriers: set[int], read: int) -> int:
    """The first of some arrivals at an mbarrier that whoever reads has waited for; -1 if that is not seen of any."""
    known = [use for use in uses(routine) if use.where is not None and use.where.high - use.where.low < MOST_BYTES]
    places = [use.where for use in known if not use.arrives and comes_to(routine, use.instruction, read)]
    for use in known:
        if use.instruction in barriers and any(use.where.may_be(place) for place in places if use.where is not None and place is not None):
            return use.instruction
    return -1
