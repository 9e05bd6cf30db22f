"""What each resident thread knows to have happened before, as synchronization propagates it (ISA 8.7 to 8.9).

Two columns hold most of it: up to which stamp the accesses of the thread's CTA and of its warp happen before (`floor_cta`, `floor_warp`).
The rest, from releases, partial barriers and clusters, is in a clock, by number (`extra`).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ptxkit.machine.monitors.clocks import DEEP, NOTHING, Clock, Clocks, Releases
from ptxkit.machine.values.distinct import distinct_numbers

Array = np.ndarray[Any, Any]
WARP = 32

MANY = 8
"""From this many queries on, they are grouped by clock; fewer are answered one by one."""
MOST_THREADS = 1 << 13
"""In launches with more threads, queries are answered one by one."""
MOST_REACHED = 1 << 22
"""Maximum number of cached stamps, one for each thread and clock."""


class Knowledge:
    """The knowledge of resident threads, indexed by `lanes.place`."""

    def __init__(self, clocks: Clocks, threads_per_cta: int, cluster: int, ctas: int) -> None:
        self.clocks = clocks
        self.first_agent = ctas + 1
        """Agents, which stand for asynchronous operations, are numbered from here on, as if each were the first thread of a CTA after
        the grid."""
        self.threads = threads_per_cta
        self.cluster = cluster
        self.warps_per_cta = -(-threads_per_cta // WARP)
        self.stamp = 1
        self._reached: dict[int, Array] = {}
        """For each clock, what it knows of each thread. Valid forever, since clocks are immutable."""
        self._limit = self._stamps = 0
        """The number of threads that the cache covers, and the number of cached stamps."""
        self.reset(0, 0)

    def reset(self, first_cta: int, count: int) -> None:
        """Starts with new threads, which know nothing."""
        self.first = first_cta * self.threads
        self.floor_cta = self.floor_warp = np.empty(0, np.int64)
        self.extra = np.empty(0, np.int64)
        self.fences = np.empty((4, 4, 0), np.int64)
        """By scope: stamp (-1: none), floors and extra at the latest release fence."""
        self.widths: set[int] = set()
        """The scopes of all release fences so far."""
        self.pending: dict[int, Releases] = {}
        """What relaxed reads have observed, and a later fence acquires."""
        self.grow(count)

    @property
    def count(self) -> int:
        """Number of resident threads."""
        return len(self.extra)

    def grow(self, count: int) -> None:
        more = count - len(self.extra)
        self.floor_cta = np.concatenate([self.floor_cta, np.full(more, -1)])
        self.floor_warp = np.concatenate([self.floor_warp, np.full(more, -1)])
        self.extra = np.concatenate([self.extra, np.full(more, NOTHING)])
        self.fences = np.concatenate([self.fences, np.full((4, 4, more), -1)], axis=2)

    def tick(self) -> int:
        """The stamp of everything up to now; what follows has a later one."""
        self.stamp += 1
        return self.stamp - 1

    # --- where threads of the launch are

    def warp_of(self, thread: Any) -> Any:
        return thread // self.threads * self.warps_per_cta + thread % self.threads // WARP

    def first_of(self, place: Any, size: int) -> Any:
        """The first thread of the warp or warpgroup of each thread. The last one of a CTA may be smaller than `size`."""
        return place - place % self.threads % size

    def members(self, first: int, size: int) -> Array:
        """The threads of a warp or warpgroup, given by its first."""
        return np.arange(first, min(first + size, first - first % self.threads + self.threads))

    # --- what is known

    def known(self, place: Array, thread: Array, stamp: Array) -> Array:
        """Whether accesses of other threads of the launch, each with its stamp, happen before what the threads at `place` do now."""
        mine = place + self.first
        known: Array = mine == thread
        settled = stamp <= self.floor_cta[place]
        # divisions take longest, and a kernel whose warps have roles settles nothing for its whole CTA
        if settled.any():
            known |= settled & (mine // self.threads == thread // self.threads)
        if known.all():
            return known
        rest = np.flatnonzero(~known)
        place, thread, stamp, mine = place[rest], thread[rest], stamp[rest], mine[rest]
        found = stamp <= self.floor_warp[place]
        if found.any():
            found &= self.warp_of(mine) == self.warp_of(thread)
        asked = np.flatnonzero(~found & (self.extra[place] != NOTHING))
        if len(asked):
            found[asked] = self.know_of(self.extra[place[asked]], thread[asked], stamp[asked])
        known[rest] = found
        return known

    def know_of(self, extra: Array, thread: Array, stamp: Array) -> Array:
        """Whether clocks know of accesses of threads or agents, each with its stamp."""
        limit = self.first + self.count
        if limit > MOST_THREADS:
            return self._know_each(extra, thread, stamp)
        column = np.where(thread < limit, thread, limit + thread // self.threads - self.first_agent)
        if len(extra) < MANY:
            found = []
            for clock, at, when in zip(extra.tolist(), column.tolist(), stamp.tolist(), strict=True):
                reach = self._reach(clock, limit)
                found.append(at < len(reach) and bool(when <= reach[at]))
            return np.array(found, bool)
        known = np.zeros(len(extra), bool)
        for clock in distinct_numbers(extra).tolist():
            reach = self._reach(clock, limit)
            rows = np.flatnonzero((extra == clock) & (column < len(reach)))
            known[rows] = stamp[rows] <= reach[column[rows]]
        return known

    def _know_each(self, extra: Array, thread: Array, stamp: Array) -> Array:
        known: dict[tuple[int, int, int], bool] = {}
        found = []
        for question in zip(extra.tolist(), thread.tolist(), stamp.tolist(), strict=True):
            answer = known.get(question)
            if answer is None:
                clock, other, when = question
                answer = known[question] = self.clocks.knows(clock, when, other, int(self.warp_of(other)), other // self.threads)
            found.append(answer)
        return np.array(found, bool)

    def _reach(self, number: int, limit: int) -> Array:
        """The stamp up to which a clock knows what each thread of the launch, and each agent so far, has done; -1: nothing.

        Some of the clocks below it are cached too, since later queries are usually for nearby clocks.
        """
        if limit != self._limit or self._stamps > MOST_REACHED:
            self._reached, self._limit, self._stamps = {}, limit, 0
        found = self._reached.get(number)
        if found is not None:
            return found
        unknown = self._unknown(number)
        for n, each in enumerate(sorted(unknown), 1):
            if each == number or n % DEEP == 0:
                found = self._reached[each] = self._made(unknown if len(unknown) < DEEP else self._unknown(each), limit)
                self._stamps += len(found)
        assert found is not None
        return found

    def _unknown(self, number: int) -> set[int]:
        """A clock and those below it, stopping at clocks whose reach is cached."""
        clocks, reached = self.clocks.all, self._reached
        left, seen = [number], {number}
        while left:
            for below in clocks[left.pop()].below:
                if below not in seen and below not in reached:
                    seen.add(below)
                    left.append(below)
        return seen

    def _made(self, unknown: set[int], limit: int) -> Array:
        """Computes the reach of a clock from its entries and those of clocks below it, which are `unknown`, and from cached reaches."""
        found = np.full(limit, -1, np.int64)
        agents: dict[int, int] = {}
        clocks, reached = self.clocks.all, self._reached
        for each in unknown:
            clock = clocks[each]
            if clock.threads or clock.warps or clock.ctas:
                self._raise(found, agents, clock)
            for below in clock.below:
                known = reached.get(below)
                if known is not None:
                    if len(known) > len(found):
                        found, known = known.copy(), found
                    part = found[: len(known)]
                    np.maximum(part, known, out=part)
        if agents:
            more = limit + max(agents) + 1 - len(found)
            if more > 0:
                found = np.concatenate([found, np.full(more, -1)])
            for agent, stamp in agents.items():
                found[limit + agent] = max(found[limit + agent], stamp)
        return found

    def _raise(self, found: Array, agents: dict[int, int], clock: Clock) -> None:
        """Raises the stamps of threads and agents to a clock's own entries."""
        for thread, stamp in clock.threads.items():
            if thread >= self.first_agent * self.threads:
                agent = thread // self.threads - self.first_agent
                agents[agent] = max(agents.get(agent, -1), stamp)
            elif found[thread] < stamp:
                found[thread] = stamp
        for warp, stamp in clock.warps.items():
            first = warp // self.warps_per_cta * self.threads
            start = first + warp % self.warps_per_cta * WARP
            part = found[start : min(start + WARP, first + self.threads)]
            np.maximum(part, stamp, out=part)
        for cta, stamp in clock.ctas.items():
            part = found[cta * self.threads : (cta + 1) * self.threads]
            np.maximum(part, stamp, out=part)

    def snapshot(self, place: int) -> int:
        """Everything that a thread knows, including its own accesses, as a clock."""
        return self._clock(place, self.stamp, int(self.floor_cta[place]), int(self.floor_warp[place]), int(self.extra[place]))

    def at_fence(self, place: int, scope: int) -> int:
        """What a thread knew at its latest release fence of a scope; NOTHING if it has executed none."""
        stamp, floor_cta, floor_warp, extra = self.fences[scope, :, place].tolist()
        return NOTHING if stamp < 0 else self._clock(place, stamp, floor_cta, floor_warp, extra)

    def _clock(self, place: int, stamp: int, floor_cta: int, floor_warp: int, extra: int) -> int:
        thread = place + self.first
        warps = {int(self.warp_of(thread)): floor_warp} if floor_warp >= 0 else {}
        ctas = {thread // self.threads: floor_cta} if floor_cta >= 0 else {}
        return self.clocks.add(Clock({thread: stamp}, warps, ctas, (extra,) if extra != NOTHING else ()))

    def together(self, places: Array) -> int:
        """Everything that some threads know, including their own accesses; whole warps are stored as such."""
        thread = places + self.first
        warp = self.warp_of(thread)
        cta = thread // self.threads
        numbers, starts, counts = np.unique(warp, return_index=True, return_counts=True)
        whole = counts == np.minimum(WARP, self.threads - numbers % self.warps_per_cta * WARP)
        warps = dict.fromkeys(numbers[whole].tolist(), self.stamp)
        threads = dict.fromkeys(thread[~whole[np.searchsorted(numbers, warp)]].tolist(), self.stamp)
        for number, floor in zip(numbers.tolist(), np.maximum.reduceat(self.floor_warp[places], starts).tolist(), strict=True):
            if floor >= 0 and warps.get(number, -1) < floor:
                warps[number] = floor
        numbers, starts = np.unique(cta, return_index=True)
        floors = np.maximum.reduceat(self.floor_cta[places], starts)
        ctas = {number: floor for number, floor in zip(numbers.tolist(), floors.tolist(), strict=True) if floor >= 0}
        return self.clocks.join_all([self.clocks.add(Clock(threads, warps, ctas)), *distinct_numbers(self.extra[places]).tolist()])

    # --- what is learned

    def learn(self, places: Array, clock: int) -> None:
        """These threads learn what a clock knows."""
        if clock == NOTHING:
            return
        old = self.extra[places]
        for number in distinct_numbers(old).tolist():
            self.extra[places[old == number]] = self.clocks.join(number, clock)

    def share(self, places: Array, clock: int) -> None:
        """These threads learn what a clock knows, which includes everything that each of them knew."""
        if clock != NOTHING:
            self.extra[places] = clock

    def settled(self, alive: Array) -> Array:
        """For each CTA, the stamp up to which the accesses of its threads happen before everything that its threads do from now on."""
        floor = np.where(alive, self.floor_cta, np.iinfo(np.int64).max)
        found: Array = floor.reshape(-1, self.threads).min(axis=1)
        return found

    def fence(self, places: Array, scope: int) -> None:
        """Records a release fence."""
        self.widths.add(scope)
        self.fences[scope, 0, places] = self.stamp
        self.fences[scope, 1, places] = self.floor_cta[places]
        self.fences[scope, 2, places] = self.floor_warp[places]
        self.fences[scope, 3, places] = self.extra[places]

    def released(self, place: int, scope: int, is_release: bool) -> Releases | None:
        """What a strong write of a thread releases, by itself and by earlier fences; None if nothing."""
        found = Releases()
        thread = place + self.first
        cta = thread // self.threads
        if is_release:
            found.add(self.clocks, scope, cta // self.cluster, cta, self.snapshot(place))
        for width in self.widths:
            clock = self.at_fence(place, width)
            if clock != NOTHING:
                found.add(self.clocks, width, cta // self.cluster, cta, clock)
        return found or None

    def acquire(self, place: int, scope: int, released: Releases) -> None:
        cta = (place + self.first) // self.threads
        clock = released.acquired(self.clocks, scope, cta // self.cluster, cta)
        self.extra[place] = self.clocks.join(int(self.extra[place]), clock)

    def observe(self, place: int, released: Releases) -> None:
        """A relaxed read has observed this; a later fence may acquire it."""
        mine = self.pending.get(place)
        if mine is None:
            mine = self.pending[place] = Releases()
        mine.merge(self.clocks, released)
