"""Whether a change of commits, waits or barriers can matter: what touches of shared memory are still kept apart as they were.

A kernel and a mutant of it are followed on all paths. Noted are pairs of touches between which nothing stands any more: of an operation
that may be under way, or of which no barrier has told, and of what is done meanwhile. The kernel is taken to be right: so a pair that it
has, at the same distance or, if that is not known, of the same terms, does no harm; and what starts somewhere ends before the first place
that the kernel itself touches meanwhile.
"""

from __future__ import annotations

import functools
from collections.abc import Hashable, Iterator

import attrs

from ptxkit.analyses.cfg.graph import calls, control_flow
from ptxkit.analyses.events.descriptors import matrices
from ptxkit.analyses.events.effects import Action, Reach, effects, syncs
from ptxkit.analyses.events.steps import Does, steps
from ptxkit.analyses.framework.bindings import bindings
from ptxkit.analyses.framework.routine import Routine
from ptxkit.analyses.launch.launch import WARP
from ptxkit.analyses.memory.accesses import Access, accesses
from ptxkit.analyses.memory.regions import Region, regions
from ptxkit.analyses.protocols.async_copy.copies import SHARED
from ptxkit.analyses.protocols.async_copy.kinds import BULK, COPY
from ptxkit.analyses.protocols.wgmma.register_fences import QUEUE
from ptxkit.analyses.symbolic.terms import Term, walk
from ptxkit.analyses.symex.async_groups import Operation
from ptxkit.analyses.symex.async_queue import Coverage, explore
from ptxkit.analyses.symex.moments import Moment, Observer
from ptxkit.isa.binding import Bound

MOST_STEPS = 5_000
MOST_VISITS = 100
SWIZZLED = 112
"""So many bytes before its start a row may be moved."""


@attrs.frozen(eq=False)
class RegisterAccess:
    """A touch of shared memory on a path."""

    instruction: int
    region: Region
    writes: bool
    is_exact: bool
    """Whether it is known how many bytes are touched."""
    by_tensor_core: bool

    @property
    def key(self) -> Hashable:
        return (self.instruction, self.region.key)

    @property
    def place(self) -> Hashable:
        return (self.instruction, self.region.base, self.region.offset)


@attrs.frozen
class Memory:
    """What no barrier has told of."""

    waited: tuple[RegisterAccess, ...] = attrs.field(default=(), eq=False)
    fresh: tuple[RegisterAccess, ...] = attrs.field(default=(), eq=False)
    key: frozenset[Hashable] = frozenset()


def remembered(waited: tuple[RegisterAccess, ...], fresh: tuple[RegisterAccess, ...]) -> Memory:
    return Memory(waited, fresh, frozenset([(True, one.key) for one in waited] + [(False, one.key) for one in fresh]))


@attrs.frozen(eq=False)
class Pair:
    """Two touches that nothing keeps apart."""

    kind: str
    first: RegisterAccess
    second: RegisterAccess
    distance: int | None
    """How far the second starts behind the first; None if that is not known."""
    places: Hashable
    """Equal for pairs that are as far apart in a kernel and a mutant of it."""

    @property
    def word(self) -> str:
        """Why it may matter."""
        if self.distance is None:
            return "addresses"
        return "matrices" if self.first.by_tensor_core or self.second.by_tensor_core else self.kind

    def key(self, gone: int) -> Hashable:
        """Equal for the same pair of a kernel and of a mutant of it that lacks an instruction."""
        places = [one.instruction + (0 <= gone <= one.instruction) for one in (self.first, self.second)]
        return (self.kind, *places, self.places)


