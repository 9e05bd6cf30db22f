"""Operations in flight: detects uses of their bytes before their completion is known (ISA 8.9.1.1, 9.7.10.24, 9.7.14.15, 9.7.16).

An asynchronous operation reads and writes from its instruction until a thread knows of its completion: the thread that waits for its group,
threads that observe the phase of its mbarrier, and threads that synchronize with these. Until then, every conflicting access is reported,
under every schedule. Afterwards, its accesses count as those of the thread that waited or, if an mbarrier or a wait of a warpgroup signals
completion, as those of an agent of its own, which threads that observe the signal come after.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from ptxkit.frozen import define
from ptxkit.machine.asynchronous import mbarrier as objects
from ptxkit.machine.asynchronous.agents import coalesced
from ptxkit.machine.interfaces import Races
from ptxkit.machine.matrices.tensor_memory import SPACE as TENSOR
from ptxkit.machine.memory.sparse import zeros
from ptxkit.machine.monitors.clocks import CLUSTER, NOTHING, Clock
from ptxkit.machine.monitors.kinds import Kind
from ptxkit.machine.monitors.pieces import distinct, expanded, matching, overlaps, runs
from ptxkit.machine.monitors.queues import Flying, Queues, after, extent
from ptxkit.machine.monitors.shadow import MANY, Entries, Shadow, code_of, numbers_of, repeated
from ptxkit.machine.values.distinct import are_among, distinct_numbers

if TYPE_CHECKING:
    from ptxkit.machine.asynchronous import Flight

Array = np.ndarray[Any, Any]
WARP, WARPGROUP = 32, 128
BYTES_AN_OPERATION = 2048
"""Tracking this many bytes in flight costs as much as executing an operation."""
WORD = 4


@define(eq=False)
class Done:
    """Reads of completed operations, attributed to an agent at a stamp."""

    agent: int
    stamp: int
    at: Array
    size: Array
    kind: Kind


@define(eq=False)
class _Reads:
    """Such reads as columns, one row for each access; `number` is the index into `of`."""

    of: tuple[Done, ...]
    number: Array
    at: Array
    size: Array
    agent: Array
    stamp: Array


class InFlight:
    """The operations in flight of one launch. Complements the accesses that `races` tracks."""

    def __init__(self, races: Races) -> None:
        self.races = races
        self.agents: dict[Any, int] = {}
        self.issuers: dict[int, int] = {}
        """The threads on whose behalf agents work."""
        self.reset()

    def reset(self) -> None:
        """Called when other CTAs become resident."""
        self.flying: list[Flying] = []
        self.marks: dict[str, Array] = {}
        """For each space and word, the number of rows in flight."""
        self.done: dict[str, dict[Any, Done]] = {}
        self._reads: dict[str, _Reads] = {}
        """The same reads as columns, cached until there are more."""
        self.done_marks: dict[str, Array] = {}
        self.queues = Queues(self.races)
        self.known: dict[tuple[str, int], int] = {}
        """What mbarriers signal of a thread's operations, which a wait in their queue teaches it, too."""
        self.ordered: dict[str, tuple[int, set[tuple[Any, ...]]]] = {}
        """For each space, the operations that were found to be ordered after all earlier accesses, and how many of these there were."""
        self.at_issue: dict[int, dict[int, int]] = {}
        """What threads knew when operations began that signal mbarriers, by the number of the operation."""

    def issuer(self, thread: int) -> int:
        """The thread to report for an access."""
        return self.issuers.get(thread, thread)

    def issuers_of(self, thread: Array) -> Array:
        """The threads to report for accesses."""
        first, which = distinct(thread)
        return np.array([self.issuer(one) for one in thread[first].tolist()], np.int64)[which]

    def _agent(self, key: Any, issuer: int) -> int:
        found = self.agents.get(key)
        if found is None:
            knowledge = self.races.knowledge
            found = self.agents[key] = (knowledge.first_agent + len(self.agents)) * knowledge.threads
            self.issuers[found] = issuer
        return found

    # --- events

    def started(self, flight: Flight) -> None:
        """An operation starts."""
        lanes = flight.lanes
        knowledge = self.races.knowledge
        if flight.signals is not None:
            self.at_issue[flight.number] = {place: knowledge.snapshot(place) for place in lanes.place.tolist()}
            knowledge.tick()
        kind = self.races.kind(lanes.site)
        if flight.footprints is None or not kind.is_asked:
            return
        mine = []
        for footprint in flight.footprints():
            if not len(footprint.at):
                continue
            self.races.accesses[footprint.space] = self.races.accesses.get(footprint.space, 0) + len(footprint.at)
            footprint = coalesced(footprint)
            place = lanes.place[footprint.lane]
            self.races.launch.operations += int(footprint.size.sum()) // BYTES_AN_OPERATION
            waits = self.queues.waits(place)
            one = Flying(flight, kind, footprint, place, np.ones(len(place), bool), waits)
            self._against_threads(one)
            self.check(footprint.space, footprint.at, footprint.size, footprint.kind, kind, place + knowledge.first)
            if footprint.kind == "write" and len(place) > 1:
                self._against_itself(one)
            mine.append(one)
        for one in mine:
            self._mark(one, np.arange(len(one.place)), 1)
        self.flying += mine

    def committed_(self, lanes: Any, queue: str) -> None:
        self.queues.commit(lanes.place, queue)

    def awaited(self, lanes: Any, queue: str, limit: Array, reading: bool) -> None:
        """Threads now know that groups of theirs are complete."""
        knowledge = self.races.knowledge
        self.queues.wait(lanes.place, queue)
        for place in lanes.place.tolist() if self.known else ():
            signalled = self.known.get((queue, place))
            if signalled is not None:
                knowledge.learn(np.array([place]), signalled)
        changed = False
        for one in self.flying:
            if one.flight.queue != queue or (reading and one.footprint.kind != "read"):
                continue
            chosen = np.flatnonzero(one.left & (one.flight.group[one.footprint.lane] < limit[one.place]))
            if not len(chosen):
                continue
            changed = True
            if one.kind.is_collective:
                group = knowledge.first_of(one.place[chosen], WARPGROUP)
                for number in distinct_numbers(group).tolist():
                    rows = chosen[group == number]
                    first = int(one.place[rows[0]]) + knowledge.first
                    agent = self._agent(("warpgroup", first), first)
                    self._settle(one, rows, np.full(len(rows), agent))
                    there = lanes.place[knowledge.first_of(lanes.place, WARPGROUP) == number]
                    knowledge.learn(there, self._clock(agent))
            else:
                self._settle(one, chosen, None)
        if changed:
            self._forget()
            knowledge.tick()

    def landing(self, flight: Flight, positions: Array) -> None:
        """Operations of some lanes are complete, and threads that observe the phases of their mbarriers will know."""
        if flight.signals is None or not len(positions):
            return
        changed = False
        for one in self.flying:
            if one.flight is flight and one.footprint.signal is not None:
                chosen = np.flatnonzero(one.left & are_among(one.footprint.lane, positions))
                changed |= self._signalled(one, chosen, one.footprint.signal[chosen], flight.lanes)
            elif flight.after and one.flight.queue == flight.after and one.flight.number < flight.number:
                places = flight.lanes.place[positions]
                chosen = np.flatnonzero(one.left & are_among(one.place, places))
                if not len(chosen):
                    continue
                where = dict(zip(places.tolist(), positions.tolist(), strict=True))
                row = flight.signals[[where[place] for place in one.place[chosen].tolist()]]
                for column in range(row.shape[1]):
                    there = np.flatnonzero(row[:, column] >= 0)
                    last = column == row.shape[1] - 1
                    changed |= self._signalled(one, chosen[there], row[there, column], flight.lanes, last)
        self._releases(flight, positions)
        if flight.after:
            self._releases_completed(flight, positions)
        if changed:
            self._forget()
            self.races.knowledge.tick()

    def _signalled(self, one: Flying, rows: Array, signals: Array, lanes: Any, settles: bool = True) -> bool:
        """An mbarrier will signal rows."""
        if not len(rows):
            return False
        races = self.races
        first = races.knowledge.first
        places = one.place[rows]
        chosen, which = distinct(signals, places)
        pairs = list(zip(signals[chosen].tolist(), places[chosen].tolist(), strict=True))
        agents = [self._agent((signal, place + first), place + first) for signal, place in pairs]
        if settles:
            self._settle(one, rows, np.array(agents)[which])
        for (signal, place), agent in zip(pairs, agents, strict=True):
            clock = self._clock(agent)
            if one.flight.queue:
                key = one.flight.queue, place
                self.known[key] = races.clocks.join(self.known.get(key, NOTHING), clock)
            self._release(signal, place, clock)
        return True

    def _releases(self, flight: Flight, positions: Array) -> None:
        """A completion comes after everything that its threads did before they started the operation (8.9.1.1)."""
        assert flight.signals is not None
        known = self.at_issue.get(flight.number, {})
        for position in positions.tolist():
            place = int(flight.lanes.place[position])
            clock = known.pop(place, NOTHING)
            for signal in flight.signals[position].tolist():
                if signal >= 0 and clock != NOTHING:
                    self._release(signal, place, clock)
        if not known:
            self.at_issue.pop(flight.number, None)

    def _releases_completed(self, flight: Flight, positions: Array) -> None:
        """A commit covers everything that its threads have started before, including what an earlier commit has signalled (9.7.16.12)."""
        assert flight.signals is not None
        for position in positions.tolist():
            place = int(flight.lanes.place[position])
            clock = self.known.get((flight.after, place), NOTHING)
            for signal in flight.signals[position].tolist():
                if signal >= 0 and clock != NOTHING:
                    self._release(signal, place, clock)

    def _release(self, signal: int, place: int, clock: int) -> None:
        """The current phase of an mbarrier will release a clock."""
        races = self.races
        knowledge = races.knowledge
        word = races.launch.machine.memory.shared.view(np.dtype(np.uint64))[signal >> 3]
        cta = (place + knowledge.first) // knowledge.threads
        if not races.by_the_letter:
            # a wait at an mbarrier observes what completed there, even if another CTA started it; the manual gives no scope for that
            cta = knowledge.first // knowledge.threads + races.launch.machine.memory.owner(".shared", signal)[0]
        released = races.phase(signal, int(objects.parity(word)))
        released.add(races.clocks, CLUSTER, cta // knowledge.cluster, cta, clock)

    def _clock(self, agent: int) -> int:
        clock: int = self.races.clocks.add(Clock({agent: self.races.knowledge.stamp}))
        return clock

    def exited(self, lanes: Any) -> None:
        """Threads exit while their bulk copies may still read shared memory."""
        for one in self.flying:
            if one.flight.queue != "bulk" or one.footprint.kind != "read" or one.footprint.space != ".shared":
                continue
            rows = np.flatnonzero(one.left & are_among(one.place, lanes.place))
            if len(rows):
                rule, why = self.queues.lacking(one, int(rows[0]))
                self.races.unawaited(one, int(rows[0]), len(rows), rule or "A014", why)

    # --- from in flight to completed

    def _settle(self, one: Flying, rows: Array, agents: Array | None) -> None:
        """Records rows as accessed now, by an agent each (None: by their threads)."""
        one.left[rows] = False
        self._mark(one, rows, -1)
        footprint, races = one.footprint, self.races
        knowledge = races.knowledge
        at, size = footprint.at[rows], footprint.size[rows]
        thread = one.place[rows] + knowledge.first if agents is None else agents
        if footprint.kind == "read" and agents is not None:
            done = self.done.setdefault(footprint.space, {})
            for agent in distinct_numbers(agents).tolist():
                mine = np.flatnonzero(agents == agent)
                key = agent, one.kind.number, at[mine].tobytes()
                done[key] = Done(agent, knowledge.stamp, at[mine], size[mine], one.kind)
            self._reads.pop(footprint.space, None)
            self._add(self.done_marks, footprint.space, at, size, 1)
            return
        shadow = races.comparison.shadow(footprint.space, at, size)
        piece, row = expanded(at, size, shadow.origin, shadow.grain)
        code = code_of(size[row], (piece * shadow.grain + shadow.origin) - at[row])
        shadow.use(piece)
        if footprint.kind == "read":
            races.comparison.add_reads(shadow, footprint.space, piece, thread[row], code, one.kind)
        else:
            races.comparison.add_writes(shadow, piece, thread[row], code, one.kind)

    def _forget(self) -> None:
        self.flying = [one for one in self.flying if one.left.any()]

    def _mark(self, one: Flying, rows: Array, by: int) -> None:
        self._add(self.marks, one.footprint.space, one.footprint.at[rows], one.footprint.size[rows], by)

    def _add(self, marks: dict[str, Array], space: str, at: Array, size: Array, by: int) -> None:
        buffer = self.races.comparison.buffer(space)
        column = marks.get(space)
        words = len(buffer.data) // WORD + 1
        if column is None or len(column) < words:
            longer = zeros(words, np.int32)
            if column is not None:
                longer[: len(column)] = column
            column = marks[space] = longer
        words_of, _ = expanded(at, size, buffer.origin, WORD)
        np.add.at(column, words_of, np.int32(by))

    # --- conflicts

    def check(self, space: str, at: Array, size: Array, how: str, kind: Kind, thread: Array) -> None:
        """Checks accesses of threads against operations in flight, and writes also against reads of completed operations."""
        near = self._near(space, at, size, how, kind) if self.flying else []
        completed = self.done_marks.get(space) if how != "read" else None
        if not near and completed is None:
            return
        words, _ = expanded(at, size, self.races.comparison.buffer(space).origin, WORD)
        for one in near if near and _is_marked(self.marks[space], words) else ():
            left = np.flatnonzero(one.left)
            if space == TENSOR and kind.group == one.kind.group:
                # MMAs and copies of one thread are ordered (9.1: 9.7.16.11)
                left = left[~are_among(one.place[left] + self.races.knowledge.first, thread)]
            if not len(left):
                continue
            now, row = overlaps(at, size, one.footprint.at[left], one.footprint.size[left])
            if len(now):
                self._report(one, left[row], now, at, size, how, kind, thread)
        if completed is not None and _is_marked(completed, words):
            self._against_done(space, at, size, how, kind, thread)

    def _near(self, space: str, at: Array, size: Array, how: str, kind: Kind) -> list[Flying]:
        """The operations in flight that may conflict with an access, as it lies between the first and the last of their bytes."""
        others = [one for one in self.flying if one.footprint.space == space and not (how == "read" == one.footprint.kind)]
        if not others:
            return []
        start, end = extent(at, size)
        return [one for one in others if start < one.end and one.start < end and not self._commute(one.kind, kind, how)]

    def _commute(self, one: Kind, other: Kind, how: str) -> bool:
        """Whether both are strong read-modify-writes."""
        return how == "update" and one.strength > 0 and other.strength > 0

    def _against_done(self, space: str, at: Array, size: Array, how: str, kind: Kind, thread: Array) -> None:
        races = self.races
        reads = self._reads_of(space)
        now, row = overlaps(at, size, reads.at, reads.size)
        place = thread[now] - races.knowledge.first
        ordered = self.happens_before(kind, place, reads.agent[row], reads.stamp[row])
        if space == TENSOR:
            # MMAs and copies of one thread are ordered (9.1: 9.7.16.11)
            piped = np.array([one.kind.group == kind.group for one in reads.of], bool)[reads.number[row]]
            ordered |= piped & (self.issuers_of(reads.agent[row]) == thread[now])
        bad = np.flatnonzero(~ordered)
        number = reads.number[row[bad]]
        for each in distinct_numbers(number).tolist():
            mine = bad[number == each]
            i, other, one = int(now[mine[0]]), int(row[mine[0]]), reads.of[each]
            start = max(int(at[i]), int(reads.at[other]))
            end = min(int(at[i] + size[i]), int(reads.at[other] + reads.size[other]))
            rule = after(one.kind, "read", kind, how)
            races.conflict(space, start, end, (one.agent, int(thread[i])), (one.kind, kind), ("read", how), len(mine), rule)

    def _reads_of(self, space: str) -> _Reads:
        """The reads of completed operations."""
        found = self._reads.get(space)
        if found is None:
            of = tuple(self.done[space].values())
            number = np.repeat(np.arange(len(of)), [len(one.at) for one in of])
            at, size = [np.concatenate([getattr(one, name) for one in of]) for name in ("at", "size")]
            agent, stamp = [np.array([getattr(one, name) for one in of], np.int64)[number] for name in ("agent", "stamp")]
            found = self._reads[space] = _Reads(of, number, at, size, agent, stamp)
        return found

    def happens_before(self, kind: Kind, place: Array, thread: Array, stamp: Array) -> Array:
        """Whether accesses happen before what threads do now. For an operation of a warpgroup, it suffices that they happen before one
        of its threads."""
        knowledge = self.races.knowledge
        known: Array = knowledge.known(place, thread, stamp)
        if not kind.is_collective or known.all():
            return known
        group = knowledge.first_of(place, WARPGROUP)
        for number in distinct_numbers(group).tolist():
            rows = np.flatnonzero((group == number) & ~known)
            members = knowledge.members(number, WARPGROUP)
            known[rows] = knowledge.first_of(thread[rows] - knowledge.first, WARPGROUP) == number
            first, _ = distinct(knowledge.extra[members], knowledge.floor_cta[members] + 1, knowledge.floor_warp[members] + 1)
            for one in members[first].tolist():
                rows = rows[~known[rows]]
                if len(rows):
                    known[rows] = knowledge.known(np.full(len(rows), one), thread[rows], stamp[rows])
        return known

    def _known_by_readers(self, one: Flying, place: Array, before: Entries) -> Array:
        """Which accesses happen before an operation of a warpgroup for every warp that reads. Each warp starts when its own threads have
        arrived (9.7.16.5: `.sync` waits for the threads of the warp)."""
        knowledge = self.races.knowledge
        found = np.ones(len(place), bool)
        size = WARPGROUP if one.footprint.by_all else WARP
        group = knowledge.first_of(place, size)
        for number in distinct_numbers(group).tolist():
            for warp in knowledge.members(number, size)[::WARP].tolist():
                rows = np.flatnonzero((group == number) & found)
                known = knowledge.first_of(before.thread[rows] - knowledge.first, WARP) == warp
                members = knowledge.members(warp, WARP)
                first, _ = distinct(knowledge.extra[members], knowledge.floor_cta[members] + 1, knowledge.floor_warp[members] + 1)
                for thread in members[first].tolist():
                    left = np.flatnonzero(~known)
                    if len(left):
                        known[left] = knowledge.known(np.full(len(left), thread), before.thread[rows[left]], before.stamp[rows[left]])
                found[rows[~known]] = False
        return found

    def _against_threads(self, one: Flying) -> None:
        """Checks an operation that starts against earlier accesses, unless one like it was found to be ordered after all of them: order
        is never lost."""
        races, footprint, kind = self.races, one.footprint, one.kind
        shadow = races.comparison.shadow(footprint.space, footprint.at, footprint.size)
        columns = [column.tobytes() for column in (footprint.at, footprint.size, one.place)]
        like = (footprint.kind, footprint.by_all, kind.group, kind.proxy, kind.strength, kind.is_collective, *columns)
        accesses, ordered = self.ordered.get(footprint.space, (-1, set()))
        if accesses != shadow.accesses:
            ordered = set()
            self.ordered[footprint.space] = shadow.accesses, ordered
        if like in ordered:
            return
        conflicts = races.conflicts
        self._compare(one, shadow)
        if races.conflicts == conflicts:
            ordered.add(like)

    def _compare(self, one: Flying, shadow: Shadow) -> None:
        """Reports the earlier accesses that conflict with an operation that starts and are not ordered before it."""
        races, footprint = self.races, one.footprint
        piece, row = expanded(footprint.at, footprint.size, shadow.origin, shadow.grain)
        shadow.use(piece)
        for what, now, times, before in self._before(shadow, piece, one, row):
            place = one.place[row[now]]
            # among many pieces, there are few distinct threads and stamps
            first, which = distinct(place, before.thread, before.stamp)
            asked = before.at(first)
            is_before = self.happens_before(one.kind, place[first], asked.thread, asked.stamp)
            known = is_before[which]
            ordered = (is_before & self._known_by_readers(one, place[first], asked))[which] if one.kind.is_collective else known
            rows = np.flatnonzero(~ordered)
            if footprint.kind == "update" and one.kind.strength:
                rows = rows[before.strength[rows] == 0]
            if footprint.space == TENSOR:
                races.waits.check(place, before, one.kind, footprint.kind, times, what)
                mine = self.issuers_of(before.thread) == place + races.knowledge.first
                piped = mine & races.are(lambda kind: kind.group == one.kind.group, before.site)
                rows = rows[~piped[rows]]
            self._notes(one, shadow, row[now], before, np.repeat(rows, times[rows]), what)
            if races.fences.concerns(one.kind, footprint.space):
                races.fences.check(one, shadow, row[now], place, before, np.flatnonzero(known), times, what)

    def _before(self, shadow: Shadow, piece: Array, one: Flying, row: Array) -> Iterator[tuple[str, Array, Array, Entries]]:
        """The earlier accesses that conflict: writes, and reads if the operation writes. Of consecutive pieces that were accessed alike,
        the first one stands for all; the third column says how many they are."""
        place, writer = one.place[row], shadow.writer[piece]
        if writer.any():
            now, times = runs(place, writer, shadow.written[piece], numbers_of(shadow.write_how[piece]))
            there = np.flatnonzero(writer[now])
            yield "write", now[there], times[there], shadow.last_writes(piece[now[there]])
        if shadow.writes.size and shadow.many_writers[piece].any():
            yield from self._logged("write", shadow.writes.of(piece), piece)
        reader = shadow.reader[piece] if one.footprint.kind != "read" else writer[:0]
        if not reader.any():
            return
        now, times = runs(place, reader, shadow.read[piece], numbers_of(shadow.read_how[piece]), shadow.read_cta[piece])
        is_open = reader[now] != 0
        if one.footprint.space != TENSOR and not self.races.fences.by_the_letter:
            by = place[now]
            cta = (by + self.races.knowledge.first) // self.races.knowledge.threads
            is_open &= (shadow.read_by(piece[now]) != cta) | (shadow.read[piece[now]] > self.races.knowledge.floor_cta[by])
        is_many = reader[now] == MANY
        there = np.flatnonzero(is_open & ~is_many)
        if len(there):
            yield "read", now[there], times[there], shadow.only_reads(piece[now[there]])
        there = np.flatnonzero(np.repeat(is_open & is_many, times))
        if len(there):
            asked = piece[there]
            for what, found, each, before in self._logged("read", shadow.reads.of(asked), asked):
                yield what, there[found], each, before

    def _logged(self, what: str, found: Entries | None, piece: Array) -> Iterator[tuple[str, Array, Array, Entries]]:
        if found is None or not len(found.piece):
            return
        order, low, high = matching(piece, found.piece)
        which = np.repeat(np.arange(len(low)), high - low)
        now = order[low[which] + np.arange(len(which)) - np.repeat(np.cumsum(high - low) - (high - low), high - low)]
        if len(now):
            yield what, now, repeated(1, len(now)), found.at(which)

    def _notes(self, one: Flying, shadow: Shadow, row: Array, before: Entries, rows: Array, what: str) -> None:
        """Reports races of an operation that starts: for each instruction the first one, preferably between different warps."""
        if not len(rows):
            return
        warp = self.races.knowledge.warp_of
        within = warp(self.issuers_of(before.thread[rows])) == warp(one.place[row[rows]] + self.races.knowledge.first)
        rows = rows[np.argsort(within, kind="stable")]
        _, first, counts = np.unique(before.site[rows], return_index=True, return_counts=True)
        for i, count in zip(rows[first].tolist(), counts.tolist(), strict=True):
            start = int(before.piece[i]) * shadow.grain + shadow.origin
            earlier = self.races.kind_at(int(before.site[i]))
            threads = int(before.thread[i]), int(one.place[row[i]]) + self.races.knowledge.first
            rule = after(earlier, what, one.kind, one.footprint.kind)
            end = start + shadow.grain
            self.races.conflict(one.footprint.space, start, end, threads, (earlier, one.kind), (what, one.footprint.kind), count, rule)

    def _against_itself(self, one: Flying) -> None:
        """Reports lanes that write the same bytes with one asynchronous instruction."""
        at, size = one.footprint.at, one.footprint.size
        order = np.argsort(at, kind="stable")
        bad = np.flatnonzero(at[order][1:] < (at + size)[order][:-1])
        if len(bad):
            a, b = int(order[bad[0]]), int(order[bad[0] + 1])
            first = self.races.knowledge.first
            threads = int(one.place[a]) + first, int(one.place[b]) + first
            end = min(int(at[a] + size[a]), int(at[b] + size[b]))
            self.races.conflict(one.footprint.space, int(at[b]), end, threads, (one.kind, one.kind), ("write", "write"), len(bad), "")

    def _report(self, one: Flying, rows: Array, now: Array, at: Array, size: Array, how: str, kind: Kind, thread: Array) -> None:
        """Reports an access to bytes of an operation in flight."""
        i, row = int(now[0]), int(rows[0])
        start = max(int(at[i]), int(one.footprint.at[row]))
        end = min(int(at[i] + size[i]), int(one.footprint.at[row] + one.footprint.size[row]))
        threads = int(one.place[row]) + self.races.knowledge.first, int(thread[i])
        rule, why = self.queues.early(one, row, how, kind, threads[1] - self.races.knowledge.first)
        self.races.conflict(one.footprint.space, start, end, threads, (one.kind, kind), (one.footprint.kind, how), len(now), rule, why)


def _is_marked(column: Array, words: Array) -> bool:
    """Whether any of these words is marked. Words beyond the column are not, nor is its last one, which follows the memory."""
    return bool(column.take(words, mode="clip").any())


__all__ = ["InFlight"]
