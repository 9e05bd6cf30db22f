"""Data races: two accesses of the same bytes, at least one a write, that are not morally strong and that nothing orders (ISA 8.7.1).

Whether one happens before the other is what `knowledge` follows: program order, barriers, release and acquire patterns (8.8, 8.9), fences,
mbarriers. It speaks for S003, S009 and G001. What operations in flight access, through the async proxy, is counted as not watched.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from ptxkit.isa.binding import Bound
from ptxkit.machine.asynchronous import mbarrier as objects
from ptxkit.machine.asynchronous.arguments import order as operand_order
from ptxkit.machine.groups import Lanes
from ptxkit.machine.monitoring import Monitor
from ptxkit.machine.monitors.clocks import CLUSTER, CTA, GPU, NOTHING, Clocks, Releases
from ptxkit.machine.monitors.knowledge import Knowledge
from ptxkit.machine.monitors.shadow import MANY, Entries, Shadow
from ptxkit.machine.operation import Operation

if TYPE_CHECKING:
    from ptxkit.machine.code import Site
    from ptxkit.machine.launching import Launch
    from ptxkit.machine.memory import Access
    from ptxkit.machine.scheduling import Residents

Array = np.ndarray[Any, Any]
_SCOPES = {"cta": CTA, "cluster": CLUSTER, "gpu": GPU, "gl": GPU, "sys": GPU}
_STRONG = ("relaxed", "acquire", "release", "acq_rel", "volatile", "mmio")
SPACES = (".global", ".shared")


@attrs.frozen
class Side:
    """One of two accesses that race."""

    cta: tuple[int, int, int]
    thread: tuple[int, int, int]
    line: int
    kind: str
    value: str | None = None


@attrs.define
class Race:
    """The first of the races between two instructions, and how many pieces of memory and pairs of threads showed it."""

    space: str
    variable: str
    offset: int
    bytes: int
    accesses: tuple[Side, Side]
    same_value: bool = False
    count: int = 1

    def witness(self) -> dict[str, Any]:
        """As JSON has it."""
        return {
            "accesses": [{k: v for k, v in attrs.asdict(side).items() if v is not None} for side in self.accesses],
            "space": self.space.removeprefix("."),
            "variable": self.variable,
            "offset": self.offset,
            "bytes": self.bytes,
        }


@attrs.frozen(eq=False)
class _Kind:
    """What the table says of the accesses of an instruction."""

    number: int
    line: int
    order: str
    strength: int
    """The scope of a strong access; 0: weak."""
    is_watched: bool


@attrs.define(eq=False)
class _Chain:
    """What reading a place observes: releases by the write there, or by those before it that read-modify-writes carried on (8.8)."""

    writer: int
    strength: int
    code: int
    released: Releases


class Races(Monitor):
    """Watches global and shared memory. `races` has what it found, by the pair of instructions."""

    def __init__(self) -> None:
        self.races: dict[tuple[int, int], Race] = {}
        self.accesses: dict[str, int] = {}
        self.unwatched = 0
        self._kinds: dict[int, _Kind] = {}
        self._sites: list[Site] = []
        self._names: dict[int, tuple[str, ...]] = {}

    # --- the launch

    def begin(self, launch: Launch) -> None:
        self.launch = launch
        self.clocks = Clocks()
        self.knowledge = Knowledge(self.clocks, launch.threads, launch.cluster_size)
        self.shadows: dict[str, Shadow] = {}
        self.chains: dict[tuple[str, int], _Chain] = {}
        self.fenced = Releases()
        self.arrivals: dict[tuple[int, int], list[tuple[Array, int, bool]]] = {}
        self.cluster_arrivals: dict[tuple[int, int], int] = {}
        self.phases: dict[int, tuple[int, list[Releases]]] = {}

    def resident(self, residents: Residents) -> None:
        if residents.first == self.knowledge.first and len(self.knowledge.extra) and residents.count > len(self.knowledge.extra):
            self.knowledge.grow(residents.count)
            return
        self.knowledge.reset(residents.first_cta, residents.count)
        self.residents = residents
        self.shadows.pop(".shared", None)
        self.chains = {key: chain for key, chain in self.chains.items() if key[0] == ".global"}
        self.arrivals, self.cluster_arrivals, self.phases = {}, {}, {}

    # --- accesses

    def access(self, access: Access) -> None:
        space = ".shared" if access.space.startswith(".shared") else access.space
        if space not in SPACES:
            return
        lanes = access.lanes
        if getattr(lanes, "site", None) is None:
            return
        kind = self._kind(lanes.site)
        if access.proxy not in ("", "generic") or not kind.is_watched:
            self.unwatched += lanes.count
            return
        self.accesses[space] = self.accesses.get(space, 0) + lanes.count
        shadow = self._shadow(space, access.size, access.at)
        at = lanes.broadcast(np.asarray(access.at, np.int64)[()])
        first = (at - shadow.origin) // shadow.grain
        pieces = -(-access.size // shadow.grain)
        place, code = lanes.place, np.full(lanes.count, access.size, np.int64)
        piece = first
        if pieces > 1:
            piece = (first[:, None] + np.arange(pieces)).ravel()
            place = np.repeat(place, pieces)
            code = np.repeat(code, pieces) | np.tile(np.arange(pieces) << 8, lanes.count)
        reads, writes = access.kind != "write", access.kind != "read"
        rows = _Rows(piece, place, place + self.knowledge.first, code, kind)
        if reads:
            self._check_writers(shadow, space, rows, "read" if not writes else "update")
        if writes:
            self._check_writers(shadow, space, rows, "write") if not reads else None
            self._check_readers(shadow, space, rows)
            self._write(shadow, space, rows, access)
        if reads and not writes:
            self._read(shadow, rows)
        if kind.strength or self.chains:
            self._order(space, lanes, first, access.size, kind, reads, writes)

    def _shadow(self, space: str, size: int, at: Any) -> Shadow:
        memory = self.launch.machine.memory
        buffer = memory.globals if space == ".global" else memory.shared
        shadow = self.shadows.get(space)
        if shadow is None:
            shadow = self.shadows[space] = Shadow(buffer.origin, 4)
        if shadow.grain > 1 and size % shadow.grain:
            shadow.refine(2 if size % 2 == 0 else 1)
        shadow.reach(len(buffer.data))
        return shadow

    def _check_writers(self, shadow: Shadow, space: str, rows: _Rows, how: str) -> None:
        """The last write of each piece, and those that are in the log, against these accesses."""
        writer = shadow.writer[rows.piece]
        others = np.flatnonzero((writer != 0) & (writer != rows.thread + 1))
        if len(others):
            piece = rows.piece[others]
            before = Entries(
                piece, writer[others] - 1, shadow.written[piece], shadow.write_site[piece], shadow.write_strength[piece],
                shadow.write_code[piece],
            )  # fmt: skip
            self._judge(space, shadow, rows.at(others), before, how, "write")
        many = np.flatnonzero(shadow.many_writers[rows.piece])
        if len(many):
            self._search(shadow.writes.of(rows.piece[many]), space, shadow, rows.at(many), how, "write")

    def _check_readers(self, shadow: Shadow, space: str, rows: _Rows) -> None:
        reader = shadow.reader[rows.piece]
        others = np.flatnonzero((reader != 0) & (reader != rows.thread + 1))
        if not len(others):
            return
        rows, reader = rows.at(others), reader[others]
        cta = rows.thread // self.knowledge.threads
        fine = (shadow.read_cta[rows.piece] == cta + 1) & (shadow.read[rows.piece] <= self.knowledge.floor_cta[rows.place])
        left = np.flatnonzero(~fine)
        if len(left):
            rows = rows.at(left)
            self._search(shadow.reads.of(rows.piece), space, shadow, rows, "write", "read")

    def _search(self, found: Entries | None, space: str, shadow: Shadow, rows: _Rows, how: str, before: str) -> None:
        """Accesses of the log against accesses now."""
        if found is None:
            return
        order = np.argsort(rows.piece, kind="stable")
        sorted_ = rows.piece[order]
        low, high = np.searchsorted(sorted_, found.piece, "left"), np.searchsorted(sorted_, found.piece, "right")
        counts = high - low
        which = np.repeat(np.arange(len(counts)), counts)
        offset = np.arange(len(which)) - np.repeat(np.cumsum(counts) - counts, counts)
        now = order[low[which] + offset]
        rows, found = rows.at(now), found.at(which)
        differ = np.flatnonzero(rows.thread != found.thread)
        if len(differ):
            self._judge(space, shadow, rows.at(differ), found.at(differ), how, before)

    def _judge(self, space: str, shadow: Shadow, rows: _Rows, before: Entries, how: str, what: str) -> None:
        """Pairs of accesses of different threads: those that nothing orders and that are not morally strong are races."""
        bad = ~self.knowledge.known(rows.place, before.thread, before.stamp)
        if not bad.any():
            return
        if rows.kind.strength:
            bad &= ~self._morally_strong(rows, before)
        for i in np.flatnonzero(bad).tolist():
            self._found(space, shadow, rows, before, i, how, what)

    def _morally_strong(self, rows: _Rows, before: Entries) -> Array:
        threads, cluster = self.knowledge.threads, self.knowledge.cluster
        mine, other = rows.thread // threads, before.thread // threads
        scope = np.minimum(before.strength, rows.kind.strength)
        near = (scope >= GPU) | (mine == other) | ((scope >= CLUSTER) & (mine // cluster == other // cluster))
        return (before.strength > 0) & near & (before.code == rows.code)  # type: ignore[no-any-return]

    def _write(self, shadow: Shadow, space: str, rows: _Rows, access: Access) -> None:
        """These accesses are the last writes of their pieces from now on."""
        piece, kind = rows.piece, rows.kind
        stamp = self.knowledge.stamp
        strength = np.full(len(piece), kind.strength)
        entries = Entries(piece, rows.thread, np.full(len(piece), stamp), np.full(len(piece), kind.number), strength, rows.code)
        if kind.strength:
            # morally strong writes are no races, but do not order one another: all of them are remembered
            shadow.writes.add(entries)
            shadow.many_writers[piece] = 1
        elif shadow.many_writers[piece].any():
            shadow.writes.add(entries)
        shadow.writer[piece] = rows.thread + 1
        shadow.written[piece] = stamp
        shadow.write_site[piece] = kind.number
        shadow.write_strength[piece] = kind.strength
        shadow.write_code[piece] = rows.code
        if not kind.strength:
            # whoever read before this and is not ordered before it has been found; who writes after this is after them too
            shadow.reader[piece] = 0
            shadow.read_cta[piece] = 0
        lost = np.flatnonzero(shadow.writer[piece] != rows.thread + 1)
        if len(lost) and not kind.strength:
            self._collide(shadow, space, rows, lost, access)

    def _collide(self, shadow: Shadow, space: str, rows: _Rows, lost: Array, access: Access) -> None:
        """Lanes that write the same bytes with one instruction."""
        piece = rows.piece[lost]
        before = Entries(
            piece, shadow.writer[piece] - 1, shadow.written[piece], shadow.write_site[piece], shadow.write_strength[piece],
            shadow.write_code[piece],
        )  # fmt: skip
        values = getattr(access, "values", None)
        same = None
        if values is not None and len(values) == 1:
            value = access.lanes.broadcast(np.asarray(values[0])[()])
            ratio = len(rows.piece) // access.lanes.count
            winner = np.searchsorted(access.lanes.place, before.thread - self.knowledge.first)
            same = value[lost // ratio] == value[winner]
        for i in range(len(lost)):
            self._found(space, shadow, rows.at(lost), before, i, "write", "write", bool(same is not None and same[i]))

    def _read(self, shadow: Shadow, rows: _Rows) -> None:
        piece, thread = rows.piece, rows.thread
        old = shadow.reader[piece]
        mine = thread + 1
        shadow.reader[piece] = np.where((old == 0) | (old == mine), mine, MANY)
        clash = shadow.reader[piece] != mine
        if clash.any():
            shadow.reader[piece[clash]] = MANY
        cta = thread // self.knowledge.threads + 1
        old = shadow.read_cta[piece]
        shadow.read_cta[piece] = np.where((old == 0) | (old == cta), cta, MANY)
        clash = shadow.read_cta[piece] != cta
        if clash.any():
            shadow.read_cta[piece[clash]] = MANY
        stamp = self.knowledge.stamp
        shadow.read[piece] = stamp
        count = len(piece)
        shadow.reads.add(
            Entries(piece, thread, np.full(count, stamp), np.full(count, rows.kind.number), np.full(count, rows.kind.strength), rows.code)
        )

    # --- release and acquire

    def _order(self, space: str, lanes: Lanes, first: Array, size: int, kind: _Kind, reads: bool, writes: bool) -> None:
        """Patterns of 8.8: what strong accesses observe and publish."""
        knowledge = self.knowledge
        is_release = kind.order in ("release", "acq_rel") and writes
        is_acquire = kind.order in ("acquire", "acq_rel") and reads
        touched = self.chains.keys() & {(space, piece) for piece in np.unique(first).tolist()} if self.chains else set()
        publishes = bool(kind.strength and writes and (is_release or (knowledge.fences[:, 0, lanes.place] >= 0).any()))
        if not touched and not publishes:
            return
        for place, piece in zip(lanes.place.tolist(), first.tolist(), strict=True):
            key = (space, piece)
            chain = self.chains.get(key)
            linked = chain is not None and kind.strength > 0 and self._linked(chain, place, size, kind)
            if reads and linked and chain is not None:
                if is_acquire:
                    knowledge.acquire(place, kind.strength, chain.released)
                else:
                    knowledge.observe(place, chain.released)
            if not writes:
                continue
            released = knowledge.released(place, kind.strength, is_release) if kind.strength else None
            if reads and linked and chain is not None:
                carried = chain.released.copy()
                if released is not None:
                    carried.merge(self.clocks, released)
                released = carried
            if released is None:
                self.chains.pop(key, None)
            else:
                self.chains[key] = _Chain(place + knowledge.first, kind.strength, size, released)
        if publishes:
            knowledge.tick()

    def _linked(self, chain: _Chain, place: int, size: int, kind: _Kind) -> bool:
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
        elif bound.form.mnemonic == "mbarrier":
            self._mbarrier(lanes, bound, arguments, passed=False)
        elif bound.barrier:
            self._arrive(lanes, bound, arguments)

    def passed(self, lanes: Any, arguments: tuple[Any, ...], token: Any) -> None:
        bound = lanes.site.bound
        if bound.form.mnemonic == "mbarrier":
            self._mbarrier(lanes, bound, arguments, passed=True)
        elif bound.converges is not None and bound.converges.level == "warp":
            if bound.has(".warp"):
                self._warp(lanes, arguments)
        elif bound.barrier:
            self._leave(lanes, bound, arguments, token)

    def _fence(self, lanes: Any, bound: Bound) -> None:
        """8.7 and 8.8: what is released by later strong writes, and acquired from what earlier strong reads have observed."""
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
                for number in np.unique(cta).tolist():
                    knowledge.learn(places[cta == number], self.fenced.acquired(self.clocks, scope, number // knowledge.cluster, number))
            for number in np.unique(cta).tolist():
                self.fenced.add(self.clocks, scope, number // knowledge.cluster, number, knowledge.together(places[cta == number]))
        if "acquire" not in words:
            knowledge.fence(places, scope)
        knowledge.tick()

    def _arrive(self, lanes: Any, bound: Bound, arguments: tuple[Any, ...]) -> None:
        """Lanes come to a barrier of their CTA or cluster."""
        knowledge, residents = self.knowledge, self.residents
        if bound.has(".cluster"):
            if bound.has(".arrive") and not bound.has(".relaxed"):
                cluster = lanes.cta // knowledge.cluster
                for number in np.unique(cluster).tolist():
                    key = (number, int(residents.cluster_barriers.phase[number]))
                    mine = knowledge.together(lanes.place[cluster == number])
                    self.cluster_arrivals[key] = self.clocks.join(self.cluster_arrivals.get(key, NOTHING), mine)
                knowledge.tick()
            return
        if bound.has(".warp") or not arguments:
            return
        number = np.asarray(arguments[0])
        keys = lanes.cta * 16 + number
        waits = not bound.has(".arrive")
        for key in np.unique(keys).tolist():
            phase = int(residents.barriers.phase[key])
            self.arrivals.setdefault((key, phase), []).append((lanes.place[keys == key], knowledge.stamp, waits))
            if not waits:
                # they go on at once: what they know now is what they bring
                self.arrivals[key, phase][-1] = (lanes.place[keys == key], -knowledge.together(lanes.place[keys == key]), False)
        knowledge.tick()

    def _leave(self, lanes: Any, bound: Bound, arguments: tuple[Any, ...], token: Any) -> None:
        if bound.has(".cluster"):
            self._leave_cluster(lanes, token)
            return
        knowledge, residents = self.knowledge, self.residents
        keys = lanes.cta * 16 + np.asarray(arguments[0])
        phases = np.asarray(token[1]) if token is not None else residents.barriers.phase[keys]
        phases = np.broadcast_to(phases, lanes.count)
        for key, phase in sorted(set(zip(keys.tolist(), phases.tolist(), strict=True))):
            mine = lanes.place[(keys == key) & (phases == phase)]
            came = self.arrivals.get((key, phase), [])
            everyone = sum(len(places) for places, _, waits in came if waits)
            if all(waits for _, _, waits in came) and everyone >= residents.alive_of_cta[key // 16]:
                stamp = max(stamp for _, stamp, _ in came)
                extras = np.unique(np.concatenate([knowledge.extra[places] for places, _, _ in came]))
                knowledge.floor_cta[mine] = np.maximum(knowledge.floor_cta[mine], stamp)
                if len(extras) > 1 or extras[0] != NOTHING:
                    knowledge.learn(mine, self.clocks.join_all(extras.tolist()))
                continue
            clock = NOTHING
            for n, (places, stamp, waits) in enumerate(came):
                if waits and stamp >= 0:
                    # they still wait, or have just gone on: what they brought is fixed when the first one goes on
                    came[n] = (places, -knowledge.together(places), False)
                clock = self.clocks.join(clock, -came[n][1])
            knowledge.learn(mine, clock)
        knowledge.tick()

    def _leave_cluster(self, lanes: Any, token: Any) -> None:
        if token is None:
            return
        cluster, phase = np.broadcast_to(token[0], lanes.count), np.broadcast_to(token[1], lanes.count)
        for number, which in sorted(set(zip(cluster.tolist(), phase.tolist(), strict=True))):
            clock = self.cluster_arrivals.get((number, which), NOTHING)
            self.knowledge.learn(lanes.place[(cluster == number) & (phase == which)], clock)
        self.knowledge.tick()

    def _warp(self, lanes: Any, arguments: tuple[Any, ...]) -> None:
        """`bar.warp.sync` orders the accesses of the lanes that take part (9.7.14.2)."""
        knowledge = self.knowledge
        mask = arguments[0] if arguments else np.uint32(0xFFFFFFFF)
        places, extra, floors = lanes.place, knowledge.extra[lanes.place], knowledge.floor_cta[lanes.place]
        whole = not getattr(mask, "ndim", 0) and lanes.is_whole and bool((residents_mask(lanes) & ~np.uint32(mask) == 0).all())
        if whole and (extra == extra[0]).all() and (floors == floors[0]).all():
            knowledge.floor_warp[places] = knowledge.stamp
            knowledge.tick()
            return
        masks = lanes.broadcast(np.asarray(mask).astype(np.uint32)[()])
        for warp, bits in sorted(set(zip(lanes.warp.tolist(), masks.tolist(), strict=True))):
            named = (bits >> lanes.lane) & 1
            mine = places[(lanes.warp == warp) & (masks == bits) & (named == 1)]
            if len(mine):
                knowledge.learn(mine, knowledge.together(mine))
        knowledge.tick()

    def _mbarrier(self, lanes: Any, bound: Bound, arguments: tuple[Any, ...], passed: bool) -> None:
        """Arrivals release, waits that succeed acquire (9.7.14.15), at the scope that they name, `.cta` if none."""
        is_wait, is_try = bound.has(".test_wait") or bound.has(".try_wait"), bound.has(".try_wait")
        is_arrival = bound.has(".arrive") or bound.has(".arrive_drop")
        if bound.has(".init"):
            for at in self._located(lanes, bound, arguments, "m").tolist():
                self.phases.pop(at, None)
            return
        if not (is_wait or is_arrival) or bound.has(".relaxed") or (is_wait and passed != is_try) or (is_arrival and passed):
            return
        knowledge = self.knowledge
        scope = next((_SCOPES[word] for word in (m.lstrip(".") for m in bound.modifiers) if word in _SCOPES), CTA)
        where = self._located(lanes, bound, arguments, "m")
        words = self.launch.machine.memory.shared.view(np.dtype(np.uint64))[where >> 3]
        now = np.asarray(objects.parity(words)).astype(np.int64)
        if is_arrival:
            for at, parity in sorted(set(zip(where.tolist(), now.tolist(), strict=True))):
                mine = lanes.place[(where == at) & (now == parity)]
                last, both = self.phases.get(at, (-1, [Releases(), Releases()]))
                if last != parity:
                    both[parity] = Releases()
                cta = (mine + knowledge.first) // knowledge.threads
                for number in np.unique(cta).tolist():
                    clock = knowledge.together(mine[cta == number])
                    both[parity].add(self.clocks, scope, number // knowledge.cluster, number, clock)
                self.phases[at] = (parity, both)
            knowledge.tick()
            return
        given = dict(zip(self._operands(bound), arguments, strict=False))
        if given.get("parity") is not None:
            waited = np.asarray(given["parity"]).astype(np.int64) & 1
        else:
            waited = np.asarray(objects.parity(np.asarray(given["state"], np.uint64))).astype(np.int64)
        waited = np.broadcast_to(waited, lanes.count)
        done = now != waited
        for place, at, parity in zip(lanes.place[done].tolist(), where[done].tolist(), waited[done].tolist(), strict=True):
            released = self.phases.get(at)
            if released is not None and released[1][parity]:
                knowledge.acquire(place, scope, released[1][parity])

    def _located(self, lanes: Any, bound: Bound, arguments: tuple[Any, ...], name: str) -> Array:
        """Where objects lie in the buffer of shared memory."""
        given = dict(zip(self._operands(bound), arguments, strict=False))
        op = Operation(bound)
        found = np.empty(lanes.count, np.int64)
        for _, at, mine in self.launch.machine.memory.locate(lanes, op.space(name), given[name], 8, "read", watched=False):
            found[slice(None) if mine is None else mine] = at
        return found

    def _operands(self, bound: Bound) -> tuple[str, ...]:
        found = self._names.get(id(bound))
        if found is None:
            found = self._names[id(bound)] = operand_order(Operation(bound))
        return found

    # --- findings

    def _kind(self, site: Site) -> _Kind:
        found = self._kinds.get(id(site))
        if found is None:
            found = self._kinds[id(site)] = self._made(site)
            self._sites.append(site)
        return found

    def _made(self, site: Site) -> _Kind:
        bound = site.bound
        assert isinstance(bound, Bound)
        memory = next((one for one in bound.memory), None)
        order = memory.order.lstrip(".") if memory is not None and memory.order else "weak"
        scope = memory.scope.lstrip(".") if memory is not None and memory.scope else ""
        strength = _SCOPES.get(scope, GPU) if order in _STRONG else 0
        is_watched = not bound.barrier and not bound.asynchronous and not any(one.is_async for one in bound.memory)
        line = self.launch.span(site).line
        return _Kind(
            len(self._sites), line, order, strength, is_watched and bound.form.mnemonic not in ("mbarrier", "clusterlaunchcontrol")
        )

    def _found(self, space: str, shadow: Shadow, rows: _Rows, before: Entries, i: int, how: str, what: str, same: bool = False) -> None:
        key = (int(before.site[i]), rows.kind.number)
        known = self.races.get(key)
        if known is not None:
            known.count += 1
            known.same_value &= same
            return
        at = int(rows.piece[i]) * shadow.grain + shadow.origin
        variable, offset = self._variable(space, at)
        first = Side(*self._thread(int(before.thread[i])), self._line(int(before.site[i])), what)
        second = Side(*self._thread(int(rows.thread[i])), rows.kind.line, how)
        self.races[key] = Race(space, variable, offset, int(rows.code[i]) & 0xFF or shadow.grain, (first, second), same)

    def _line(self, number: int) -> int:
        return self._kinds[id(self._sites[number])].line

    def _thread(self, thread: int) -> tuple[tuple[int, int, int], tuple[int, int, int]]:
        cta, inside = divmod(thread, self.launch.threads)
        index = self.launch.places(np.array([cta]))[0]
        x, y, _ = self.launch.block
        return (int(index[0][0]), int(index[1][0]), int(index[2][0])), (inside % x, inside // x % y, inside // (x * y))

    def _variable(self, space: str, at: int) -> tuple[str, int]:
        """The name of what lies there, and how far from its start."""
        memory = self.launch.machine.memory
        if space == ".global":
            found = memory.allocations.containing(at)
            return (found.name, at - found.start) if found is not None else ("", at)
        return "", memory.owner(space, at)[1]


@attrs.frozen(eq=False)
class _Rows:
    """Accesses now, a row for each piece."""

    piece: Array
    place: Array
    thread: Array
    code: Array
    kind: _Kind

    def at(self, rows: Array) -> _Rows:
        return _Rows(self.piece[rows], self.place[rows], self.thread[rows], self.code[rows], self.kind)


def residents_mask(lanes: Any) -> Array:
    """Which lanes of the warps have not exited."""
    return lanes.residents.alive_mask[lanes.warps]  # type: ignore[no-any-return]


__all__ = ["Race", "Races", "Side"]