class Pairs(Observer):
    """Collects the pairs of a function; with a `queue`, only those that a commit of it or a wait for it may keep apart."""

    start = Memory()

    def __init__(self, routine: Routine, queue: str = "") -> None:
        self.queue = queue
        self.regions = regions(routine)
        self.words: set[str] = set()
        self.known: dict[int, list[tuple[Access | None, Term, int, bool]]] = {}
        bounds = bindings(routine)
        everything = accesses(routine)
        converts = any(access.space == SHARED and not access.declared for access in everything)
        found = [(i, effect) for i, own in effects(routine).items() for effect in own]
        self.started = {i: effect.queue for i, effect in found if effect.queue in (COPY, BULK) and effect.action is Action.OPEN}
        self.has_groups = any(effect.queue == QUEUE for _, effect in found)
        for access in everything:
            bound = bounds[access.instruction]
            if isinstance(bound, Bound) and bound.barrier:
                continue
            if queue == BULK and not access.writes and self.started.get(access.instruction) != BULK:
                # what a bulk copy reads from shared memory others may read, too
                continue
            if access.space == SHARED and access.address is not None:
                self.known.setdefault(access.instruction, []).append((access, access.address, access.lanes, access.writes))
            elif access.space == SHARED or (converts and not access.space):
                self.words.add("addresses")
        for matrix in matrices(routine) if queue != BULK else ():
            if not matrix.rows:
                self.words.add("matrices")
            else:
                self.known.setdefault(matrix.instruction, []).append((None, matrix.rows[0], matrix.lanes, False))
        if self.regions.thread_block.is_assumed and self.regions.thread_block.size <= WARP:
            self.words.add("shape")
        self.terms = {i: tuple([term for _, term, _, _ in own]) for i, own in self.known.items()}
        self.pairs: dict[Hashable, Pair] = {}
        self.structures: dict[Term, int] = {}

    def touches(self, i: int, terms: tuple[Term, ...], threads: int) -> Iterator[RegisterAccess]:
        for (access, _, lanes, writes), address in zip(self.known.get(i, ()), terms, strict=True):
            size = access.bytes or access.least if access is not None else 16
            region = self.regions.region(address, size or 1, threads, lanes)
            if region is None:
                self.words.add("addresses")
            else:
                is_exact = access is not None and bool(access.bytes or access.memory.row)
                yield RegisterAccess(i, region, writes, is_exact, access is None)

    def of(self, operation: Operation, writes: bool) -> Iterator[RegisterAccess]:
        yield from (one for one in self.touches(operation.instruction, operation.terms, operation.threads) if one.writes is writes)

    def meet(self, moment: Moment, memory: Hashable) -> Hashable:
        assert isinstance(memory, Memory)
        i, waited, fresh = moment.instruction, memory.waited, memory.fresh
        for touch in self.touches(i, moment.terms, moment.crowd) if i in self.known else ():
            for operation in moment.pending(COPY):
                if not (operation.idle is not None and operation.idle.constant and not touch.writes):
                    self.note("copying", self.of(operation, True), touch)
            if touch.writes:
                for operation in moment.queue(BULK).unread:
                    self.note("sending", self.of(operation, False), touch)
            self.note("waited", (one for one in waited if one.writes or touch.writes), touch)
            # what no copy has to do with is another protocol's business
            self.note("fresh", (one for one in fresh if (one.writes or touch.writes) and {i, one.instruction} & self.started.keys()), touch)
            if not self.queue and self.started.get(i) != COPY and touch.key not in {one.key for one in fresh}:
                fresh = (*fresh, touch)
        done = [one for operation in moment.completed(COPY) for one in self.of(operation, True)]
        done += [one for operation in moment.read(BULK) for one in self.of(operation, False)]
        waited = (*waited, *done)
        if moment.sync is not None and moment.sync.reach >= Reach.MBARRIER:
            pending = {one.place for operation in moment.pending(QUEUE) for one in self.of(operation, False)}
            # tensor cores go on until who started them has waited, for a group or at an mbarrier
            is_done = moment.sync.reach is Reach.MBARRIER and moment.sync.waits and not self.has_groups
            fresh = tuple([one for one in fresh if one.by_tensor_core and not is_done and (one.place in pending or not self.has_groups)])
            waited = ()
        return remembered(waited, fresh)

    def note(self, kind: str, earlier: Iterator[RegisterAccess], touch: RegisterAccess) -> None:
        for one in earlier:
            if one.region.base[0] != touch.region.base[0]:
                continue
            distance = touch.region.offset - one.region.offset
            if one.region.base == touch.region.base:
                pair = Pair(kind, one, touch, distance, distance)
            else:
                parts = tuple([self.structure(part) for region in (one.region, touch.region) for part in (region.base[1], region.moving)])
                pair = Pair(kind, one, touch, None, (distance, *parts))
            self.pairs.setdefault(pair.key(-1), pair)

    def structure(self, term: Term) -> int:
        """Equal for terms of a kernel and a mutant of it that say the same."""
        for at in walk(term, self.structures):
            parts = [(self.structures[atom], factor) for atom, factor in at.parts]
            inner = [self.structures[arg] for arg in at.args]
            self.structures[at] = hash((at.operator, at.width, at.offset, *at.data, *inner, *parts))
        return self.structures[term]


