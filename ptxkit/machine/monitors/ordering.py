"""Happens-before: what each thread knows of the others, by program order, barriers, fences, and release and acquire patterns (8.8, 8.9)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from ptxkit.frozen import define
from ptxkit.isa.binding import Bound
from ptxkit.machine.asynchronous import mbarrier as objects
from ptxkit.machine.asynchronous.arguments import located, named
from ptxkit.machine.barriers import BARRIERS
from ptxkit.machine.groups import WARP, Lanes
from ptxkit.machine.monitoring import Monitor
from ptxkit.machine.monitors.clocks import CLUSTER, CTA, GPU, NOTHING, Clocks, Releases
from ptxkit.machine.monitors.kinds import Kind
from ptxkit.machine.monitors.knowledge import Knowledge
from ptxkit.machine.monitors.proxies import fenced_proxy
from ptxkit.machine.monitors.queues import group_of
from ptxkit.machine.operation import Operation
from ptxkit.machine.polling import STRONG
from ptxkit.machine.values.distinct import distinct_numbers

if TYPE_CHECKING:
    from ptxkit.machine.code import Site
    from ptxkit.machine.interfaces import Launch, Residents
    from ptxkit.machine.memory import Access

Array = np.ndarray[Any, Any]
_SCOPES = {"cta": CTA, "cluster": CLUSTER, "gpu": GPU, "gl": GPU, "sys": GPU}
_BARRIERS = ("bar", "barrier")
_MATRICES, _SHORT_ROWS = ("ldmatrix", "stmatrix"), (".m8n8", ".m8n16")
"""Instructions that exchange rows of matrices between lanes, and the shapes with which each lane has one word of a row (9.7.15.4.15)."""
SPACES = (".global", ".shared")
"""The state spaces whose accesses are ordered."""
READONLY = (".nc", ".proxy::readonly")
"""Modifiers of loads through the read-only path."""


@define(eq=False)
class _Chain:
    """What reading a byte observes: releases by the last write, or by earlier writes, continued by read-modify-writes (8.8)."""

    writer: int
    strength: int
    code: int
    released: Releases


class Ordering(Monitor):
    """Tracks which accesses happen before which.

    `by_collectives` takes operations that lanes of a warp execute together (`shfl.sync`, `vote.sync`, `match.sync` …) to order their
    accesses, as on existing GPUs; the manual only guarantees this for `bar.warp.sync` (9.7.14.2). `lines` are the lines whose accesses a
    subclass asks about; None: all.
    """

    def __init__(self, by_collectives: bool = False, lines: frozenset[int] | None = None) -> None:
        self.by_collectives = by_collectives
        self.lines = lines
        self.accesses: dict[str, int] = {}
        """Accesses of threads by state space."""
        self.unwatched = 0
        self._kinds: dict[int, Kind] = {}
        self._sites: list[Site] = []

    def begin(self, launch: Launch) -> None:
        self.launch = launch
        self.clocks = Clocks()
        self.knowledge = Knowledge(self.clocks, launch.threads, launch.cluster_size, launch.ctas)
        self.chains: dict[tuple[str, int], _Chain] = {}
        self.ordered: set[tuple[str, int]] = set()
        """The locations that ever had a chain."""
        self.seen: dict[tuple[int, tuple[str, int]], Releases] = {}
        """What strong reads of a thread have observed at a location."""
        self.given: dict[tuple[int, tuple[str, int]], Releases] = {}
        """What a thread has released at a location."""
        self.fenced = Releases()
        self.only_waits = True
        """Whether nobody has arrived at a barrier of a CTA without waiting."""
        self.came_together: tuple[Array, int, list[tuple[int, int]]] | None = None
        """All threads that there are, if they came to a barrier together and have not gone on; when; barriers with their phases."""
        self.arrivals: dict[tuple[int, int], list[tuple[Array, int, bool]]] = {}
        self.brought: dict[tuple[int, int], int] = {}
        """What all threads of a CTA knew when the first one left a barrier, by barrier and phase."""
        self.cluster_arrivals: dict[tuple[int, int], int] = {}
        self.phases: dict[int, tuple[int, list[Releases]]] = {}
        self.made: dict[int, list[int]] = {}
        """The addresses of mbarriers that threads have made; those that a fence has published are in `published`."""
        self.published: dict[int, list[int]] = {}

    def resident(self, residents: Residents) -> None:
        if self.has_grown(residents):
            self.knowledge.grow(residents.count)
            return
        self.knowledge.reset(residents.first_cta, residents.count)
        self.residents = residents
        self.only_waits, self.came_together = True, None
        self.chains = {key: chain for key, chain in self.chains.items() if key[0] == ".global"}
        self.ordered = {key for key in self.ordered if key[0] == ".global"}
        self.arrivals, self.brought, self.cluster_arrivals, self.phases = {}, {}, {}, {}
        self.made, self.published = {}, {}
        self.seen, self.given = {}, {}

    def has_grown(self, residents: Residents) -> bool:
        """Whether further CTAs have become resident beside those that are."""
        known = len(self.knowledge.extra)
        return bool(residents.first == self.knowledge.first and known and residents.count > known)

    # --- accesses

    def access(self, access: Access) -> None:
        space = ".shared" if access.space.startswith(".shared") else access.space
        lanes = access.lanes
        if space not in SPACES or access.proxy == "tensormap" or getattr(lanes, "site", None) is None:
            return
        kind = self.kind(lanes.site)
        if kind.group or not kind.is_watched:
            # operations in flight are tracked from their start
            self.unwatched += 0 if kind.group else lanes.count
            return
        if kind.is_warps:
            # a single access of a warp, for which its threads converge
            access = _one_of_each_warp(access)
            self._gathered(lanes)
        self.accesses[space] = self.accesses.get(space, 0) + lanes.count
        if access.kind == "update" and lanes.site.bound.has(".cas") and access.values is not None and len(access.values) == 2:
            writes = self.changing(space, access)
            for kind_of_access, chosen in (("read", np.flatnonzero(~writes)), ("update", np.flatnonzero(writes))):
                if len(chosen):
                    at = np.broadcast_to(access.at, lanes.count)[chosen]
                    self._access(attrs.evolve(access, kind=kind_of_access, lanes=lanes.at(chosen), at=at, values=None), space, kind)
            return
        self._access(access, space, kind)

    def _access(self, access: Access, space: str, kind: Kind) -> None:
        """An access of the generic proxy."""
        if kind.strength or self.chains:
            at = access.lanes.broadcast(np.asarray(access.at, np.int64)[()])
            self._order(space, access.lanes, at, access.size, kind, access.kind != "write", access.kind != "read")

    def _gathered(self, lanes: Lanes) -> None:
        """The first thread of each warp learns what all of its threads know, since they execute an instruction together."""
        for warp in distinct_numbers(lanes.warp).tolist():
            places = lanes.place[lanes.warp == warp]
            self.knowledge.learn(places[:1], self.knowledge.together(places))

    def changing(self, space: str, access: Access) -> Array:
        """The lanes whose compare-and-swap or exchange changes the word, one lane after the other. A compare-and-swap that fails is a read
        (8.5)."""
        memory = self.launch.machine.memory
        buffer = memory.globals if space == ".global" else memory.shared
        lanes = access.lanes
        at = np.broadcast_to(np.asarray(access.at, np.int64), lanes.count)
        *compare, new = [lanes.broadcast(np.asarray(value)[()]) for value in access.values]
        held: dict[int, Any] = {}
        found = np.zeros(lanes.count, bool)
        for lane, where in enumerate(at.tolist()):
            if where not in held:
                held[where] = buffer.span(where, access.size).tobytes()
            given = new[lane].tobytes()
            if held[where] == compare[0][lane].tobytes() if compare else held[where] != given:
                found[lane] = True
                held[where] = given
        return found

    def kind(self, site: Site) -> Kind:
        """The table's description of an instruction's accesses."""
        found = self._kinds.get(id(site))
        if found is None:
            found = self._kinds[id(site)] = self._made(site)
            self._sites.append(site)
        return found

    def _made(self, site: Site) -> Kind:
        bound = site.bound
        assert isinstance(bound, Bound)
        memory = next((one for one in bound.memory), None)
        order = memory.order.lstrip(".") if memory is not None and memory.order else "weak"
        scope = memory.scope.lstrip(".") if memory is not None and memory.scope else ""
        strength = _SCOPES.get(scope, GPU) if order in STRONG else 0
        line = self.launch.span(site).line
        group = group_of(bound)
        if group and not strength and Operation(bound).slot(".op"):
            # asynchronous reductions are relaxed operations, at GPU scope by default (9.7.10.24.7, 9.7.10.24.10)
            strength = GPU
        proxy = next((one.proxy for one in bound.memory if one.is_async and one.proxy), "")
        is_collective = bound.converges is not None and bound.converges.level == "warpgroup"
        is_watched = not any(one.is_async for one in bound.memory) or bool(group)
        updates = bound.form.mnemonic in ("atom", "red")
        is_warps = bound.converges is not None and bound.converges.level == "warp" and fenced_proxy(bound) != ""
        is_object = bool(bound.barrier) or bound.form.mnemonic == "mbarrier" or (bool(bound.completes) and not group)
        if is_object and not any(one.action in ("init", "inval") for one in bound.barrier):
            # arrivals and tests are atomic (9.7.14.15); initialization and invalidation are not
            strength = GPU
        is_end = "dealloc" in bound.effects
        is_exchange = bound.form.mnemonic in _MATRICES and any(map(bound.has, _SHORT_ROWS)) and self.launch.threads % WARP == 0
        is_asked = self.lines is None or line in self.lines or bool(strength) or is_object or is_end
        return Kind(
            len(self._sites), line, order, strength, is_watched, is_asked, updates, group, proxy, is_collective, is_warps, is_object,
            is_exchange, any(map(bound.has, READONLY)),
        )  # fmt: skip

    # --- release and acquire

    def _order(self, space: str, lanes: Lanes, at: Array, size: int, kind: Kind, reads: bool, writes: bool) -> None:
        """Tracks the patterns of 8.8: what strong accesses observe and publish."""
        knowledge = self.knowledge
        is_release = kind.order in ("release", "acq_rel") and writes
        is_acquire = kind.order in ("acquire", "acq_rel") and reads
        known = bool(self.ordered) and not self.ordered.isdisjoint([(space, where) for where in distinct_numbers(at).tolist()])
        publishes = bool(kind.strength and writes and (is_release or (knowledge.fences[:, 0, lanes.place] >= 0).any()))
        if not known and not publishes:
            return
        for place, where in zip(lanes.place.tolist(), at.tolist(), strict=True):
            key = (space, where)
            chain = self.chains.get(key)
            linked = chain is not None and kind.strength > 0 and self._linked(chain, place, size, kind)
            if reads and linked and chain is not None:
                if is_acquire:
                    knowledge.acquire(place, kind.strength, chain.released)
                else:
                    knowledge.observe(place, chain.released)
                    self._joined(self.seen, place, key, chain.released)
            if is_acquire and (place, key) in self.seen:
                # a strong read of a location followed by an acquire of it is an acquire pattern, too
                knowledge.acquire(place, kind.strength, self.seen[place, key])
            if not writes:
                continue
            released = knowledge.released(place, kind.strength, is_release) if kind.strength else None
            if is_release and released is not None:
                self._joined(self.given, place, key, released)
            elif kind.strength and (place, key) in self.given:
                # likewise a release of a location and a later strong write to it
                released = released or Releases()
                released.merge(self.clocks, self.given[place, key])
            if reads and linked and chain is not None:
                # the new chain includes the contents of the one it replaces
                if released is not None:
                    chain.released.merge(self.clocks, released)
                released = chain.released
            if released is None:
                self.chains.pop(key, None)
            else:
                self.chains[key] = _Chain(place + knowledge.first, kind.strength, size, released)
                self.ordered.add(key)
        if publishes:
            knowledge.tick()

    def _joined(self, by: dict[tuple[int, tuple[str, int]], Releases], place: int, key: tuple[str, int], released: Releases) -> None:
        """Records releases of a location by thread."""
        by.setdefault((place, key), Releases()).merge(self.clocks, released)

    def _linked(self, chain: _Chain, place: int, size: int, kind: Kind) -> bool:
        """Whether an access is morally strong with the write that it reads from."""
        threads, cluster = self.knowledge.threads, self.knowledge.cluster
        mine, other = (place + self.knowledge.first) // threads, chain.writer // threads
        scope = min(chain.strength, kind.strength)
        near = scope >= GPU or mine == other or (scope >= CLUSTER and mine // cluster == other // cluster)
        return chain.code == size and near

    # --- what synchronizes

    def instruction(self, lanes: Any, arguments: tuple[Any, ...]) -> None:
        bound = lanes.site.bound
        if "fence" in bound.effects:
            self._fence(lanes, bound)
        elif "init-fence" in bound.effects:
            for place in lanes.place.tolist():
                self.published.setdefault(place, []).extend(self.made.pop(place, ()))
        elif bound.form.mnemonic == "mbarrier":
            self._mbarrier(lanes, bound, arguments, passed=False)
        elif bound.barrier and bound.form.mnemonic in _BARRIERS:
            self._arrive(lanes, bound, arguments)

    def passed(self, lanes: Any, arguments: tuple[Any, ...], token: Any) -> None:
        bound = lanes.site.bound
        if bound.form.mnemonic == "mbarrier":
            self._mbarrier(lanes, bound, arguments, passed=True)
        elif bound.form.mnemonic not in _BARRIERS:
            # one that accesses memory itself, such as ldmatrix, is as unordered to other lanes as a load
            if self.by_collectives and bound.converges is not None and bound.converges.level == "warp" and not bound.memory:
                self._warp(lanes, ())
        elif bound.has(".warp"):
            self._warp(lanes, arguments)
        elif any(barrier.action == "wait" for barrier in bound.barrier):
            self._leave(lanes, bound, arguments, token)

    def _fence(self, lanes: Any, bound: Bound) -> None:
        """A fence (8.7, 8.8): later strong writes release, and what earlier strong reads have observed is acquired."""
        knowledge = self.knowledge
        words = [modifier.lstrip(".") for modifier in bound.modifiers]
        is_membar = bound.form.mnemonic == "membar"
        scope = next((_SCOPES[word] for word in words if word in _SCOPES), GPU)
        is_sc = is_membar or "sc" in words
        places = lanes.place
        if knowledge.pending and "release" not in words:
            for place in knowledge.pending.keys() & set(places.tolist()):
                knowledge.acquire(place, scope, knowledge.pending[place])
        if is_sc:
            cta = (places + knowledge.first) // knowledge.threads
            if self.fenced:
                for number in distinct_numbers(cta).tolist():
                    knowledge.learn(places[cta == number], self.fenced.acquired(self.clocks, scope, number // knowledge.cluster, number))
            for number in distinct_numbers(cta).tolist():
                self.fenced.add(self.clocks, scope, number // knowledge.cluster, number, knowledge.together(places[cta == number]))
        if "acquire" not in words:
            knowledge.fence(places, scope)
        knowledge.tick()

    def publish(self, lanes: Lanes) -> None:
        """A relaxed arrival publishes the mbarriers that a fence.mbarrier_init covers (9.7.14.4)."""
        for place in self.published.keys() & set(lanes.place.tolist()):
            self.has_published(np.array(self.published.pop(place), np.int64))

    def has_published(self, made: Array) -> None:
        """Called with the addresses of mbarriers that are published."""

    def _arrive(self, lanes: Any, bound: Bound, arguments: tuple[Any, ...]) -> None:
        """Lanes arrive at a barrier of their CTA or cluster."""
        knowledge, residents = self.knowledge, self.residents
        if bound.has(".cluster"):
            if bound.has(".arrive"):
                cluster = lanes.cta // knowledge.cluster
                for number in distinct_numbers(cluster).tolist():
                    key = (number, int(residents.cluster_barriers.phase[number]))
                    places = lanes.place[cluster == number]
                    mine = self._fenced(places) if bound.has(".relaxed") else knowledge.together(places)
                    self.cluster_arrivals[key] = self.clocks.join(self.cluster_arrivals.get(key, NOTHING), mine)
                knowledge.tick()
                if bound.has(".relaxed"):
                    self.publish(lanes)
            return
        if bound.has(".warp") or not arguments:
            return
        number = np.asarray(arguments[0])
        if (number >= BARRIERS).any():
            return
        keys = lanes.cta * BARRIERS + number
        waits = not bound.has(".arrive")
        self.only_waits &= waits
        came: list[tuple[int, int]] = []
        self.came_together = (lanes.place, knowledge.stamp, came) if not number.ndim and lanes.count == residents.alive_count else None
        for barrier, which in _apart(keys):
            phase = int(residents.barriers.phase[barrier])
            came.append((barrier, phase))
            places = lanes.place[which]
            self.arrivals.pop((barrier, phase - 2), None)
            self.brought.pop((barrier, phase - 2), None)
            self.arrivals.setdefault((barrier, phase), []).append((places, knowledge.stamp, waits))
            if not waits:
                # they continue at once: what they know now is what they contribute
                self.arrivals[barrier, phase][-1] = (places, -knowledge.together(places), False)
        knowledge.tick()

    def _fenced(self, places: Array) -> int:
        """What threads release by a relaxed arrival at the cluster barrier: what earlier fences cover."""
        knowledge = self.knowledge
        some = places[(knowledge.fences[CLUSTER:, 0, places] >= 0).any(axis=0)].tolist()
        return self.clocks.join_all([NOTHING, *[knowledge.at_fence(place, scope) for place in some for scope in (CLUSTER, GPU)]])

    def _leave(self, lanes: Any, bound: Bound, arguments: tuple[Any, ...], token: Any) -> None:
        if bound.has(".cluster"):
            self._leave_cluster(lanes, token)
            return
        knowledge, residents = self.knowledge, self.residents
        if self._leave_together(lanes, token is None):
            return
        keys = lanes.cta * 16 + np.asarray(arguments[0])
        phases = np.asarray(token[1]) if token is not None else residents.barriers.phase[keys]
        phases = np.broadcast_to(phases, lanes.count)
        for both, which in _apart(keys << 32 | phases):
            key, phase = both >> 32, both & 0xFFFFFFFF
            mine = lanes.place[which]
            came = self.arrivals.get((key, phase), [])
            everyone = sum(len(places) for places, _, waits in came if waits)
            if all(waits for _, _, waits in came) and everyone >= residents.alive_of_cta[key // 16]:
                stamp = max(stamp for _, stamp, _ in came)
                brought = self.brought.get((key, phase))
                if brought is None:
                    # taken when the first thread continues, since the others may learn more before they do
                    extras = distinct_numbers(np.concatenate([knowledge.extra[places] for places, _, _ in came]))
                    brought = self.brought[key, phase] = self.clocks.join_all(extras.tolist())
                knowledge.floor_cta[mine] = np.maximum(knowledge.floor_cta[mine], stamp)
                knowledge.share(mine, brought)
                if token is None:
                    # all threads arrived together, and the barrier did not count a phase
                    self.arrivals.pop((key, phase), None)
                    self.brought.pop((key, phase), None)
                continue
            clock = NOTHING
            for n, (places, stamp, waits) in enumerate(came):
                if waits and stamp >= 0:
                    # they still wait, or have just continued: their contribution is fixed when the first one continues
                    came[n] = (places, -knowledge.together(places), False)
                clock = self.clocks.join(clock, -came[n][1])
            knowledge.share(mine, clock)
        knowledge.tick()

    def _leave_together(self, lanes: Any, is_over: bool) -> bool:
        """Whether all threads arrived at one barrier at the same time and continue together, so that no clock is needed."""
        knowledge, places = self.knowledge, lanes.place
        came, self.came_together = self.came_together, None
        if came is None or came[0] is not places or not self.only_waits or knowledge.extra[places].any():
            return False
        knowledge.floor_cta[places] = came[1]
        if is_over:
            # the barrier did not count a phase
            for key in came[2]:
                self.arrivals.pop(key, None)
        knowledge.tick()
        return True

    def _leave_cluster(self, lanes: Any, token: Any) -> None:
        if token is None:
            return
        cluster, phase = np.broadcast_to(token[0], lanes.count), np.broadcast_to(token[1], lanes.count)
        for number, which in sorted(set(zip(cluster.tolist(), phase.tolist(), strict=True))):
            clock = self.cluster_arrivals.get((number, which), NOTHING)
            self.knowledge.learn(lanes.place[(cluster == number) & (phase == which)], clock)
        self.knowledge.tick()

    def _warp(self, lanes: Any, arguments: tuple[Any, ...]) -> None:
        """`bar.warp.sync` orders the accesses of the participating lanes (9.7.14.2)."""
        knowledge = self.knowledge
        mask = arguments[0] if arguments else np.uint32(0xFFFFFFFF)
        places, extra, floors = lanes.place, knowledge.extra[lanes.place], knowledge.floor_cta[lanes.place]
        whole = not getattr(mask, "ndim", 0) and lanes.is_whole and bool((_residents_mask(lanes) & ~np.uint32(mask) == 0).all())
        if whole and (extra == extra[0]).all() and (floors == floors[0]).all():
            knowledge.floor_warp[places] = knowledge.stamp
            knowledge.tick()
            return
        masks = lanes.broadcast(np.asarray(mask).astype(np.uint32)[()])
        for warp, bits in sorted(set(zip(lanes.warp.tolist(), masks.tolist(), strict=True))):
            named = (bits >> lanes.lane) & 1
            mine = places[(lanes.warp == warp) & (masks == bits) & (named == 1)]
            if len(mine):
                knowledge.share(mine, knowledge.together(mine))
        knowledge.tick()

    def _mbarrier(self, lanes: Any, bound: Bound, arguments: tuple[Any, ...], passed: bool) -> None:
        """Arrivals release and successful waits acquire (9.7.14.15), at the given scope, `.cta` by default."""
        is_wait, is_try = bound.has(".test_wait") or bound.has(".try_wait"), bound.has(".try_wait")
        is_arrival = bound.has(".arrive") or bound.has(".arrive_drop")
        if bound.has(".init"):
            for at in self.located(lanes, bound, arguments, "m").tolist():
                self.phases.pop(at, None)
            return
        if not (is_wait or is_arrival) or bound.has(".relaxed") or (is_wait and passed != is_try) or (is_arrival and passed):
            return
        knowledge = self.knowledge
        scope = next((_SCOPES[word] for word in (m.lstrip(".") for m in bound.modifiers) if word in _SCOPES), CTA)
        where = self.located(lanes, bound, arguments, "m")
        words = self.launch.machine.memory.shared.view(np.dtype(np.uint64))[where >> 3]
        now = np.asarray(objects.parity(words)).astype(np.int64)
        if is_arrival:
            for at, parity in sorted(set(zip(where.tolist(), now.tolist(), strict=True))):
                mine = lanes.place[(where == at) & (now == parity)]
                released = self.phase(at, parity)
                cta = (mine + knowledge.first) // knowledge.threads
                for number in distinct_numbers(cta).tolist():
                    clock = knowledge.together(mine[cta == number])
                    released.add(self.clocks, scope, number // knowledge.cluster, number, clock)
            knowledge.tick()
            return
        given = named(bound, arguments)
        if given.get("parity") is not None:
            waited = np.asarray(given["parity"]).astype(np.int64) & 1
        else:
            waited = np.asarray(objects.parity(np.asarray(given["state"], np.uint64))).astype(np.int64)
        waited = np.broadcast_to(waited, lanes.count)
        done = now != waited
        for place, at, parity in zip(lanes.place[done].tolist(), where[done].tolist(), waited[done].tolist(), strict=True):
            phase = self.phases.get(at)
            if phase is not None and phase[1][parity]:
                knowledge.acquire(place, scope, phase[1][parity])

    def phase(self, at: int, parity: int) -> Releases:
        """What arrivals at the current phase of an mbarrier release."""
        last, both = self.phases.get(at, (-1, [Releases(), Releases()]))
        if last != parity:
            both[parity] = Releases()
            self.phases[at] = (parity, both)
        return both[parity]

    def located(self, lanes: Any, bound: Bound, arguments: tuple[Any, ...], name: str) -> Array:
        """The positions of mbarriers in the buffer of shared memory."""
        return located(lanes, bound, named(bound, arguments)[name], name)


def _apart(keys: Array) -> Iterator[tuple[int, Any]]:
    """The positions of each key, ascending; as a slice if the keys are sorted."""
    starts = np.flatnonzero(keys[1:] != keys[:-1]) + 1
    firsts, ends = [0, *starts.tolist()], [*starts.tolist(), len(keys)]
    if (keys[starts] > keys[starts - 1]).all():
        for first, end in zip(firsts, ends, strict=True):
            yield int(keys[first]), slice(first, end)
        return
    for key in distinct_numbers(keys).tolist():
        yield key, np.flatnonzero(keys == key)


def _one_of_each_warp(access: Access) -> Access:
    """The access of the first lane of each warp."""
    first = np.unique(access.lanes.warp, return_index=True)[1]
    values = None if access.values is None else tuple(v[first] if getattr(v, "ndim", 0) else v for v in access.values)
    return attrs.evolve(access, lanes=access.lanes.at(first), at=np.broadcast_to(access.at, access.lanes.count)[first], values=values)


def _residents_mask(lanes: Any) -> Array:
    """Which lanes of the warps have not exited."""
    return lanes.residents.alive_mask[lanes.warps]  # type: ignore[no-any-return]
