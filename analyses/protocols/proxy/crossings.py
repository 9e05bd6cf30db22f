"""Accesses to the same memory through different proxies, and the fences between them (8.6, 9.7.10.24.2, 9.7.14.4).

Data written through the generic proxy may be read through another proxy only after a proxy fence by the writing thread: write, fence,
signal the reader by a barrier, read. A dataflow analysis over bit sets tracks how far each write has progressed.
"""

from __future__ import annotations

import enum
from bisect import bisect_right
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import islice

import attrs

from ptxkit.analyses.cfg.dataflow import solve
from ptxkit.analyses.cfg.graph import control_flow
from ptxkit.analyses.cfg.paths import between, comes_to, met
from ptxkit.analyses.cfg.reachability import unfold
from ptxkit.analyses.events.descriptors import (
    ASYNC,
    ROW_BYTES,
    SHARED,
    described_operands,
    descriptors,
    is_shared_variable,
    matrix_bytes,
    start,
    warp_value,
)
from ptxkit.analyses.events.effects import Action, Reach, effects, syncs
from ptxkit.analyses.events.steps import LEAST_BYTES
from ptxkit.analyses.framework.bindings import bindings, has_such, such
from ptxkit.analyses.framework.finding import Finding
from ptxkit.analyses.framework.routine import Routine, fact
from ptxkit.analyses.launch.launch import WARP
from ptxkit.analyses.memory.accesses import Access, accesses, locate
from ptxkit.analyses.numbers.arithmetic import signed
from ptxkit.analyses.numbers.bits import bits
from ptxkit.analyses.symbolic.environment import settler
from ptxkit.analyses.symbolic.evaluate import Domain
from ptxkit.analyses.symbolic.extents import ADDRESS_BITS, extents
from ptxkit.analyses.symbolic.terms import Parts, Term, Terms, walk
from ptxkit.analyses.symbolic.thread_block import ThreadBlock, Vector, thread_block_of
from ptxkit.analyses.symbolic.values import Values, values
from ptxkit.analyses.uniformity.broadcasts import HandedOut, handed_out
from ptxkit.analyses.uniformity.levels import Level
from ptxkit.analyses.uniformity.uniformity import uniformity
from ptxkit.frozen import frozen
from ptxkit.isa.binding import Bound
from ptxkit.names import Symbol
from ptxkit.syntax import Address

FENCE, MAP_FENCE = "proxy-fence-async", "proxy-fence-tensormap"
MOST_PATHS = 4
"""Maximum number of alternative addresses of an access."""
MOST_BYTES = 1 << 15
"""Upper bound on the bytes that one operation reads through the async proxy, in practice."""
TILE_BYTES = 1 << 10
"""Assumed alignment of matrices in bytes, where it matters."""
MOST_REACH = 1 << 16
"""The same bound where underestimating it would be wrong."""


BoxBytes = Callable[[Routine, int], int]
"""Gives an upper bound on the bytes of a copy; 0 if unknown."""


class Meeting(enum.Enum):
    """How certain it is that two accesses overlap."""

    CERTAIN = "certain"
    LIKELY = "likely"
    """They are to the same variable."""
    POSSIBLE = "possible"
    """They start from the same address, in memory that the program partitions itself."""


@frozen(eq=False)
class ProxyAccess:
    """An access to a variable in shared memory through a proxy."""

    instruction: int
    root: Symbol | Term
    """The variable, or another base of the address."""
    addresses: tuple[Term, ...]
    """The alternative addresses."""
    bytes: int
    is_tensor: bool = False
    """Whether tensor cores read it through a descriptor."""
    is_async: bool = False
    """Whether an asynchronous copy of the generic proxy writes it."""
    is_sure: bool = True
    """Whether the address depends on the thread only."""
    matrix: tuple[str, Term] | None = None
    """The operand that describes it to tensor cores, and the descriptor."""


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


def has_proxy(routine: Routine, proxy: str) -> bool:
    return has_such(routine, lambda bound: any(memory.proxy == proxy for memory in bound.memory))


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
    firsts = [_span(routine, one, address) for address in one.addresses]
    for to in end.addresses:
        own, start_ = _span(routine, end, to), _start_of(routine, end, to)
        if not size or own is None or start_ is None or start_.alignment % row:
            return False
        # a matrix may start within a row
        last = own[1] // row * row + size
        if any(first is None or first[0] < last for first in firsts):
            return False
    return True


