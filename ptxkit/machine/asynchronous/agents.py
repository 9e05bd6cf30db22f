"""Operations in flight, and when they complete.

A `Flight` is an asynchronous instruction of some lanes. Its effect happens when it completes: `late` (the default) as late as the waits of
the program allow, `early` at once, or at a random moment if a seed is given. Sources are read no earlier than the instruction executes, and
destinations are written before a wait for the operation returns.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from ptxkit.frozen import frozen
from ptxkit.machine.interfaces import Monitor
from ptxkit.machine.memory import Memory
from ptxkit.machine.values.distinct import distinct_numbers

Array = np.ndarray[Any, Any]


@frozen(eq=False)
class Footprint:
    """The bytes that an asynchronous operation accesses: position of the lane, position in the buffer of a space, and size; one row each.

    `signal` is the mbarrier whose phase signals that they have been accessed, as an address in the buffer of shared memory (-1: none).
    `by_all`: all warps of the warpgroup access the bytes, not only that of the lane.
    """

    kind: str
    space: str
    lane: Array
    at: Array
    size: Array
    signal: Array | None = None
    by_all: bool = False


def coalesced(one: Footprint) -> Footprint:
    """The same bytes in as few rows as possible: bytes of one lane that follow one another are one access."""
    if len(one.at) < 2:
        return one
    rows = _in_order(one)
    at, size, lane, signal = rows.at, rows.size, rows.lane, rows.signal
    begins = np.ones(len(at), bool)
    begins[1:] = (at[1:] != at[:-1] + size[:-1]) | (lane[1:] != lane[:-1])
    if signal is not None:
        begins[1:] |= signal[1:] != signal[:-1]
    first = np.flatnonzero(begins)
    if len(first) == len(at):
        return one
    signal = None if signal is None else signal[first]
    return Footprint(one.kind, one.space, lane[first], at[first], np.add.reduceat(size, first), signal, one.by_all)


def _in_order(one: Footprint) -> Footprint:
    """The same rows, sorted by lane and address."""
    at, lane = one.at, one.lane
    if ((lane[1:] > lane[:-1]) | ((lane[1:] == lane[:-1]) & (at[1:] >= at[:-1]))).all():
        return one
    order = np.lexsort((at, lane))
    signal = None if one.signal is None else one.signal[order]
    return Footprint(one.kind, one.space, lane[order], at[order], one.size[order], signal, one.by_all)


def footprint(
    lanes: Any, kind: str, buffer: Any, at: Array, size: Any, lane: Array | None = None, signal: Array | None = None
) -> Footprint:
    """The bytes of each lane, or of those at some positions. Rows with a negative address are left out."""
    lane = np.arange(lanes.count) if lane is None else lane
    size = np.broadcast_to(np.asarray(size, np.int64), at.shape)
    space = lanes.memory.space_of(buffer)
    if (at >= 0).all() and (size > 0).all():
        return Footprint(kind, space, lane, at, size, signal)
    there = np.flatnonzero((at >= 0) & (size > 0))
    return Footprint(kind, space, lane[there], at[there], size[there], None if signal is None else signal[there])


class Flight:
    """An asynchronous operation of some lanes. `land(positions)` performs it for some of them; `read(positions)` only fetches its sources.

    `signals` are the mbarriers that its completion changes: for each lane, a row of addresses in the buffer of shared memory (-1: none).
    `footprints()` gives the bytes that it accesses, for monitors; it is called when the operation starts. `after` names the queue whose
    earlier operations it signals.
    """

    def __init__(
        self,
        lanes: Any,
        land: Callable[[Array], None],
        signals: Array | None = None,
        read: Callable[[Array], None] | None = None,
        footprints: Callable[[], list[Footprint]] | None = None,
        after: str = "",
    ) -> None:
        self.lanes = lanes
        self.land = land
        self.read = read
        self.signals = signals
        self.signalled = frozenset(signals.ravel().tolist()) if signals is not None else frozenset()
        """The mbarriers among `signals`, and -1 if there is none for some lane."""
        self.footprints = cache(footprints) if footprints is not None else None
        self.after = after
        self.queue = ""
        self.monitors: Sequence[Monitor] = ()
        self.number = 0
        self.group = np.zeros(0, np.int64)
        self.flying = np.ones(lanes.count, bool)

    def complete(self, chosen: Any = True) -> bool:
        """Completes the operation for the lanes of a mask that are still in flight. Returns whether there were any."""
        positions = np.flatnonzero(self.flying & chosen)
        if not len(positions):
            return False
        self.flying[positions] = False
        for monitor in self.monitors:
            monitor.landing(self, positions)
        try:
            self.land(positions)
        except Exception as why:
            if getattr(why, "lanes", None) is None:
                why.lanes = self.lanes.at(positions)  # type: ignore[attr-defined]
            raise
        return True

    def fetch(self, chosen: Array) -> None:
        """Reads the sources for the lanes of a mask that are still in flight."""
        positions = np.flatnonzero(self.flying & chosen)
        if self.read is not None and len(positions):
            self.read(positions)


class Agents:
    """The asynchronous operations of the resident CTAs.

    `step` is called when no lane can continue, and occasionally while lanes spin; `finish` after the last CTA has exited.
    """

    def __init__(self, memory: Memory, when: str | int = "late") -> None:
        self.memory = memory
        self.monitors: Sequence[Monitor] = ()
        self.when = when
        self.chance = random.Random(when) if isinstance(when, int) else None
        self.flights: list[Flight] = []
        self.wanted: set[int] = set()
        """The mbarriers that lanes wait for, as addresses in the buffer of shared memory."""
        self._commits: dict[str, Array] = {}
        self._queues: dict[str, list[Flight]] = {}
        self._number = 0

    def start(self, flight: Flight, queue: str = "") -> None:
        """Starts an operation; in a queue, it belongs to the group that its thread commits next."""
        self._number += 1
        flight.number, flight.queue, flight.monitors = self._number, queue, self.monitors
        if queue:
            flight.group = self._committed(queue)[flight.lanes.place]
            self._queues.setdefault(queue, []).append(flight)
        self.flights.append(flight)
        for monitor in self.monitors:
            monitor.started(flight)
        if self.when == "early" or (self.chance is not None and self.chance.random() < 0.5):
            flight.complete()
        if self.chance is not None:
            for other in self.flights:
                if self.chance.random() < 0.25:
                    other.complete()
        if len(self.flights) > 64:
            self._forget()

    # -- groups of a thread

    def _committed(self, queue: str) -> Array:
        found = self._commits.get(queue)
        if found is None:
            found = np.zeros(0, np.int64)
        missing = self.memory.ctas * self.memory.threads - len(found)
        if missing > 0:
            found = np.concatenate([found, np.zeros(missing, np.int64)])
        self._commits[queue] = found
        return found

    def commit(self, lanes: Any, queue: str) -> None:
        """Commits a group of the operations that each lane has started since its previous group."""
        self._committed(queue)[lanes.place] += 1
        for monitor in self.monitors:
            monitor.committed(lanes, queue)

    def wait(self, lanes: Any, queue: str, pending: int | None, reading: bool = False) -> None:
        """Completes all groups of each lane except the latest `pending`; if None, also operations in no group. With `reading`, only
        reads sources."""
        flights = self._queues.get(queue)
        if not flights and not self.monitors:
            return
        limit = np.full(len(self._committed(queue)), -1, np.int64)
        limit[lanes.place] = self._committed(queue)[lanes.place] - pending if pending is not None else np.iinfo(np.int64).max
        for flight in list(flights or ()):
            chosen = flight.group < limit[flight.lanes.place]
            if reading:
                flight.fetch(chosen)
            else:
                flight.complete(chosen)
        for monitor in self.monitors:
            monitor.awaited(lanes, queue, limit, reading)
        self._queues[queue] = [f for f in self._queues.get(queue, ()) if f.flying.any()]

    def complete_before(self, lanes: Any, queue: str, number: int) -> None:
        """Completes the operations that each lane has started in a queue before the flight with this number, then the signals for them
        that it has started before: the signals of a thread arrive in program order."""
        mine = np.zeros(len(self._committed(queue)), bool)
        mine[lanes.place] = True
        signals = [flight for flight in self.flights if flight.after == queue]
        for flight in [*self._queues.get(queue, ()), *signals]:
            if flight.number < number:
                flight.complete(mine[flight.lanes.place])

    # -- what lanes wait for

    def want(self, barriers: Any) -> None:
        """Lanes wait for the mbarriers at these addresses in the buffer of shared memory."""
        self.wanted.update(distinct_numbers(barriers).tolist())

    def signal_wanted(self) -> bool:
        """Completes the operations that signal an mbarrier that lanes wait for. Returns whether there were any."""
        wanted, self.wanted = self.wanted, set()
        return bool(wanted) and self.signal(np.array(sorted(wanted), np.int64))

    def step(self) -> bool:
        """Completes the operations that lanes wait for; if none is in flight, all that signal an mbarrier; otherwise the oldest operation.

        Returns False if nothing is in flight.
        """
        self._forget()
        if self.signal_wanted():
            return True
        changed = False
        for flight in list(self.flights):
            if flight.signals is not None:
                changed |= flight.complete()
        if changed:
            return True
        return any(flight.complete() for flight in list(self.flights))

    def signal(self, barriers: Array) -> bool:
        """Completes the operations that signal one of these mbarriers, for the lanes that signal it. Returns whether there were any."""
        changed = False
        wanted = frozenset(barriers.tolist())
        for flight in list(self.flights):
            if flight.signals is not None and not wanted.isdisjoint(flight.signalled):
                changed |= flight.complete(np.isin(flight.signals, barriers).any(axis=1))
        return changed

    def finish(self) -> None:
        """Completes everything, since all CTAs have exited."""
        for flight in list(self.flights):
            flight.complete()
        self.flights = []
        self._queues = {}
        self._commits = {}
        self.wanted = set()

    def _forget(self) -> None:
        self.flights = [f for f in self.flights if f.flying.any()]
        for queue, flights in self._queues.items():
            self._queues[queue] = [f for f in flights if f.flying.any()]