@functools.lru_cache(maxsize=4)
def followed(routine: Routine, queue: str = "") -> tuple[Pairs, Coverage]:
    """The pairs of a function, or those that matter to a queue, and how far its paths were followed."""
    watch = Pairs(routine, queue)
    return watch, explore(routine, (queue,) if queue else (COPY, BULK, QUEUE), watch.terms, watch, MOST_STEPS, MOST_VISITS)


def first_met(routine: Routine, start: int, wanted: set[int], forwards: bool) -> set[int]:
    """The first of some instructions on each way from an instruction, forwards or backwards."""
    flow = control_flow(routine)
    by_block: dict[int, list[int]] = {}
    for i in sorted(wanted, reverse=not forwards):
        by_block.setdefault(flow.block_of[i], []).append(i)
    first = flow.block_of[start]
    ahead = [i for i in by_block.get(first, ()) if (i > start if forwards else i < start)]
    work, seen, found = [(first, ahead)], set[int](), set[int]()
    while work:
        block, here = work.pop()
        if here:
            found.add(here[0])
            continue
        for after in flow.blocks[block].successors if forwards else flow.blocks[block].predecessors:
            if after not in seen:
                seen.add(after)
                work.append((after, by_block.get(after, [])))
    return found


def is_done_elsewhere(routine: Routine, i: int) -> bool:
    """Whether what a commit, a wait or a barrier does is done on every way by the next one of its kind, or was by the one before.

    That goes by the order of instructions alone, whatever the launch and the addresses.
    """
    own, sync = effects(routine).get(i, ()), syncs(routine).get(i)
    if sync is not None:
        others = _barriers_for_all(routine)
        touches = _touching(routine) - others - _arrivals_for_all(routine)
        return any(first_met(routine, i, touches | others, forwards) <= others for forwards in (False, True))
    if len(own) != 1:
        return False
    ((queue, what),) = [(effect.queue, effect) for effect in own]
    all_ = {j: e for j, found in effects(routine).items() for e in found if e.queue == queue and j != i}
    waits = {j: e for j, e in all_.items() if e.action is Action.WAIT}
    called = set(calls(routine))
    if what.action is Action.COMMIT:
        # who waits for all does not ask what is in a group
        return all(j in waits and waits[j].takes_open for j in first_met(routine, i, {*waits, *called}, True))
    enough = {
        j
        for j, e in waits.items()
        if routine.instructions[j].guard is None
        and (e.takes_open or not what.takes_open)
        and (what.reading or not e.reading)
        and e.leave is not None
        and what.leave is not None
        and e.leave <= what.leave
    }
    return first_met(routine, i, {*all_, *called}, False) <= enough


def _barriers_for_all(routine: Routine) -> set[int]:
    """The barriers at which all threads of the CTA wait for one another; of barriers of the cluster, the waits."""
    bounds = bindings(routine)
    found = set()
    for i, sync in syncs(routine).items():
        bound = bounds[i]
        is_of_cta = sync.reach is Reach.CTA and sync.arrives and isinstance(bound, Bound) and bound.threads is None
        if sync.waits and (is_of_cta or sync.reach is Reach.CLUSTER) and routine.instructions[i].guard is None:
            found.add(i)
    return found


def _arrivals_for_all(routine: Routine) -> set[int]:
    """The arrivals of all threads at the barrier of the cluster that release what came before: the wait acquires it."""
    found = {i for i, sync in syncs(routine).items() if sync.reach is Reach.CLUSTER and sync.arrives and not sync.waits}
    return {i for i in found if routine.instructions[i].guard is None and ".relaxed" not in routine.instructions[i].opcode.text}