def _start_of(routine: Routine, one_access: ProxyAccess, address: Term) -> Term | None:
    """The leaf of an address that is the base of the access."""
    known, root = values(routine), one_access.root
    return next((leaf for leaf in address.leaves() if leaf is root or (leaf.operator == "address" and known.symbol(leaf) is root)), None)


def stands_first(routine: Routine, fence: int) -> bool:
    """Whether a thread that reaches a fence has not accessed data in shared memory before, nor had any signalled to it."""
    bounds = bindings(routine)
    signalled = {i for i, sync in syncs(routine).items() if sync.waits}
    accessed_before = {
        access.instruction
        for access in accesses(routine)
        if access.space in ("", SHARED)
        and access.memory.proxy != ASYNC
        and isinstance(bound := bounds[access.instruction], Bound)
        and not bound.barrier
        and not bound.effects
    }
    calls = {i for i, bound in enumerate(bounds) if not isinstance(bound, Bound) or bound.flow == "call"}
    return not any(comes_to(routine, i, fence) for i in signalled | accessed_before | calls)


def unplaced(routine: Routine) -> frozenset[str]:
    """The kinds of accesses to shared memory in a function whose addresses are unknown, in words."""
    found = {one_access.instruction for one_access in (*async_reads(routine), *async_writes(routine))}
    bounds = bindings(routine)
    words = set()
    if any(i not in found for i, _ in descriptors(routine)):
        words.add("matrices")
    if thread_block_of(routine).is_assumed and thread_block_of(routine).size <= WARP:
        words.add("shape")
    for access in accesses(routine):
        bound = bounds[access.instruction]
        if not isinstance(bound, Bound) or bound.barrier or bound.effects or access.space not in ("", SHARED):
            continue
        if access.memory.proxy == ASYNC and access.instruction not in found:
            words.add("copies")
        elif not access.memory.proxy and _access(routine, access, 1) is None and access.space:
            words.add("accesses")
    return frozenset(words)


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


def overlap(routine: Routine, one: ProxyAccess, other: ProxyAccess, reach: int = MOST_BYTES) -> Meeting | None:
    """Whether both access the same bytes, if the later one has at most `reach` bytes; None if they do not."""
    found = {_meet_at(routine, one, other, at, to, reach) for at in one.addresses for to in other.addresses}
    return next((meeting for meeting in Meeting if meeting in found), None)


def _meet_at(routine: Routine, one: ProxyAccess, other: ProxyAccess, at: Term, to: Term, reach: int) -> Meeting | None:
    """Whether both access the same bytes at these addresses."""
    writes, reads = _span(routine, one, at), _span(routine, other, to)
    if writes is not None and reads is not None and at.width == to.width:
        # most are far apart for all threads
        if writes[1] - reads[0] <= -one.bytes or writes[0] - reads[1] >= max(other.bytes, reach):
            return None
    is_usual = one.is_async and other.is_tensor and _is_unfenced_by_convention(routine, one.instruction, other.instruction)
    apart = _difference(routine, at, to) if at.width == to.width else None
    numbers = _spread(routine, one, *apart, thread_block_of(routine)) if apart is not None else None
    if numbers is not None:
        # the read has at least this size, but only its start is known
        if numbers.has_between(-one.bytes, other.bytes):
            return Meeting.POSSIBLE if is_usual else Meeting.CERTAIN if one.is_sure and other.is_sure else Meeting.LIKELY
        return Meeting.POSSIBLE if numbers.has_between(0, reach) else None
    if apart is not None and not _is_near(values(routine).terms.sub(at, to), reach):
        return None
    if apart is not None and not is_usual:
        first = _spread(routine, one, *apart, _first(routine))
        if first is not None and first.has_between(-one.bytes, other.bytes):
            return Meeting.LIKELY
    # the program partitions memory of undeclared size itself
    is_shared_out = isinstance(one.root, Term) or one.root.linkage == ".extern" or None in one.root.dimensions
    return Meeting.POSSIBLE if is_usual or is_shared_out else Meeting.LIKELY


