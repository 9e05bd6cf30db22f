"""Accesses to the same memory through different proxies, and the fences between them (8.6, 9.7.10.24.2, 9.7.14.4).

Data written through the generic proxy may be read through another proxy only after a proxy fence by the writing thread: write, fence,
signal the reader by a barrier, read. A dataflow analysis over bit sets tracks how far each write has progressed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import attrs

from ptxkit.analyses.cfg.dataflow import solve
from ptxkit.analyses.cfg.graph import control_flow
from ptxkit.analyses.cfg.paths import between, met
from ptxkit.analyses.events.descriptors import ASYNC, ROW_BYTES, descriptors, matrix_bytes
from ptxkit.analyses.events.effects import Reach, syncs
from ptxkit.analyses.framework.routine import Routine, fact
from ptxkit.analyses.memory.accesses import accesses
from ptxkit.analyses.numbers.bits import bits
from ptxkit.analyses.protocols.proxy.accesses import (
    ProxyAccess,
    async_reads,
    async_writes,
    generic_accesses,
    has_proxy,
    proxy_fences,
)
from ptxkit.analyses.protocols.proxy.overlap import Meeting, address_range, is_filled, overlap, start_of
from ptxkit.analyses.uniformity.levels import Level
from ptxkit.analyses.uniformity.uniformity import uniformity
from ptxkit.frozen import frozen

MOST_REACH = 1 << 16
"""Upper bound on the bytes that one operation reads through the async proxy, where a lower one would be wrong."""
BoxBytes = Callable[[Routine, int], int]
"""Gives an upper bound on the bytes of a copy; 0 if unknown."""


@frozen
class Crossing:
    """A write through the generic proxy that a read through the async proxy may not observe."""

    write: ProxyAccess
    read: ProxyAccess
    fence: int
    """A misplaced fence; -1 if there is none at all."""
    is_late: bool
    """Whether that fence comes after the barrier, and a thread that wrote never executes it; otherwise it precedes the write."""
    is_certain: bool
    """Whether both certainly access the same bytes."""
    is_guess: bool = False
    """Whether the only evidence is that both start from the same address and are not known to be disjoint."""
    others: tuple[int, ...] = ()
    """Other instructions that are likely to have the same problem."""


@frozen
class _State:
    """The progress of writes, as bit sets."""

    fresh: int = 0
    """Written, without a barrier since."""
    signalled: int = 0
    """Signalled by a barrier."""
    late: int = 0
    """Fenced only after the barrier."""
    over: int = 0
    """Among these, writes that may have been overwritten after the barrier, so that the read observes the later write."""
    early: int = 0
    """Among all of these, writes preceded by a fence without a barrier in between."""
    has_fenced: bool = False
    """Whether there may have been a fence since the last barrier."""


@fact
def crossings(routine: Routine) -> tuple[Crossing, ...]:
    """Reads through the async proxy of data written through the generic one, with a path in between that lacks the fence."""
    if not has_proxy(routine, ASYNC):
        return ()
    writes, reads = list(generic_accesses(routine, "write")), list(async_reads(routine))
    wanted = {id(read.root) for read in reads}
    writes = [one_access for one_access in writes if id(one_access.root) in wanted]
    return tuple(_unfenced(routine, writes, reads)) if writes else ()


def overwritten(routine: Routine) -> tuple[Crossing, ...]:
    """Writes through the async proxy to data read through the generic one, with a path in between without a fence."""
    if not has_proxy(routine, ASYNC):
        return ()
    writes = list(async_writes(routine))
    wanted = {id(write.root) for write in writes}
    reads = [one_access for one_access in generic_accesses(routine, "read") if id(one_access.root) in wanted]
    found = []
    for end, state, own in _arriving(routine, reads, writes) if reads else ():
        first = _crossing(routine, reads, end, state, own)
        if first is None or first.fence >= 0:
            continue
        missing = [reads[k] for k in bits((state.fresh | state.signalled) & own)]
        likely = {
            one_access.instruction for one_access in missing if overlap(routine, one_access, end) in (Meeting.CERTAIN, Meeting.LIKELY)
        }
        found.append(attrs.evolve(first, others=tuple(sorted(likely - {first.write.instruction}))))
    return tuple(found)


def _unfenced(routine: Routine, before: list[ProxyAccess], after: list[ProxyAccess]) -> Iterator[Crossing]:
    """For each later access, the first earlier one that it overlaps with a missing or misplaced fence in between."""
    for end, state, own in _arriving(routine, before, after):
        found = _crossing(routine, before, end, state, own)
        if found is not None:
            yield found


def is_ordered_by(routine: Routine, fence: int, box_bytes: BoxBytes | None = None) -> bool:
    """Whether accesses through the generic proxy and later ones through the async proxy may exist that only this fence orders on some
    path."""
    if not has_proxy(routine, ASYNC):
        return False
    writes, reads, later = list(generic_accesses(routine, "write")), list(generic_accesses(routine, "read")), list(async_writes(routine))
    for before, after in ((writes, list(async_reads(routine))), (reads, later), (writes, later)):
        state = next((state for _, state in _states(routine, before, {fence})), _State())
        if any(_meets_any(routine, before, after, left, box_bytes) for left in _let_go(routine, before, fence, state.fresh)):
            return True
        # accesses signalled before the fence are only ordered with what follows
        for end, found, own in _arriving(routine, before, after, fence, _State(signalled=state.signalled)):
            if _meets_any(routine, before, [end], (found.fresh | found.signalled) & own, box_bytes):
                return True
    return False


def _let_go(routine: Routine, before: list[ProxyAccess], fence: int, fresh: int) -> Iterator[int]:
    """The accesses, as a bit set, that would be signalled, or reach an access through the async proxy, without this fence or another
    one."""
    ends = {access.instruction for access in accesses(routine) if access.memory.proxy == ASYNC} | {i for i, _ in descriptors(routine)}
    signals = {i for i, sync in syncs(routine).items() if sync.arrives and sync.reach >= Reach.MBARRIER}
    for _, state in _states(routine, before, signals | ends, fence, _State(fresh=fresh)):
        yield state.fresh | state.signalled


def _meets_any(routine: Routine, before: list[ProxyAccess], after: Sequence[ProxyAccess], some: int, box_bytes: BoxBytes | None) -> bool:
    pairs = [(before[k], end) for k in bits(some) for end in after if before[k].root is end.root]
    met = [(one, end) for one, end in pairs if overlap(routine, one, end, MOST_REACH) is not None]
    return any(not _ends_before(routine, end, one, box_bytes) for one, end in met)


def _ends_before(routine: Routine, end: ProxyAccess, one: ProxyAccess, box_bytes: BoxBytes | None) -> bool:
    """Whether an access through the async proxy, by its upper bound, ends before another access starts."""
    row = ROW_BYTES if end.matrix is not None else 1
    if end.matrix is not None:
        size = matrix_bytes(routine, end.instruction, *end.matrix)
    else:
        size = box_bytes(routine, end.instruction) if box_bytes is not None else 0
    firsts = [address_range(routine, one, address) for address in one.addresses]
    for to in end.addresses:
        own, start_ = address_range(routine, end, to), start_of(routine, end, to)
        if not size or own is None or start_ is None or start_.alignment % row:
            return False
        # a matrix may start within a row
        last = own[1] // row * row + size
        if any(first is None or first[0] < last for first in firsts):
            return False
    return True


def _arriving(
    routine: Routine, before: list[ProxyAccess], after: list[ProxyAccess], gone: int = -1, left: _State | None = None
) -> Iterator[tuple[ProxyAccess, _State, int]]:
    """The later accesses, each with the progress of the earlier ones, and the earlier ones with the same base, as a bit set."""
    ends: dict[int, list[ProxyAccess]] = {}
    for one_access in after:
        ends.setdefault(one_access.instruction, []).append(one_access)
    by_root = _by_root(before)
    for i, state in _states(routine, before, ends, gone, left):
        for end in ends[i]:
            yield end, state, by_root.get(id(end.root), 0)


def _by_root(own_accesses: list[ProxyAccess]) -> dict[int, int]:
    """The accesses with the same base, as a bit set."""
    found: dict[int, int] = {}
    for k, one_access in enumerate(own_accesses):
        found[id(one_access.root)] = found.get(id(one_access.root), 0) | 1 << k
    return found


def _states(
    routine: Routine, before: list[ProxyAccess], wanted: Iterable[int], gone: int = -1, left: _State | None = None
) -> Iterator[tuple[int, _State]]:
    """The progress of accesses at some instructions. If a fence is `gone`, only what it `left` unchanged is tracked from there."""
    flow = control_flow(routine)
    by_root = _by_root(before)
    bit: dict[int, int] = {}
    same: dict[int, int] = {}
    for k, one_access in enumerate(before):
        bit[one_access.instruction] = bit.get(one_access.instruction, 0) | 1 << k
        same[one_access.instruction] = same.get(one_access.instruction, 0) | by_root[id(one_access.root)]
    fences = set(proxy_fences(routine))
    barriers = {i for i, sync in syncs(routine).items() if sync.reach >= Reach.MBARRIER}
    ends = set(wanted)
    events: dict[int, list[int]] = {}
    for i in sorted({*bit, *fences, *barriers, *ends}):
        if flow.block_of[i] in flow.reachable:
            events.setdefault(flow.block_of[i], []).append(i)

    def step(i: int, state: _State) -> _State:
        if i == gone:
            return _either((state, left)) if left is not None else state
        if i in fences:
            return _State(0, 0, state.late | state.signalled, state.over, state.early & (state.late | state.signalled), True)
        if i in barriers:
            return _State(0, state.signalled | state.fresh, state.late, state.over, state.early, False)
        own = bit.get(i, 0)
        if not own:
            return state
        early = state.early | own if state.has_fenced else state.early & ~own
        over = state.over | ((state.signalled | state.late) & same[i])
        fresh = state.fresh | own if gone < 0 else state.fresh & ~own
        return _State(fresh, state.signalled & ~own, state.late & ~own, over & ~own, early, state.has_fenced)

    def through(block: int, state: _State) -> _State:
        for i in events.get(block, ()):
            state = step(i, state)
        return state

    solution = solve(flow, through, _either, lambda _: None, _State())
    for block, own in sorted(events.items()):
        state = solution.before[block]
        for i in own:
            if i in ends:
                yield i, state
            state = step(i, state)


def _either(states: Iterable[_State]) -> _State:
    found = _State()
    for one in states:
        found = _State(
            found.fresh | one.fresh,
            found.signalled | one.signalled,
            found.late | one.late,
            found.over | one.over,
            found.early | one.early,
            found.has_fenced or one.has_fenced,
        )
    return found


def _crossing(routine: Routine, before: list[ProxyAccess], end: ProxyAccess, state: _State, own: int) -> Crossing | None:
    missing = (state.fresh | state.signalled) & own
    guess: ProxyAccess | None = None
    for k in bits(missing):
        met = overlap(routine, before[k], end)
        if met is not None and is_filled(routine, end, before[k]):
            continue
        if met is not None and (met is Meeting.POSSIBLE or _is_fed(routine, before, end, own & ~(missing | state.late))):
            guess = guess or before[k]
        elif met is not None:
            is_early = bool(state.early >> k & 1)
            fence = _nearest_fence(routine, before[k].instruction) if is_early else -1
            return Crossing(before[k], end, fence, False, met is Meeting.CERTAIN)
    late = state.late & own & ~missing & ~state.over
    fence = _nearest_fence(routine, end.instruction) if late else -1
    for k in bits(late) if fence >= 0 else ():
        write = before[k]
        met = overlap(routine, write, end)
        if met in (Meeting.CERTAIN, Meeting.LIKELY) and _never_fences(routine, write.instruction, end.instruction):
            return Crossing(write, end, fence, True, met is Meeting.CERTAIN)
    return Crossing(guess, end, -1, False, False, True) if guess is not None else None


def _is_fed(routine: Routine, before: list[ProxyAccess], end: ProxyAccess, ordered: int) -> bool:
    """Whether tensor cores read what other, fenced writes provide there. Unfenced writes are then from another time, or forgotten."""
    own = [before[k] for k in bits(ordered)] if end.is_tensor else []
    return any(overlap(routine, one_access, end) in (Meeting.CERTAIN, Meeting.LIKELY) for one_access in own)


def _never_fences(routine: Routine, write: int, read: int) -> bool:
    """Whether a thread certainly writes and executes none of the fences on the paths to the read."""
    known = uniformity(routine)
    writers = known.sure(write).mask
    if known.point(write).level >= Level.CTA:
        writers = known.reach.all
    for fence in between(routine, write, read, proxy_fences(routine)):
        writers &= ~known.reach.instruction(fence).ever
    return bool(writers)


def _nearest_fence(routine: Routine, i: int) -> int:
    """The nearest fence before an instruction, on the shortest path backwards; -1 if there is none."""
    fences = proxy_fences(routine)
    return next(met(routine, i, fences, fences, forwards=False), -1)