def _publishes(routine: Routine, barrier: int) -> bool:
    """Whether an instruction is the only barrier between the initialization of an mbarrier and a use."""
    others = _barriers_for_all(routine)
    if barrier not in others:
        return False
    others = others - {barrier}
    does = {i: {step.does for step in own} for i, own in steps(routine).items()}
    inits = {i for i, own in does.items() if Does.INIT in own}
    uses = {i for i, own in does.items() if own & {Does.ARRIVE, Does.EXPECT, Does.WAIT, Does.COPY}}
    before, after = first_met(routine, barrier, inits | others, False), first_met(routine, barrier, uses | others, True)
    return bool(before & inits) and bool(after & uses)


def _touching(routine: Routine) -> set[int]:
    """The instructions whose order may matter to other threads: but for loads of what no copy writes, all that touch memory."""
    everything = accesses(routine)
    converts = any(access.space == SHARED and not access.declared for access in everything)
    found = {*effects(routine), *syncs(routine), *calls(routine), *[matrix.instruction for matrix in matrices(routine)]}
    for access in everything:
        if access.space in (".local", ".param", ".const"):
            continue
        if access.writes or access.space == SHARED or (converts and not access.space):
            found.add(access.instruction)
    return found


def reasons(original: Routine, mutant: Routine, gone: int, queue: str = "") -> frozenset[str]:
    """Why a change may matter, in words; nothing if it cannot. `gone` is the instruction that the mutant lacks; -1 for none. `queue` is
    that of the commit or wait that is changed, if it is one."""
    if gone >= 0 and is_done_elsewhere(original, gone):
        return frozenset()
    right, right_coverage = followed(original, queue)
    watch, coverage = followed(mutant, queue)
    words = set(watch.words)
    if gone >= 0 and _publishes(original, gone):
        words.add("inits")
    if not (coverage.complete and right_coverage.complete):
        words.add("paths")
    known = {pair.key(-1) for pair in right.pairs.values()}
    rooms = _rooms(right, gone)
    for pair in watch.pairs.values():
        if pair.key(gone) not in known and not _is_apart(watch, pair, rooms):
            words.add(pair.word)
    return frozenset(words)


def _ends(of: Pairs, touch: RegisterAccess) -> tuple[int, int]:
    """Where the touches of the threads start at least and at most."""
    offsets = of.regions._offsets(touch.region.moving)
    own = [offset for thread, offset in enumerate(offsets) if touch.region.threads >> thread & 1] or list(offsets)
    return touch.region.offset + min(own), touch.region.offset + max(own)


def _rooms(of: Pairs, gone: int) -> dict[int, int]:
    """By instruction whose bytes are not known in number, how many they are at most: something else is done behind them meanwhile."""
    rooms: dict[int, int] = {}
    for pair in of.pairs.values():
        if pair.distance is None:
            continue
        for one, other in ((pair.first, pair.second), (pair.second, pair.first)):
            room = _ends(of, other)[0] - _ends(of, one)[1]
            if not one.is_exact and room > 0:
                i = one.instruction - (0 <= gone < one.instruction)
                rooms[i] = min(rooms.get(i, room), room)
    return rooms


def _is_apart(of: Pairs, pair: Pair, rooms: dict[int, int]) -> bool:
    """Whether two touches are of different bytes, or of one thread that does them in order."""
    one, other = pair.first, pair.second
    if pair.distance is None:
        return False
    if one.is_exact and other.is_exact:
        # what one thread does in order needs no barrier
        others = True if pair.kind in ("fresh", "waited") else None
        return one.region.is_common and other.region.is_common and of.regions.overlap(one.region, other.region, others) is None
    (low, high), (its_low, its_high) = _ends(of, one), _ends(of, other)
    size = one.region.bytes if one.is_exact else rooms.get(one.instruction)
    its_size = other.region.bytes if other.is_exact else rooms.get(other.instruction)
    before, its_before = (SWIZZLED if touch.by_tensor_core else 0 for touch in (one, other))
    if size is not None and high + size <= its_low - its_before:
        return True
    return its_size is not None and its_high + its_size <= low - before