def _span(routine: Routine, one_access: ProxyAccess, address: Term) -> tuple[int, int] | None:
    """The minimum and maximum offset of an address from its base, over all threads; None if unknown."""
    found, key = _spans(routine), (address, id(one_access.root))
    if key not in found:
        root = _start_of(routine, one_access, address)
        found[key] = extents(routine).of(address, root) if root is not None else None
    return found[key]


@fact
def _spans(routine: Routine) -> dict[tuple[Term, int], tuple[int, int] | None]:
    return {}


@frozen
class _Spread:
    """The sorted distinct values of a term in some threads, all shifted by `offset`."""

    numbers: tuple[int, ...]
    offset: int = 0

    def has_between(self, low: int, high: int) -> bool:
        """Whether a value lies strictly between two numbers."""
        at = bisect_right(self.numbers, low - self.offset)
        return at < len(self.numbers) and self.numbers[at] + self.offset < high


def _difference(routine: Routine, at: Term, to: Term) -> tuple[Term, int]:
    """The distance between two addresses: a term without a constant, and a number.

    Many addresses in a ring or tile differ only by a constant; their common part is analysed once.
    """
    known, terms = _differences(routine), values(routine).terms
    (offset, parts), (other, others) = at.linear, to.linear
    key = (at.width, parts, others)
    if key not in known:
        known[key] = _in_two(terms, terms.sub(_in_two(terms, at)[0], _in_two(terms, to)[0]))
    base, more = known[key]
    return base, signed(more + offset - other & (1 << at.width) - 1, at.width)


@fact
def _differences(routine: Routine) -> dict[tuple[int, Parts, Parts], tuple[Term, int]]:
    return {}


def _in_two(terms: Terms, term: Term) -> tuple[Term, int]:
    """Splits a term into one without a constant, and a number."""
    offset = signed(term.linear[0], term.width)
    return terms.sub(term, terms.constant(offset, term.width)), offset


def _spread(routine: Routine, one_access: ProxyAccess, base: Term, offset: int, block_shape: ThreadBlock) -> _Spread | None:
    """The values of a term plus a number in the threads that may execute an access; None if unknown."""
    reach = uniformity(routine).reach
    comes = reach.instruction(one_access.instruction).ever if reach.template.has_indices else -1
    known, key = _spreads(routine), (base, comes, block_shape is thread_block_of(routine))
    if key not in known:
        known[key] = _numbers_of(base, comes if reach.template.count == block_shape.size else -1, block_shape)
    numbers = known[key]
    if not numbers:
        return _Spread(()) if numbers is not None else None
    if max(abs(offset), -numbers[0], numbers[-1]) < 1 << (base.width - 2):
        return _Spread(numbers, offset)
    return _Spread(tuple(sorted({signed(number + offset & (1 << base.width) - 1, base.width) for number in numbers})))


@fact
def _spreads(routine: Routine) -> dict[tuple[Term, int, bool], tuple[int, ...] | None]:
    return {}


def _numbers_of(term: Term, comes: int, block_shape: ThreadBlock) -> tuple[int, ...] | None:
    """The values of a term in a set of threads."""
    vector = block_shape.vector(term)
    if vector is None:
        return None
    found = set(vector)
    if len(found) > 1 and comes >= 0 and comes.bit_count() < len(vector):
        found = {number for thread, number in enumerate(vector) if comes >> thread & 1}
    return tuple(sorted([signed(number, term.width) for number in found]))


