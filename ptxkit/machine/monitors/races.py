"""Data races: unordered accesses to the same bytes that are not morally strong, at least one of them a write (ISA 8.7.1).

`knowledge` tracks happens-before: program order, barriers, release and acquire patterns (8.8, 8.9), fences, mbarriers. Covers S003, S009,
and races in global memory. `asynchronous` tracks operations in flight, and `proxies` fences between proxies.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from ptxkit.isa.binding import Bound
from ptxkit.machine.asynchronous import mbarrier as objects
from ptxkit.machine.asynchronous.arguments import order as operand_order
from ptxkit.machine.barriers import BARRIERS
from ptxkit.machine.groups import Lanes
from ptxkit.machine.matrices.tensor_memory import CELL, COLUMNS, LANES
from ptxkit.machine.matrices.tensor_memory import SPACE as TENSOR
from ptxkit.machine.memory.arena import watched
from ptxkit.machine.memory.buffer import Buffer
from ptxkit.machine.monitoring import Monitor
from ptxkit.machine.monitors.asynchronous import Flying, InFlight, after, group_of
from ptxkit.machine.monitors.clocks import CLUSTER, CTA, GPU, NOTHING, Clocks, Releases
from ptxkit.machine.monitors.kinds import Kind
from ptxkit.machine.monitors.knowledge import Knowledge
from ptxkit.machine.monitors.naming import Names, Side
from ptxkit.machine.monitors.pieces import distinct, expanded, matching
from ptxkit.machine.monitors.proxies import AFTER_SYNCHRONIZATION, Fences, fenced_proxy
from ptxkit.machine.monitors.reports import Race, reported
from ptxkit.machine.monitors.shadow import MANY, Entries, Shadow, bytes_of, chosen, code_of, repeated
from ptxkit.machine.monitors.tensor_stores import TensorStores, is_wait
from ptxkit.machine.operation import Operation
from ptxkit.machine.values.distinct import distinct_numbers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ptxkit.machine.asynchronous import Flight
    from ptxkit.machine.code import Site
    from ptxkit.machine.findings import Finding
    from ptxkit.machine.interfaces import Launch, Residents
    from ptxkit.machine.memory import Access

Array = np.ndarray[Any, Any]
_SCOPES = {"cta": CTA, "cluster": CLUSTER, "gpu": GPU, "gl": GPU, "sys": GPU}
_STRONG = ("relaxed", "acquire", "release", "acq_rel", "volatile", "mmio")
_BARRIERS = ("bar", "barrier")
SPACES = (".global", ".shared", TENSOR)
FAMILIES = ("races", "async", "proxies")
"""Families of findings: races of all accesses, races of operations in flight among them, and races between proxies."""
SHOWN = 16
"""Maximum number of bytes whose value is in a witness."""
PAIRS, CHUNK, OBSERVERS = 1 << 24, 1 << 20, 256
"""Maximum number of pairs of accesses that are compared for one instruction, and at a time; maximum number of pairs whose observers are
searched."""


@attrs.define(eq=False)
class _Chain:
    """What reading a byte observes: releases by the last write, or by earlier writes, continued by read-modify-writes (8.8)."""

    writer: int
    strength: int
    code: int
    released: Releases


class Races(Monitor):
    """Monitors global and shared memory. `races` has the races found, by pair of instructions.

    `families` selects the findings to report. `by_the_letter` also reports reads that an asynchronous operation overwrites without a proxy
    fence. `by_collectives` takes operations that lanes of a warp execute together (`shfl.sync`, `vote.sync`, `match.sync` …) to order their
    accesses, as on existing GPUs; the manual only guarantees this for `bar.warp.sync` (9.7.14.2). `lines` restricts races between weak
    accesses to these lines; None: all.
    """

    def __init__(
        self,
        families: Sequence[str] = FAMILIES,
        by_the_letter: bool = False,
        by_collectives: bool = False,
        lines: frozenset[int] | None = None,
    ) -> None:
        self.families = frozenset(families)
        self.by_the_letter = by_the_letter
        self.by_collectives = by_collectives
        self.lines = lines
        self.races: dict[tuple[int, int, bool], Race] = {}
        self.accesses: dict[str, int] = {}
        self.unwatched = 0
        self.unchecked = 0
        """Number of pairs of accesses to the same bytes that were too many to compare."""
        self._kinds: dict[int, Kind] = {}
        self._sites: list[Site] = []
        self._names: dict[int, tuple[str, ...]] = {}

    # --- the launch

    def begin(self, launch: Launch) -> None:
        self.launch = launch
        self.names = Names(launch)
        self.clocks = Clocks()
        self.knowledge = Knowledge(self.clocks, launch.threads, launch.cluster_size, launch.ctas)
        self.shadows: dict[str, Shadow] = {}
        self._cells: Buffer | None = None
        self.flying = InFlight(self)
        self.fences = Fences(self, self.by_the_letter)
        self.stores = TensorStores(self)
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
        self._polls: dict[int, tuple[Array, tuple[int, int], Array]] = {}
        """By instruction: which threads read what last, at which stamp, after how many writes."""
        self.arrivals: dict[tuple[int, int], list[tuple[Array, int, bool]]] = {}
        self.brought: dict[tuple[int, int], int] = {}
        """What all threads of a CTA knew when the first one left a barrier, by barrier and phase."""
        self.cluster_arrivals: dict[tuple[int, int], int] = {}
        self.phases: dict[int, tuple[int, list[Releases]]] = {}
        self.made: dict[int, list[int]] = {}
        """The addresses of mbarriers that threads have made; those that a fence has published are in `published`."""
        self.published: dict[int, list[int]] = {}

    def resident(self, residents: Residents) -> None:
        if residents.first == self.knowledge.first and len(self.knowledge.extra) and residents.count > len(self.knowledge.extra):
            self.knowledge.grow(residents.count)
            return
        self.knowledge.reset(residents.first_cta, residents.count)
        self.residents = residents
        self._polls = {}
        self.only_waits, self.came_together = True, None
        self.shadows.pop(".shared", None)
        self.shadows.pop(TENSOR, None)
        self.chains = {key: chain for key, chain in self.chains.items() if key[0] == ".global"}
        self.ordered = {key for key in self.ordered if key[0] == ".global"}
        self.arrivals, self.brought, self.cluster_arrivals, self.phases = {}, {}, {}, {}
        self.made, self.published = {}, {}
        self.seen, self.given = {}, {}
        self.flying.reset()
        self.fences.reset()
        self.stores.reset()

    def vacant(self, residents: Residents) -> None:
        self.flying.reset()

    def end(self, launch: Launch) -> None:
        # findings may be kept without the shadow memory
        self.shadows = {}

    def exit(self, lanes: Lanes) -> None:
        self.flying.exited(lanes)

    # --- operations in flight

    def started(self, flight: Flight) -> None:
        self.flying.started(flight)

    def committed(self, lanes: Lanes, queue: str) -> None:
        self.flying.committed_(lanes, queue)

    def awaited(self, lanes: Lanes, queue: str, limit: Array, reading: bool) -> None:
        self.flying.awaited(lanes, queue, limit, reading)

    def landing(self, flight: Flight, positions: Array) -> None:
        self.flying.landing(flight, positions)

    # --- accesses

    def access(self, access: Access) -> None:
        space = ".shared" if access.space.startswith(".shared") else access.space
        if space not in SPACES:
            return
        lanes = access.lanes
        if getattr(lanes, "site", None) is None:
            return
        kind = self.kind(lanes.site)
        if access.proxy == "tensormap":
            if kind.is_asked:
                self.fences.map_read(access, space, kind)
            return
        if space == TENSOR:
            if kind.is_asked:
                self._access(access, space, kind)
                self.fences.after_synchronization(access, kind)
            return
        if kind.group or not kind.is_watched:
            # operations in flight are tracked from their start
            self.unwatched += 0 if kind.group else lanes.count
            return
        if kind.is_warps:
            # a single access of a warp, for which its threads converge
            access = one_of_each_warp(access)
            self._gathered(lanes)
        self.accesses[space] = self.accesses.get(space, 0) + lanes.count
        if access.kind == "update" and lanes.site.bound.has(".cas") and access.values is not None and len(access.values) == 2:
            writes = self._swapped(space, access)
            for kind_of_access, chosen in (("read", np.flatnonzero(~writes)), ("update", np.flatnonzero(writes))):
                if len(chosen):
                    at = np.broadcast_to(access.at, lanes.count)[chosen]
                    self._access(attrs.evolve(access, kind=kind_of_access, lanes=lanes.at(chosen), at=at, values=None), space, kind)
            return
        self._access(access, space, kind)

    def _gathered(self, lanes: Lanes) -> None:
        """The first thread of each warp learns what all of its threads know, since they execute an instruction together."""
        for warp in distinct_numbers(lanes.warp).tolist():
            places = lanes.place[lanes.warp == warp]
            self.knowledge.learn(places[:1], self.knowledge.together(places))

    def _swapped(self, space: str, access: Access) -> Array:
        """The lanes whose compare-and-swap writes. If it fails, it is a read (8.5)."""
        memory = self.launch.machine.memory
        buffer = memory.globals if space == ".global" else memory.shared
        lanes = access.lanes
        at = np.broadcast_to(np.asarray(access.at, np.int64), lanes.count)
        compare, new = [lanes.broadcast(np.asarray(value)[()]) for value in access.values]
        held: dict[int, Any] = {}
        found = np.zeros(lanes.count, bool)
        for lane, where in enumerate(at.tolist()):
            if where not in held:
                held[where] = buffer.span(where, access.size).tobytes()
            if held[where] == compare[lane].tobytes():
                found[lane] = True
                held[where] = new[lane].tobytes()
        return found

    def _access(self, access: Access, space: str, kind: Kind) -> None:
        """An access of the generic proxy."""
        lanes, at = access.lanes, access.at
        at = np.asarray(at, np.int64) if getattr(at, "ndim", 0) else repeated(int(at), lanes.count)
        if kind.is_asked and not self._compared(access, space, kind, at):
            return
        if kind.is_object:
            for one, where in zip(lanes.place.tolist(), at.tolist(), strict=True) if not kind.strength else ():
                self.made.setdefault(one, []).append(where)
        elif kind.strength or self.chains:
            self._order(space, lanes, at, access.size, kind, access.kind != "write", access.kind != "read")

    def _compared(self, access: Access, space: str, kind: Kind, at: Array) -> bool:
        """Checks an access for races. Returns False if it is a repetition without news."""
        lanes = access.lanes
        shadow = self._shadow(space, access.size)
        self._now = access
        self.flying.check(space, at, access.size, access.kind, kind, lanes.index)
        if access.kind == "read" and self._is_read_again(shadow, lanes.place, at, kind):
            return False
        pieces = -(-access.size // shadow.grain)
        place, thread, code = lanes.place, lanes.index, repeated(code_of(access.size, 0), lanes.count)
        is_uniform = at.strides == (0,) and lanes.count > 0
        if is_uniform:
            first = (int(at[0]) - shadow.origin) // shadow.grain
            for n in range(pieces):
                offset = code_of(access.size, n * shadow.grain)
                rows = _Rows(repeated(first + n, lanes.count), place, thread, repeated(offset, lanes.count), kind)
                self._accessed(shadow, space, rows, access)
        else:
            piece = (at - shadow.origin) >> (shadow.grain.bit_length() - 1)
            if pieces > 1:
                piece = (piece[:, None] + np.arange(pieces)).ravel()
                place, thread = np.repeat(place, pieces), np.repeat(thread, pieces)
                code = np.repeat(code, pieces) + np.tile(code_of(0, np.arange(pieces) * shadow.grain), lanes.count)
            self._accessed(shadow, space, _Rows(piece, place, thread, code, kind), access)
        return True

    def _is_read_again(self, shadow: Shadow, place: Array, at: Array, kind: Kind) -> bool:
        """Whether the same threads have just read the same addresses, with no write or synchronization since."""
        last = self._polls.get(kind.number)
        state = self.knowledge.stamp, shadow.changes
        if last is not None and last[0] is place and last[1] == state and np.array_equal(last[2], at):
            return True
        self._polls[kind.number] = (place, state, at)
        return False

    def _accessed(self, shadow: Shadow, space: str, rows: _Rows, access: Access) -> None:
        """Checks and records accesses to pieces."""
        shadow.use(rows.piece)
        reads, writes = access.kind != "write", access.kind != "read"
        if reads:
            self._check_writers(shadow, space, rows, "read" if not writes else "update")
        if writes:
            self._check_writers(shadow, space, rows, "write") if not reads else None
            self._check_readers(shadow, space, rows)
            self._write(shadow, space, rows, access)
        if reads and not writes:
            self._read(shadow, space, rows)

    def buffer(self, space: str) -> Buffer:
        """The bytes of a space."""
        memory = self.launch.machine.memory
        if space == ".global" and memory.host:
            return watched(memory.globals, memory.allocations)
        found: Buffer = memory.globals if space == ".global" else memory.shared
        return found if space != TENSOR else self.cells()

    def cells(self) -> Buffer:
        """A buffer of the size of the tensor memories of all resident CTAs. Its contents do not matter."""
        size = self.residents.ctas * LANES * COLUMNS * CELL
        if self._cells is None or len(self._cells.data) < size:
            self._cells = Buffer.of_size(size)
        return self._cells

    def shadow(self, space: str, at: Array, size: Array) -> Shadow:
        """The shadow of a space, with pieces that match the bounds of byte ranges."""
        low = int(np.bitwise_or.reduce(at | size)) & 3
        return self._shadow(space, 4 if not low else 2 if low == 2 else 1)

    def _shadow(self, space: str, size: int) -> Shadow:
        buffer = self.buffer(space)
        shadow = self.shadows.get(space)
        if shadow is None:
            shadow = self.shadows[space] = Shadow(buffer.origin, 4, self.knowledge.threads)
        if shadow.grain > 1 and size % shadow.grain:
            shadow.refine(2 if size % 2 == 0 else 1)
        shadow.reach(len(buffer.data))
        return shadow

    def _check_writers(self, shadow: Shadow, space: str, rows: _Rows, how: str) -> None:
        """Checks accesses against the last write of each piece, and the writes in the log."""
        if rows.piece.strides == (0,) and not shadow.writer[rows.piece[0]]:
            return
        writer = shadow.writer[rows.piece]
        others = np.flatnonzero((writer != 0) & (writer != rows.thread + 1))
        if len(others) and not rows.kind.strength:
            known = self.knowledge.known(rows.place[others], writer[others] - 1, shadow.written[rows.piece[others]])
            others = others[~known]
        if len(others):
            before = shadow.last_writes(rows.piece[others])
            self._judge(space, shadow, rows.at(others), before, how, "write")
        log = shadow.writes
        if not log.size:
            return
        if rows.kind.strength >= GPU and (log.least or 0) >= GPU and log.sizes == {int(bytes_of(rows.code[0])[0])}:
            # all of them are morally strong with these
            return
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
        fine = (shadow.read_by(rows.piece) == cta) & (shadow.read[rows.piece] <= self.knowledge.floor_cta[rows.place])
        left = np.flatnonzero(~fine)
        if not len(left):
            return
        rows, reader = rows.at(left), reader[left]
        one = np.flatnonzero(reader != MANY)
        if len(one):
            self._judge(space, shadow, rows.at(one), shadow.only_reads(rows.piece[one]), "write", "read")
        many = np.flatnonzero(reader == MANY)
        if len(many):
            rows = rows.at(many)
            self._search(shadow.reads.of(rows.piece), space, shadow, rows, "write", "read")

    def _search(self, found: Entries | None, space: str, shadow: Shadow, rows: _Rows, how: str, before: str) -> None:
        """Checks accesses against those in the log."""
        found = self._unsettled(found, rows) if found is not None else None
        if found is None or not len(found.piece):
            return
        order, low, high = matching(rows.piece, found.piece)
        total = np.cumsum(high - low)
        if total[-1] > PAIRS:
            self.unchecked += int(total[-1] - PAIRS)
        start = 0
        while start < len(total) and (start == 0 or total[start] <= PAIRS):
            end = max(start + 1, int(np.searchsorted(total, (total[start - 1] if start else 0) + CHUNK, "right")))
            part = slice(start, end)
            self._pairs(found.at(np.arange(len(total))[part]), low[part], high[part], order, space, shadow, rows, how, before)
            start = end

    def _unsettled(self, found: Entries, rows: _Rows) -> Entries:
        """Drops accesses that are morally strong with all of these, or happen before all of them; a counter has many of the former."""
        left = np.ones(len(found.piece), bool)
        if rows.kind.strength >= GPU:
            sizes = distinct_numbers(bytes_of(rows.code)[0])
            if len(sizes) == 1:
                left &= (found.strength < GPU) | (bytes_of(found.code)[0] != sizes[0])
        ctas = rows.thread // self.knowledge.threads
        if (ctas == ctas[0]).all():
            floor = self.knowledge.floor_cta[rows.place].min()
            left &= (found.thread // self.knowledge.threads != ctas[0]) | (found.stamp > floor)
        return found if left.all() else found.at(np.flatnonzero(left))

    def _pairs(
        self, found: Entries, low: Array, high: Array, order: Array, space: str, shadow: Shadow, rows: _Rows, how: str, before: str
    ) -> None:
        """Compares accesses from the log with the current accesses to the same pieces."""
        counts = high - low
        which = np.repeat(np.arange(len(counts)), counts)
        offset = np.arange(len(which)) - np.repeat(np.cumsum(counts) - counts, counts)
        now = order[low[which] + offset]
        rows, found = rows.at(now), found.at(which)
        differ = np.flatnonzero(rows.thread != found.thread)
        if len(differ):
            self._judge(space, shadow, rows.at(differ), found.at(differ), how, before)

    def _judge(self, space: str, shadow: Shadow, rows: _Rows, before: Entries, how: str, what: str) -> None:
        """Reports pairs of accesses of different threads that are unordered and not morally strong."""
        if rows.kind.strength:
            weak = np.flatnonzero(~self._morally_strong(rows, before))
            if len(weak) < len(rows.piece):
                rows, before = rows.at(weak), before.at(weak)
        bad = ~self.knowledge.known(rows.place, before.thread, before.stamp)
        if space == TENSOR:
            # warps access tensor memory as a unit
            bad &= self.knowledge.warp_of(rows.thread) != self.knowledge.warp_of(before.thread)
        if not bad.any():
            return
        if what == "write" and (bad & (before.strength > 0)).any():
            bad &= ~self._observed(shadow, rows, before, bad)
        if not bad.any():
            return
        rows, before = rows.at(np.flatnonzero(bad)), before.at(np.flatnonzero(bad))
        same = np.zeros(len(rows.piece), bool)
        stored = self._stored(rows.thread, rows.code, shadow.grain) if how == what == "write" else None
        if stored is not None:
            same = (stored == self._held(space, shadow, rows.piece)).all(axis=1) & (before.strength == 0)
        self._note(space, shadow, rows, before, how, what, same)

    def _observed(self, shadow: Shadow, rows: _Rows, before: Entries, bad: Array) -> Array:
        """Which strong writes have been observed by a strong read or update that happens before the current access (8.9.5).

        A thread that observes a write comes after it, and so does everything after that thread, even without an acquire: the last block
        that increments a counter may reset it. Every later strong read or update of the same piece is taken to have observed the write.
        """
        found = np.zeros(len(bad), bool)
        asked = np.flatnonzero(bad & (before.strength > 0))
        # sort numbers, not pairs of them: that takes a fraction of the time
        keys, which = np.unique(rows.piece[asked] * self.knowledge.count + rows.place[asked], return_inverse=True)
        pairs = np.stack(np.divmod(keys, self.knowledge.count))
        if pairs.shape[1] > OBSERVERS:
            self.unchecked += int(pairs.shape[1] - OBSERVERS)
        until = np.full(pairs.shape[1], np.iinfo(np.int64).max)
        thread, site = np.full((2, pairs.shape[1]), -1)
        updates = np.array([kind.number for kind in self._kinds.values() if kind.updates], np.int64)
        logged = [shadow.reads.of(distinct_numbers(pairs[0])), shadow.writes.of(distinct_numbers(pairs[0]))]
        for n, (piece, place) in enumerate(pairs[:, :OBSERVERS].T.tolist()):
            until[n] = -1
            for log, reads in zip(logged, (True, False), strict=True):
                if log is None:
                    continue
                here = log.at(np.flatnonzero((log.piece == piece) & (log.strength > 0) & (reads | np.isin(log.site, updates))))
                known = self.knowledge.known(np.full(len(here.piece), place), here.thread, here.stamp)
                here = here.at(np.flatnonzero(known))
                if len(here.piece) and here.stamp.max() >= until[n]:
                    last = np.lexsort((here.thread, here.stamp))[-1]
                    until[n], thread[n], site[n] = here.stamp[last], here.thread[last], here.site[last]
        # among lanes that update with one instruction, each observes those before it
        together = (before.stamp[asked] == until[which]) & (before.site[asked] == site[which])
        found[asked] = (before.stamp[asked] <= until[which]) & ~(together & (before.thread[asked] > thread[which]))
        return found

    def _note(
        self, space: str, shadow: Shadow, rows: _Rows, before: Entries, how: str, what: str, same: Array, collide: bool = False
    ) -> None:
        """Reports races, separately for equal values. They `collide` if lanes make both accesses with one instruction."""
        for equal in (False, True):
            chosen = np.flatnonzero(same == equal)
            # prefer pairs of different warps
            chosen = chosen[np.argsort(self._warp_of(before.thread[chosen]) == self._warp_of(rows.thread[chosen]), kind="stable")]
            _, first, counts = np.unique(before.site[chosen], return_index=True, return_counts=True)
            for i, count in zip(chosen[first].tolist(), counts.tolist(), strict=True):
                self._found(space, shadow, rows, before, i, how, what, count, equal, collide)

    def _stored(self, thread: Array, code: Array, grain: int) -> Array | None:
        """The bytes that threads write to pieces now, one row each; None if unknown."""
        access = self._now
        if access.values is None or access.kind != "write":
            return None
        lanes = access.lanes
        columns = [np.ascontiguousarray(lanes.broadcast(np.asarray(value)[()])).view(np.uint8) for value in access.values]
        stored = np.concatenate([column.reshape(lanes.count, -1) for column in columns], axis=1)
        if stored.shape[1] != access.size:
            return None
        position = np.zeros(self.knowledge.count, np.int64)
        position[lanes.place] = np.arange(lanes.count)
        _, offset = bytes_of(code)
        found: Array = stored[position[thread - self.knowledge.first][:, None], offset[:, None] + np.arange(grain)]
        return found

    def _held(self, space: str, shadow: Shadow, piece: Array) -> Array:
        """The current bytes of pieces, one row each."""
        data = self.buffer(space).data
        held: Array = data[(piece * shadow.grain)[:, None] + np.arange(shadow.grain)]
        return held

    def _morally_strong(self, rows: _Rows, before: Entries) -> Array:
        threads, cluster = self.knowledge.threads, self.knowledge.cluster
        mine, other = rows.thread // threads, before.thread // threads
        scope = np.minimum(before.strength, rows.kind.strength)
        near = (scope >= GPU) | (mine == other) | ((scope >= CLUSTER) & (mine // cluster == other // cluster))
        return (before.strength > 0) & near & (before.code == rows.code)  # type: ignore[no-any-return]

    def add_writes(self, shadow: Shadow, piece: Array, thread: Array, code: Array, kind: Kind) -> None:
        """Records pieces that a completed asynchronous operation has written."""
        self._put(shadow, _Rows(piece, thread - self.knowledge.first, thread, code, kind))

    def add_reads(self, shadow: Shadow, space: str, piece: Array, thread: Array, code: Array, kind: Kind) -> None:
        """Records pieces that a completed asynchronous operation has read."""
        self._read(shadow, space, _Rows(piece, thread - self.knowledge.first, thread, code, kind))

    def _write(self, shadow: Shadow, space: str, rows: _Rows, access: Access) -> None:
        """Records accesses as the last writes of their pieces."""
        lost = self._put(shadow, rows)
        if len(lost):
            self._collide(shadow, space, rows, lost, access)

    def _put(self, shadow: Shadow, rows: _Rows) -> Array:
        kind = rows.kind
        return shadow.note_writes(rows.piece, rows.thread, self.knowledge.stamp, kind.number, kind.strength, rows.code)

    def _collide(self, shadow: Shadow, space: str, rows: _Rows, lost: Array, access: Access) -> None:
        """Reports lanes that write the same bytes with one instruction."""
        before = shadow.last_writes(rows.piece[lost])
        here = rows.at(lost)
        if rows.kind.strength:
            weak = np.flatnonzero(~self._morally_strong(here, before))
            here, before, lost = here.at(weak), before.at(weak), lost[weak]
        if not len(lost):
            return
        how = "write" if access.kind == "write" else "update"
        same = np.zeros(len(lost), bool)
        mine, winners = self._stored(here.thread, here.code, shadow.grain), self._stored(before.thread, before.code, shadow.grain)
        if mine is not None and winners is not None:
            same = (mine == winners).all(axis=1)
        self._note(space, shadow, here, before, how, how, same, collide=True)

    def _read(self, shadow: Shadow, space: str, rows: _Rows) -> None:
        kind, keeps_all = rows.kind, self.fences.by_the_letter
        floor = repeated(-1, len(rows.place)) if keeps_all else self.knowledge.floor_cta[rows.place]
        shadow.note_reads(rows.piece, rows.thread, floor, self.knowledge.stamp, kind.number, kind.strength, rows.code)
        reads = shadow.reads
        if reads.size <= reads.most:
            return
        within = space == ".shared" and self.knowledge.cluster == 1 and not keeps_all
        # only threads of the same CTA access shared memory
        settled = self.knowledge.settled(self.residents.alive) if within else np.full(self.residents.ctas, -1)
        reads.compact(int(settled.min()), lambda entries: self._is_needed(shadow, settled, entries))

    def _is_needed(self, shadow: Shadow, settled: Array, reads: Entries) -> Array:
        """Which reads a later write may race with, or may show that a write was observed."""
        overwritten = (shadow.written[reads.piece] > reads.stamp) & (shadow.write_strength(reads.piece) == 0)
        cta = reads.thread // self.knowledge.threads - self.residents.first_cta
        needed: Array = (reads.strength > 0) | ~(overwritten | (reads.stamp <= settled.take(cta, mode="clip")))
        return needed

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
        elif fenced_proxy(bound):
            self.fences.executed(lanes, bound, arguments)
        elif "init-fence" in bound.effects:
            for place in lanes.place.tolist():
                self.published.setdefault(place, []).extend(self.made.pop(place, ()))
        elif AFTER_SYNCHRONIZATION in bound.effects:
            self.fences.synchronized(lanes)
        elif is_wait(bound):
            self.stores.waited(lanes)
        elif bound.form.mnemonic == "mbarrier":
            self._mbarrier(lanes, bound, arguments, passed=False)
        elif bound.barrier and bound.form.mnemonic in _BARRIERS:
            self._arrive(lanes, bound, arguments)

    def passed(self, lanes: Any, arguments: tuple[Any, ...], token: Any) -> None:
        bound = lanes.site.bound
        if bound.form.mnemonic == "mbarrier":
            self._mbarrier(lanes, bound, arguments, passed=True)
        elif bound.form.mnemonic not in _BARRIERS:
            if self.by_collectives and bound.converges is not None and bound.converges.level == "warp":
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

    def _publish(self, lanes: Lanes) -> None:
        """A relaxed arrival publishes the mbarriers that a fence.mbarrier_init covers (9.7.14.4)."""
        shadow = self.shadows.get(".shared")
        for place in self.published.keys() & set(lanes.place.tolist()):
            made = np.array(self.published.pop(place), np.int64)
            if shadow is not None:
                shadow.strengthen(expanded(made, np.full(len(made), 8), shadow.origin, shadow.grain)[0], GPU)

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
                    self._publish(lanes)
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
        for barrier, which in apart(keys):
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
        for both, which in apart(keys << 32 | phases):
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
        given = dict(zip(self._operands(bound), arguments, strict=False))
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

    @property
    def findings(self) -> list[Finding]:
        """The races, one for each pair of instructions."""
        return [reported(race, self.launch) for race in self.races.values() if self.families & race.families]

    def forget(self, space: str, pieces: Array) -> None:
        """Orders all later accesses to these pieces after all earlier ones."""
        shadow = self.shadows[space]
        shadow.writer[pieces] = shadow.reader[pieces] = shadow.many_writers[pieces] = 0

    def kind_at(self, number: int) -> Kind:
        """The accesses of an instruction, by its number."""
        return self._kinds[id(self._sites[number])]

    def are(self, holds: Callable[[Kind], bool], numbers: Array) -> Array:
        """Evaluates a predicate for instructions given by number, once for each instruction."""
        first, which = distinct(numbers)
        return np.array([holds(self.kind_at(number)) for number in numbers[first].tolist()], bool)[which]

    def conflict(
        self, space: str, start: int, end: int, threads: tuple[int, int], kinds: tuple[Kind, Kind], does: tuple[str, str], count: int,
        rule: str, why: str = "",
    ) -> None:  # fmt: skip
        """Records a race of an operation in flight, or of a completed one, with another access. `threads` may be agents."""
        key = (kinds[0].number, kinds[1].number, rule.startswith("P"))
        known = self.races.get(key)
        if known is not None:
            known.count += count
            return
        variable, offset = self.names.variable(space, start) if space != TENSOR else cell_named(start)
        named = [self.names.thread(self.flying.issuer(thread)) for thread in threads]
        held = self.names.bytes_at(space, start, end) if space != TENSOR and end - start <= SHOWN else None
        # an operation in flight has not written yet, so a read returns the current bytes
        values = [held if done == "read" else None for done in does]
        sides = [Side(*name, kind.line, done, value) for name, kind, done, value in zip(named, kinds, does, values, strict=True)]
        sites = (self._sites[kinds[0].number], self._sites[kinds[1].number])
        race = Race(space, variable, offset, end - start, (sides[0], sides[1]), sites, False, count, rule)
        self.races[key] = attrs.evolve(race, why=why) if why else race
        self.launch.found()

    def unawaited(self, one: Flying, row: int, count: int, rule: str, why: str) -> None:
        """Reports threads that exit while their copies may still read shared memory."""
        footprint = one.footprint
        start, thread = int(footprint.at[row]), int(one.place[row]) + self.knowledge.first
        end = start + int(footprint.size[row])
        why = f"its thread ends without waiting for it{': ' + why if why else ''}; the memory may then belong to another CTA"
        done = ("read", "exit")
        self.conflict(footprint.space, start, end, (thread, thread), (one.kind, one.kind), done, count, rule, why)

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
        strength = _SCOPES.get(scope, GPU) if order in _STRONG else 0
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
        is_asked = self.lines is None or line in self.lines or bool(strength) or is_object or is_end
        return Kind(
            len(self._sites), line, order, strength, is_watched, is_asked, updates, group, proxy, is_collective, is_warps, is_object
        )  # fmt: skip

    def _found(
        self, space: str, shadow: Shadow, rows: _Rows, before: Entries, i: int, how: str, what: str, count: int, same: bool, collide: bool
    ) -> None:
        """Records the race of a pair of accesses; for each pair of instructions, the first is shown."""
        key = (int(before.site[i]), rows.kind.number, False)
        known = self.races.get(key)
        if known is not None:
            across = known.is_of_a_warp(self.launch) and self._warp_of(before.thread[i]) != self._warp_of(rows.thread[i])
            if (same and not known.same_value) or (same == known.same_value and not across):
                known.count += count
                return
            count += known.count
        piece = int(rows.piece[i]) * shadow.grain + shadow.origin
        (size, offset), (earlier_size, earlier_offset) = bytes_of(int(rows.code[i])), bytes_of(int(before.code[i]))
        start = max(piece - offset, piece - earlier_offset)
        end = min(piece - offset + size, piece - earlier_offset + earlier_size)
        earlier_kind = self._kinds[id(self._sites[int(before.site[i])])]
        value: str | None = self.names.bytes_at(space, start, end) if space != TENSOR else None
        earlier_value = None if earlier_kind.strength or earlier_kind.group else value
        if how == "write":
            value = self._written(int(rows.thread[i]), start - (piece - offset), end - start)
        if collide:
            earlier_value = self._written(int(before.thread[i]), start - (piece - earlier_offset), end - start)
        variable, offset = self.names.variable(space, start) if space != TENSOR else cell_named(start)
        first = Side(*self.names.thread(self.flying.issuer(int(before.thread[i]))), earlier_kind.line, what, earlier_value)
        second = Side(*self.names.thread(int(rows.thread[i])), rows.kind.line, how, value)
        if collide:
            first, second = second, first
        sites = (self._sites[earlier_kind.number], self._sites[rows.kind.number])
        rule = after(earlier_kind, what, rows.kind, how)
        self.races[key] = Race(space, variable, offset, end - start, (first, second), sites, same, count, rule)
        self.launch.found()

    def _warp_of(self, thread: Any) -> Any:
        """The warps of threads given by their index in the launch."""
        threads = self.launch.threads
        return thread // threads * -(-threads // 32) + thread % threads // 32

    def _written(self, thread: int, offset: int, size: int) -> str | None:
        """What a thread writes now, from an offset on; None if unknown."""
        found = self._stored(np.array([thread]), np.array([code_of(0, offset)]), size)
        return None if found is None else hex(int.from_bytes(found.tobytes(), "little"))


@attrs.frozen(eq=False)
class _Rows:
    """Current accesses, one row for each piece."""

    piece: Array
    place: Array
    thread: Array
    code: Array
    kind: Kind

    def at(self, rows: Array) -> _Rows:
        return _Rows(chosen(self.piece, rows), self.place[rows], self.thread[rows], chosen(self.code, rows), self.kind)


def apart(keys: Array) -> Iterator[tuple[int, Any]]:
    """The positions of each key, ascending; as a slice if the keys are sorted."""
    starts = np.flatnonzero(keys[1:] != keys[:-1]) + 1
    firsts, ends = [0, *starts.tolist()], [*starts.tolist(), len(keys)]
    if (keys[starts] > keys[starts - 1]).all():
        for first, end in zip(firsts, ends, strict=True):
            yield int(keys[first]), slice(first, end)
        return
    for key in distinct_numbers(keys).tolist():
        yield key, np.flatnonzero(keys == key)


def one_of_each_warp(access: Access) -> Access:
    """The access of the first lane of each warp."""
    first = np.unique(access.lanes.warp, return_index=True)[1]
    values = None if access.values is None else tuple(v[first] if getattr(v, "ndim", 0) else v for v in access.values)
    return attrs.evolve(access, lanes=access.lanes.at(first), at=np.broadcast_to(access.at, access.lanes.count)[first], values=values)


def cell_named(at: int) -> tuple[str, int]:
    """A cell of tensor memory, by lane and column."""
    lane, column = divmod(at // CELL, COLUMNS)
    return f"lane {lane % LANES}, column {column} of tensor memory", 0


def residents_mask(lanes: Any) -> Array:
    """Which lanes of the warps have not exited."""
    return lanes.residents.alive_mask[lanes.warps]  # type: ignore[no-any-return]


__all__ = ["Race", "Races", "Side"]
