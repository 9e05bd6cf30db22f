"""Unfenced hand-offs: writes that a barrier publishes with no proxy fence before it, between threads that no path connects (8.6, 9.7.14.4).

Specialized warps synchronize at mbarriers only. The waiting thread reads at once, whether or not the writer fences later. So a fence is
missing if the writer never executes one, or executes one only after the last arrival that the reader waits for.
"""

from __future__ import annotations

from ptxkit.analyses.cfg.paths import comes_to, states
from ptxkit.analyses.events.descriptors import ASYNC
from ptxkit.analyses.events.effects import Action, Reach, effects, syncs
from ptxkit.analyses.events.mbarriers import Where, may_be_same, uses
from ptxkit.analyses.framework.routine import Routine, fact
from ptxkit.analyses.protocols.proxy.accesses import ProxyAccess, async_reads, async_writes, generic_accesses, has_proxy, proxy_fences
from ptxkit.analyses.protocols.proxy.crossings import Crossing
from ptxkit.analyses.protocols.proxy.overlap import Meeting, first_ends, is_filled, overlap
from ptxkit.frozen import frozen

MOST_BYTES = 256
"""An mbarrier whose location is only known to within more bytes than this may be any mbarrier."""


@frozen
class UnfencedHandoff:
    """A write that is signalled without a fence before, though other writes of the same bytes are fenced."""

    crossing: Crossing
    barrier: int
    """The instruction that signals it."""
    fence: int
    """The fence of another such write; -1 if the writer never reaches a fence afterwards."""
    is_late: bool = False
    """Whether the fence is the writer's next one and comes after the signal."""


@fact
def unfenced_handoffs(routine: Routine) -> tuple[UnfencedHandoff, ...]:
    """The writes that are signalled without a fence before; for each barrier, the first such write that is read."""
    writes = list(generic_accesses(routine, "write")) if has_proxy(routine, ASYNC) else []
    return _unfenced_handoffs(routine, writes, list(async_reads(routine)) if writes else [])


def released(routine: Routine) -> tuple[UnfencedHandoff, ...]:
    """The reads that are signalled without a fence before; for each barrier, the first whose bytes are overwritten."""
    writes = list(async_writes(routine)) if has_proxy(routine, ASYNC) else []
    return _unfenced_handoffs(routine, list(generic_accesses(routine, "read")) if writes else [], writes)


def _unfenced_handoffs(routine: Routine, writes: list[ProxyAccess], reads: list[ProxyAccess]) -> tuple[UnfencedHandoff, ...]:
    if not writes or not reads:
        return ()
    fenced, bare = _first_after(routine, {access.instruction for access in writes})
    open_ = [access for access in writes if access.instruction in bare and access.instruction not in fenced]
    found: dict[int, UnfencedHandoff] = {}
    for read in reads:
        wrong = [Crossing(access, read, -1, False, False) for access in _overlapping_writes(routine, read, open_)]
        one = _never_fenced(routine, wrong, bare) or _fenced_late(routine, wrong)
        if one is not None:
            found.setdefault(one.barrier, one)
    return tuple(found.values())


def _first_after(routine: Routine, writes: set[int]) -> tuple[dict[int, set[int]], dict[int, set[int]]]:
    """The fences that follow writes before any signal, and the instructions that signal writes before a fence."""
    fences = set(proxy_fences(routine))
    # the completion signals of copies are excluded: correct code often has no fence there
    copied = {i for i, own in effects(routine).items() if any(effect.action is Action.SIGNAL for effect in own)}
    signals = {i for i, sync in syncs(routine).items() if sync.arrives and sync.reach >= Reach.MBARRIER}

    def step(i: int, state: frozenset[int]) -> frozenset[int]:
        return frozenset() if i in fences or i in signals else state | {i}

    fenced: dict[int, set[int]] = {}
    bare: dict[int, set[int]] = {}
    for i, state in states(routine, writes | fences | signals, step):
        for write in state if i in fences else ():
            fenced.setdefault(write, set()).add(i)
        for write in state if i in signals - copied else ():
            bare.setdefault(write, set()).add(i)
    return fenced, bare