def is_filled(routine: Routine, read: ProxyAccess, write: ProxyAccess) -> bool:
    """Whether tensor cores read from where a copy through the async proxy fills memory. A generic write there is then from another time."""
    start_, least = _first_start(routine, read), _first_start(routine, write)
    if not read.is_tensor or start_ is None or least is None:
        return False
    fills = _filled(routine).get(id(read.root), ())
    return any(least // TILE_BYTES <= fill // TILE_BYTES and 0 <= start_ - fill < MOST_BYTES for fill in fills)


@fact
def _filled(routine: Routine) -> dict[int, list[int]]:
    """For each base, the offsets at which copies through the async proxy fill memory."""
    found: dict[int, list[int]] = {}
    for fill in async_writes(routine):
        first = _first_start(routine, fill)
        if first is not None:
            found.setdefault(id(fill.root), []).append(first)
    return found


def _first_start(routine: Routine, one_access: ProxyAccess) -> int | None:
    """The first byte of an access relative to its base, in the first stage of every ring."""
    ends = first_ends(routine, one_access)
    return ends[0] if ends is not None else None


def first_ends(routine: Routine, one_access: ProxyAccess) -> tuple[int, int] | None:
    """The first and last address of an access relative to its base, in the first stage of every ring."""
    known = _first_ends(routine)
    if one_access.addresses not in known:
        parts = [_in_two(values(routine).terms, address) for address in one_access.addresses]
        found = [_spread(routine, one_access, *part, _first(routine)) for part in parts]
        ends = [end + own.offset for own in found if own is not None and own.numbers for end in (own.numbers[0], own.numbers[-1])]
        known[one_access.addresses] = (min(ends), max(ends)) if ends else None
    return known[one_access.addresses]


@fact
def _first_ends(routine: Routine) -> dict[tuple[Term, ...], tuple[int, int] | None]:
    return {}


def _is_fed(routine: Routine, before: list[ProxyAccess], end: ProxyAccess, ordered: int) -> bool:
    """Whether tensor cores read what other, fenced writes provide there. Unfenced writes are then from another time, or forgotten."""
    own = [before[k] for k in bits(ordered)] if end.is_tensor else []
    return any(overlap(routine, one_access, end) in (Meeting.CERTAIN, Meeting.LIKELY) for one_access in own)


class _First(ThreadBlock):
    """Evaluates terms with all ring indices and memory bases at 0: the first stage of every ring."""

    def __init__(self, block_shape: ThreadBlock, sources: HandedOut) -> None:
        super().__init__(block_shape.shape, block_shape.is_assumed)
        self._sources = sources

    def _domain(self) -> Domain[Vector]:
        lanes = super()._domain()
        return attrs.evolve(lanes, value=lambda at, found: lanes.value(at, found) or (0,) * self.size)

    def _leaf(self, leaf: Term) -> Vector | None:
        source = self._sources.of(leaf) if leaf.operator == "value" else None
        if source is None:
            return super()._leaf(leaf)
        held = self.vector(source[0])
        lanes = [thread - thread % WARP + source[1] for thread in range(self.size)]
        return tuple([held[lane] for lane in lanes]) if held is not None and max(lanes) < self.size else None


@fact
def _first(routine: Routine) -> _First:
    return _First(thread_block_of(routine), handed_out(routine))


def _is_unfenced_by_convention(routine: Routine, copy: int, product: int) -> bool:
    """Whether existing code commonly omits the fence between this `cp.async` and the tensor cores that read its data.

    This is so if the copies themselves signal completion, or other warps start the MMA; and for MMAs that whole warps start, unless the
    function fences some of them.
    """
    if _copies_arrive(routine) or not comes_to(routine, copy, product):
        return True
    bound = bindings(routine)[product]
    return isinstance(bound, Bound) and bound.converges is not None and not _fences_copies(routine)


@fact
def _copies_arrive(routine: Routine) -> bool:
    """Whether copies arrive at an mbarrier on completion."""
    return any(effect.action is Action.SIGNAL for own in effects(routine).values() for effect in own)


@fact
def _fences_copies(routine: Routine) -> bool:
    """Whether a function fences `cp.async` data before tensor cores read it."""
    writes = [one_access.instruction for one_access in generic_accesses(routine, "write") if one_access.is_async]
    reads = {i for i, _ in descriptors(routine)}
    return any(between(routine, write, read, proxy_fences(routine)) for write in writes[:1] for read in sorted(reads)[:1])


def _is_near(apart: Term, reach: int) -> bool:
    """Whether a write may be within `reach` bytes from the start of a read."""
    least, most = apart.signed_bounds
    return least < reach and most > -LEAST_BYTES


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


# --- accesses


@fact
def proxy_fences(routine: Routine) -> tuple[int, ...]:
    return tuple(_with_effect(routine, FENCE))


def _with_effect(routine: Routine, effect: str) -> Iterator[int]:
    for i, _ in such(routine, lambda bound: effect in bound.effects):
        yield i


def generic_accesses(routine: Routine, how: str) -> tuple[ProxyAccess, ...]:
    """Accesses through the generic proxy that write (`write`) or read."""
    return _generic_writes(routine) if how == "write" else _generic_reads(routine)


@fact
def _generic_writes(routine: Routine) -> tuple[ProxyAccess, ...]:
    return tuple(_generic_accesses(routine, "write"))


@fact
def _generic_reads(routine: Routine) -> tuple[ProxyAccess, ...]:
    return tuple(_generic_accesses(routine, "read"))


def _generic_accesses(routine: Routine, how: str) -> Iterator[ProxyAccess]:
    bounds = bindings(routine)
    for access in accesses(routine):
        bound = bounds[access.instruction]
        if not isinstance(bound, Bound) or bound.barrier or bound.effects:
            # mbarriers and addresses of allocations are not data
            continue
        does = access.writes if how == "write" else access.reads
        if does and not access.memory.proxy and not (how == "read" and access.memory.is_async):
            one_access = _access(routine, access, access.bytes or 1)
            if one_access is not None:
                yield one_access


@fact
def async_reads(routine: Routine) -> tuple[ProxyAccess, ...]:
    """Reads through the async proxy."""
    return tuple(_async_reads(routine))


def _async_reads(routine: Routine) -> Iterator[ProxyAccess]:
    roots = {one_access.root for one_access in generic_accesses(routine, "write") if isinstance(one_access.root, Term)}
    for access in accesses(routine):
        if access.memory.proxy == ASYNC and access.reads:
            one_access = _access(routine, access, access.bytes or LEAST_BYTES)
            if one_access is not None:
                yield one_access
    for i, operand, term in described_operands(routine):
        found = _described(routine, i, operand, term, roots)
        if found is not None:
            yield found


@fact
def async_writes(routine: Routine) -> tuple[ProxyAccess, ...]:
    """Writes through the async proxy."""
    return tuple(_async_writes(routine))


def _async_writes(routine: Routine) -> Iterator[ProxyAccess]:
    for access in accesses(routine):
        if access.memory.proxy == ASYNC and access.writes:
            one_access = _access(routine, access, access.bytes or LEAST_BYTES)
            if one_access is not None:
                yield one_access


def _access(routine: Routine, access: Access, size: int) -> ProxyAccess | None:
    if access.address is None or (access.space and access.space != SHARED):
        return None
    known = values(routine)
    address = warp_value(routine, access.address)
    is_sure = address is settler(routine).term(access.address)
    address = _in_shared(known, address) if access.space else address
    going = _from_start(known, address)
    addresses = _paths(known, going)
    is_sure = is_sure and going is address and len(addresses) == 1
    roots = [_root(known, address, bool(access.space)) for address in addresses]
    root = roots[0]
    if root is None or any(other is not root for other in roots):
        return None
    is_async = access.memory.is_async and not access.memory.proxy
    return ProxyAccess(access.instruction, root, tuple(addresses), size, is_async=is_async, is_sure=is_sure)


def _paths(known: Values, address: Term) -> list[Term]:
    """The alternative addresses, if the base of an address is selected."""
    terms = known.terms

    def choice(at: Term) -> Term | None:
        return next((atom for atom, factor in at.linear[1] if factor == 1 and _is_choice(known, atom)), None)

    def arms(at: Term) -> list[Term]:
        atom = choice(at)
        if atom is None:
            return []
        chosen = atom.args[0] if atom.operator == "trunc" else atom
        own = chosen.args[1:] if chosen.operator == "select" else chosen.args
        return [terms.add(terms.sub(at, atom), terms.extend(arm, at.width, False)) for arm in own]

    found = list(islice((at for at in unfold(address, arms) if choice(at) is None), MOST_PATHS + 1))
    return found if len(found) <= MOST_PATHS else [address]


def _in_shared(known: Values, address: Term) -> Term:
    """An address in shared memory without its window: its 32-bit offset."""
    for atom, factor in address.linear[1]:
        if factor == 1 and atom.operator == "window":
            address = known.terms.sub(address, atom)
    return known.terms.apply("trunc", ADDRESS_BITS, (address,)) if address.width > ADDRESS_BITS else address


def _from_start(known: Values, address: Term) -> Term:
    """An address with pointers that loops advance replaced by their initial values plus unknown steps."""
    for _ in range(MOST_PATHS):
        found = next((pair for atom, factor in address.linear[1] if factor == 1 and (pair := _going(known, atom)) is not None), None)
        if found is None:
            break
        address = known.terms.add(known.terms.sub(address, found[0]), found[1])
    return address


def _going(known: Values, atom: Term) -> tuple[Term, Term] | None:
    """A loop value that starts as an address in shared memory, and its initial value plus unknown steps; None if it is no such value."""
    number = atom.data[0] if atom.operator == "phi" else None
    induction = known.induction(number) if isinstance(number, int) else None
    if induction is None or induction.step is None or not induction.start.parts:
        return None
    if not any(is_shared_variable(known, leaf) for leaf in induction.start.leaves()):
        return None
    step = induction.step & -induction.step
    steps = known.terms.scale(known.terms.leaf("steps", atom.width, (number,)), step)
    return atom, known.terms.add(induction.start, steps)


def _is_choice(known: Values, atom: Term) -> bool:
    """Whether a term is one of several addresses in shared memory."""
    choice = atom.args[0] if atom.operator == "trunc" else atom
    if choice.operator not in ("select", "join"):
        return False
    arms = choice.args[1:] if choice.operator == "select" else choice.args
    return all(any(is_shared_variable(known, inner) for inner, _ in arm.linear[1] for inner in (inner, *inner.args)) for arm in arms)


def _root(known: Values, address: Term, is_shared: bool) -> Symbol | Term | None:
    """The shared variable that an address is based on or, if it is known to be in shared memory, the only unknown term that it is based
    on."""
    where = locate(known, address)
    if where.symbol is not None:
        return where.symbol if (where.symbol.space or "").startswith(SHARED) else None
    bases = _bases(known, address) if is_shared else []
    if len(bases) != 1:
        return None
    return known.symbol(bases[0]) if bases[0].operator == "address" else bases[0]


def _bases(known: Values, address: Term) -> list[Term]:
    """The unknown terms or variables that an address may be based on, even if its low bits are swizzled or truncated."""
    found = []
    for atom, factor in address.linear[1]:
        if factor == 1 and (atom.operator in ("value", "join", "phi") or is_shared_variable(known, atom)):
            found.append(atom)
        elif factor == 1 and atom.operator in ("zext", "trunc"):
            found += _bases(known, atom.args[0])
        elif factor == 1 and atom.operator in ("xor", "or", "and"):
            for kept, lower in (atom.args, atom.args[::-1]):
                cut = (lower.constant or 0) ^ (1 << atom.width) - 1 if atom.operator == "and" else lower.bounds[1]
                if cut < MOST_BYTES:
                    found += _bases(known, kept)
                    break
    return found


def _described(routine: Routine, i: int, operand: str, term: Term, roots: set[Term]) -> ProxyAccess | None:
    """The access that a descriptor describes: to a variable, or relative to one of these roots."""
    known = values(routine)
    address = start(known.terms, term, lambda atom: atom in roots or is_shared_variable(known, atom))
    address = _in_shared(known, address) if address is not None else None
    root = _root(known, address, True) if address is not None else None
    if address is None or root is None:
        return None
    return ProxyAccess(i, root, (address,), LEAST_BYTES, is_tensor=True, matrix=(operand, term))


# --- tensor maps


def stale_maps(routine: Routine) -> Iterator[Finding]:
    """Uses of tensor maps that the function itself has modified, without an acquiring proxy fence on any path in between."""
    if not has_proxy(routine, "tensormap"):
        return
    uses: dict[int, Hashable] = {}
    changes: dict[int, Hashable] = {}
    fences = []
    known = values(routine)
    bounds = bindings(routine)
    for access in accesses(routine):
        bound = bounds[access.instruction]
        if not isinstance(bound, Bound) or access.memory.proxy == ASYNC:
            continue
        key = _same(known, access.address)
        if access.memory.proxy == "tensormap":
            uses[access.instruction] = key
        elif access.writes and bound.modifiers and (MAP_FENCE in bound.effects or ".b1024" in bound.modifiers):
            changes[access.instruction] = key
    if not uses:
        return
    for i in _with_effect(routine, MAP_FENCE):
        bound = bounds[i]
        assert isinstance(bound, Bound)
        if "release" not in (word.what for word in bound.form.order):
            fences.append(i)
    for i, key in uses.items():
        own = [change for change, changed in changes.items() if key is not None and changed == key and comes_to(routine, change, i)]
        # a fence may be skipped because nothing was changed
        those = [fence for fence in fences if _same(known, fenced_map(routine, fence)) in (None, key)]
        if own and not any(comes_to(routine, change, fence) and comes_to(routine, fence, i) for change in own for fence in those):
            message = "this uses a tensor map after it was changed, with no acquiring fence.proxy.tensormap in between"
            yield Finding(i, message, [(own[-1], "changed here")])
    yield from _unacquired(routine, fences)
    yield from _unreleased(routine, fences, changes)


def _unreleased(routine: Routine, fences: list[int], changes: Mapping[int, Hashable]) -> Iterator[Finding]:
    """The first acquisition of each tensor map that nothing in the function releases, although it releases others that it acquires."""
    known, bounds = values(routine), bindings(routine)
    releases = set(_with_effect(routine, MAP_FENCE)) - set(fences)
    released = {changes.get(i) for i in releases}
    if not releases or None in released or any(not bound.memory for i in releases if isinstance(bound := bounds[i], Bound)):
        # a fence without an address may release any map
        return
    by_key: dict[Hashable, int] = {}
    for fence in fences:
        by_key.setdefault(_same(known, fenced_map(routine, fence)), fence)
    if None in by_key or not released & by_key.keys():
        return
    steady = all(_is_steady(access.address) for access in accesses(routine) if access.instruction in releases)
    for key, fence in by_key.items():
        if key not in released and steady and _is_steady(fenced_map(routine, fence)):
            message = "this acquires a tensor map that nothing in the kernel releases, unlike the other maps that are acquired"
            yield Finding(fence, message, [(min(releases), "another is released here")], False)


def _is_steady(address: Term | None) -> bool:
    """Whether an address is constant during the kernel, so that two of them can be distinguished."""
    return address is not None and not any(leaf.operator in ("value", "phi", "join") for leaf in walk(address))


def is_never_used(routine: Routine, fence: int) -> bool:
    """Whether the tensor map that a fence acquires is certainly unused: every map in use is acquired by another fence."""
    own = _pointers(fenced_map(routine, fence))
    others = [_pointers(fenced_map(routine, other)) for other in _with_effect(routine, MAP_FENCE) if other != fence]
    acquired = set[Term]().union(*others)
    used = [access.address for access in accesses(routine) if access.memory.proxy == "tensormap"]
    pointers = [_pointers(address) for address in used if not is_parameter(routine, address)]
    return bool(own) and all(found and not found & own and found <= acquired for found in pointers)


def is_parameter(routine: Routine, address: Term | None) -> bool:
    """Whether an address is that of a parameter itself, which is constant while the kernel runs."""
    symbol = locate(values(routine), address).symbol if address is not None else None
    return symbol is not None and (symbol.space or "").startswith(".param")


def _unacquired(routine: Routine, fences: list[int]) -> Iterator[Finding]:
    """The first use of each tensor map that the kernel receives by pointer and does not acquire, though it acquires others.

    A kernel that acquires none relies on the maps written before its launch.
    """
    acquired = [(fence, _pointers(fenced_map(routine, fence))) for fence in fences]
    signalled: set[Term] = set()
    for access in accesses(routine) if any(own for _, own in acquired) else ():
        for pointer in _pointers(access.address) if access.memory.proxy == "tensormap" else ():
            if pointer in signalled or any(pointer in own and comes_to(routine, fence, access.instruction) for fence, own in acquired):
                continue
            signalled.add(pointer)
            message = f"the tensor map at `{pointer}` is used without an acquiring fence.proxy.tensormap, unlike other tensor maps"
            yield Finding(access.instruction, message, [], False)


def fenced_map(routine: Routine, fence: int) -> Term | None:
    """The address of the tensor map that a fence names; None if unknown."""
    node = next((node for node in routine.instructions[fence].operands if isinstance(node, Address)), None)
    return values(routine).operand(fence, node) if node is not None else None


def _pointers(address: Term | None) -> set[Term]:
    """The parameters whose values an address is based on (not the parameters' own locations)."""
    return {atom for atom, factor in address.linear[1] if factor == 1 and atom.operator == "parameter"} if address is not None else set()


def _same(known: Values, address: Term | None) -> Hashable:
    """A key that is equal for addresses of the same mbarrier; None if unknown. Generic and state-space addresses are treated alike."""
    if address is None:
        return None
    where = locate(known, address)
    return (where.symbol.name if where.symbol is not None else "", where.offset)