def _overlapping_writes(routine: Routine, read: ProxyAccess, writes: list[ProxyAccess]) -> list[ProxyAccess]:
    """The writes that probably cover the first bytes that are read."""
    ends = first_ends(routine, read)
    near = [access for access in writes if access.root is read.root]
    if ends is not None:
        spans = [(access, first_ends(routine, access)) for access in near]
        near = [access for access, own in spans if own is None or (own[0] < ends[1] + read.bytes and ends[0] < own[1] + access.bytes)]
    return [access for access in near if overlap(routine, access, read) in (Meeting.CERTAIN, Meeting.LIKELY)]


def _never_fenced(routine: Routine, wrong: list[Crossing], bare: dict[int, set[int]]) -> UnfencedHandoff | None:
    for one in wrong:
        if is_filled(routine, one.read, one.write) or any(comes_to(routine, one.write.instruction, i) for i in proxy_fences(routine)):
            continue
        barrier = _signalled_to(routine, bare[one.write.instruction], one.read.instruction)
        if barrier >= 0:
            return UnfencedHandoff(one, barrier, -1)
    return None


def _fenced_late(routine: Routine, wrong: list[Crossing]) -> UnfencedHandoff | None:
    """The first write that is certainly signalled to the reading thread by an arrival before the writer's next fence."""
    seen: set[tuple[int, int]] = set()
    for one in wrong:
        write, read = one.write.instruction, one.read.instruction
        if (write, read) in seen:
            continue
        seen.add((write, read))
        fences = [i for i in proxy_fences(routine) if comes_to(routine, write, i)]
        if not fences:
            continue
        bare, late = _signals_of(routine, write)
        signalled = {use.instruction: use.where for use in uses(routine) if use.arrives and use.instruction in bare | late}
        if not bare or bare & late or len(signalled) < len(bare | late) or None in signalled.values():
            continue
        waits = {use.instruction: use.where for use in uses(routine) if not use.arrives}
        own = {i: where for i, where in waits.items() if where is None or any(_may_be(where, location) for location in signalled.values())}
        last = _last(routine, read, set(own))
        if last and all(_is_of(own[i], [signalled[j] for j in bare]) and not _is_of(own[i], [signalled[j] for j in late]) for i in last):
            return UnfencedHandoff(one, min(bare), fences[0], is_late=True)
    return None


def _may_be(one: Where | None, other: Where | None) -> bool:
    return one is None or other is None or may_be_same(one, other)


def _is_of(location: Where | None, locations: list[Where | None]) -> bool:
    return any(_may_be(location, other) for other in locations)


def _signals_of(routine: Routine, write: int) -> tuple[set[int], set[int]]:
    """The mbarrier arrivals that may signal a write with no fence between, and those that follow one, up to the next such write."""
    fences = set(proxy_fences(routine))
    signals = {i for i, sync in syncs(routine).items() if sync.arrives and sync.reach is Reach.MBARRIER}

    def step(i: int, state: frozenset[int]) -> frozenset[int]:
        if i == write:
            return frozenset((write,))
        return frozenset((i,)) if i in fences and state else state

    bare, late = set(), set()
    for i, state in states(routine, {write} | fences | signals, step):
        if i in signals and write in state:
            bare.add(i)
        if i in signals and state - {write}:
            late.add(i)
    return bare, late


def _last(routine: Routine, end: int, some: set[int]) -> set[int]:
    """Those of the given instructions that may be the last one executed before `end`."""

    def step(i: int, state: frozenset[int]) -> frozenset[int]:
        return frozenset((i,)) if i in some else state

    return next((set(state) for i, state in states(routine, some | {end}, step) if i == end), set())


def _signalled_to(routine: Routine, barriers: set[int], read: int) -> int:
    """The first of the given mbarrier arrivals that the reading thread has waited for; -1 if none is known."""
    known = [use for use in uses(routine) if use.where is not None and use.where.offset.length < MOST_BYTES]
    locations = [use.where for use in known if not use.arrives and comes_to(routine, use.instruction, read)]
    for use in known:
        if use.instruction in barriers and any(
            may_be_same(use.where, location) for location in locations if use.where is not None and location is not None
        ):
            return use.instruction
    return -1
