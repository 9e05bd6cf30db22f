"""Runs the traces of a cluster side by side: barriers, mbarriers, and which access comes before which (8.8, 9.7.14).

The threads of a warp that take the same path are one *agent*. Agents take one step after the other, event by event; asynchronous copies
are done as
late as can be. What agents know of one another is kept in vector clocks; of asynchronous writes they know by the phases that they have
seen to complete. It is one of the runs that are possible: what goes wrong in it can go wrong.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Collection, Iterator, Mapping, Sequence
from time import monotonic

import attrs

from ptxkit.analyses.events.steps import SYNCHRONIZES, Does
from ptxkit.analyses.launch.launch import WARP
from ptxkit.analyses.numbers.bits import bits
from ptxkit.analyses.simulation.fetches import exchanged
from ptxkit.analyses.simulation.traces import NOWHERE, RANK, SHARED_WINDOW, Event, Key, Trace, warps_of
from ptxkit.frozen import frozen

Clock = dict[int, int]
"""By agent, up to which of its events; by mbarrier (its number, negative), up to which phase."""

MOST_ACCESSES = 40_000
"""Words of shared memory that are compared, each time that they are accessed."""
MOST_BYTES = 4096
"""Of what an instruction accesses at once, no more is looked at."""
MOST_FAULTS = 40
ANSWER = 16
"""The bytes of an answer to a request for another cluster's work."""
NOBODY = (-1, -1)


@frozen
class Fault:
    """Something that went wrong."""

    kind: str
    instruction: int
    other: int = -1
    """Another instruction that has to do with it."""
    one: tuple[int, int] = NOBODY
    """CTA and thread that execute the instruction."""
    two: tuple[int, int] = NOBODY
    address: int = 0
    numbers: tuple[int, ...] = ()


@attrs.define(eq=False)
class Agent:
    """Threads of a warp that take the same path."""

    index: int
    trace: Trace
    warp: tuple[int, int]
    positions: list[int]
    """Where its threads stand in the trace."""
    threads: list[int]
    at: int = 0
    clock: Clock = attrs.field(factory=dict)
    seen: dict[int, int] = attrs.field(factory=dict)
    """By mbarrier, the phase that it last saw to have completed."""
    signalled: dict[int, int] = attrs.field(factory=dict)
    """By mbarrier, the phase in which it last arrived."""
    waits: dict[int, int] = attrs.field(factory=dict)
    """By mbarrier, the instruction that it last waited with."""
    asked: int = -1
    """What had changed when it last asked for an mbarrier in vain."""
    peeks: dict[int, int] = attrs.field(factory=dict)
    """By mbarrier, the instruction that asked for it without waiting."""
    fenced: Clock = attrs.field(factory=dict)
    """What it knew of at its last fence."""
    relaxed: int = -1
    """The event at which it last came to the cluster's barrier without an order."""
    arrived: int = 0
    """How many times it came to the cluster's barrier."""
    registers: int = 0
    """How many each thread has, if it has changed that."""

    @property
    def event(self) -> Event | None:
        return self.trace.events[self.at] if self.at < len(self.trace.events) else None

    @property
    def is_done(self) -> bool:
        return self.at >= len(self.trace.events)

    @property
    def has_left(self) -> bool:
        """Whether it has ended for certain: others need not wait for it."""
        return self.is_done and not (self.trace.is_cut or self.trace.is_lost)


@attrs.define(eq=False)
class Mbarrier:
    """An mbarrier."""

    number: int
    address: int
    count: int
    init: int
    agent: int
    time: int
    pending: int = 0
    phase: int = 0
    """How many phases have completed."""
    expected: int = 0
    """Bytes that the phase still waits for, without those in flight."""
    coming: int = 0
    """Bytes in flight."""
    unknown: int = 0
    """Copies in flight of which the bytes are not known."""
    expects: int = -1
    """The instruction that last expected bytes."""
    copies: int = -1
    clock: Clock = attrs.field(factory=dict)
    last: Clock = attrs.field(factory=dict)
    """What is known of by who has seen the last phase complete."""
    arrivals: list[tuple[int, int]] = attrs.field(factory=list)
    """Agents and instructions of the arrivals of the current phase."""
    history: list[list[tuple[int, int]]] = attrs.field(factory=list)
    """The same of the phases that have completed."""
    bytes: list[tuple[int, int]] = attrs.field(factory=list)
    """Of those, the bytes that were expected and those that were copied, as far as that is known."""
    expected_bytes: int = 0
    copied: int = 0
    maps: dict[str, int] = attrs.field(factory=dict)
    """How many copies of the current phase have each tensor map of which the box is not known."""
    maps_of: list[dict[str, int]] = attrs.field(factory=list)
    """The same of the phases that have completed."""
    lasts: list[Clock] = attrs.field(factory=list)
    """By phase, what had happened for certain when it completed."""
    waited: list[tuple[int, int, int]] = attrs.field(factory=list)
    """Who has waited for which phase, and with which event."""
    visits: dict[tuple[int, int], int] = attrs.field(factory=dict)
    is_alive: bool = True
    was_unknown: bool = False
    """Whether a phase was taken to complete though not all bytes were known."""


@attrs.define(eq=False)
class _Meeting:
    agents: list[Agent] = attrs.field(factory=list)
    clocks: list[Clock] = attrs.field(factory=list)
    threads: int = 0
    arrived: list[Agent] = attrs.field(factory=list)
    """Those that do not wait."""


@attrs.define(eq=False)
class _Stamp:
    """Who accessed a location, and when; of an asynchronous write the mbarrier and phase that signal it."""

    agent: int
    time: int
    instruction: int
    thread: int
    is_async: bool = False


@attrs.define(eq=False)
class _Shadow:
    write: _Stamp | None
    reads: dict[int, _Stamp]


class Machine:
    """One run. `flips` are waits of which the parity counts inverted, `counts` by instruction other counts for inits.

    `registers` are those of a thread when the kernel starts; with 0, registers are never short.
    """

    def __init__(
        self,
        traces: list[Trace],
        flips: Collection[int] = (),
        counts: Mapping[int, int] | None = None,
        races: bool = True,
        registers: int = 0,
        accessed: int = MOST_ACCESSES,
        outcomes: Sequence[int] = (),
        end: float = math.inf,
        is_eager: bool = False,
    ) -> None:
        self.traces = traces
        self.outcomes = outcomes
        """What requests for another cluster's work give, one after the other; then nothing."""
        self.is_eager = is_eager
        """Whether agents go as far as they can when they are next, instead of one event, and those who wait are first."""
        self.has_completed = False
        self.changes = 0
        """How many mbarriers were initialized and phases completed: the thread that waits goes on only by one of these."""
        self.end = end
        self.is_late = False
        """Whether the run was not finished by the time that it was to end."""
        self.requests = 0
        self.targets: dict[str, set[int]] = {}
        """Where copies write with each tensor map of which the box is not known."""
        self.fetched: dict[Key, tuple[int, ...]] = {}
        """What is loaded from shared memory, where that is the same in every run."""
        self.raced: set[int] = set()
        """Fetches whose location somebody may write to at the same time."""
        self.memory: dict[int, tuple[_Stamp, int | None]] = {}
        self.readers: dict[int, dict[int, tuple[int, int]]] = {}
        self.sought = sorted(
            {
                plain(address) + at
                for trace in traces
                for event in trace.events
                if event.step.does is Does.FETCH
                for address in set(event.address or ())
                if address != NOWHERE
                for at in range(event.step.bytes or 0)
            }
        )
        """The bytes that are ever fetched."""
        self.stored = {event.step.instruction for trace in traces for event in trace.events if event.step.does is Does.STORE}
        self.flips = flips
        self.counts = counts or {}
        self.agents: list[Agent] = []
        for trace in traces:
            for warp, positions in sorted(warps_of(trace.threads).items()):
                threads = [trace.threads[position] for position in positions]
                self.agents.append(Agent(len(self.agents), trace, (trace.rank, warp), positions, threads))
        self.agents.sort(key=lambda agent: (agent.trace.rank, agent.threads[0]))
        self.of_warp: dict[tuple[int, int], list[Agent]] = {}
        for index, agent in enumerate(self.agents):
            agent.index = index
            self.of_warp.setdefault(agent.warp, []).append(agent)
        self.mbarriers: dict[int, Mbarrier] = {}
        self.by_number: dict[int, Mbarrier] = {}
        self.faults: dict[tuple[str, int, int], Fault] = {}
        self.meetings: dict[tuple[int, int], _Meeting] = {}
        self.cluster: list[Clock] = []
        self.shadow: dict[int, _Shadow] = {}
        self.accessed = 0
        self.most_accesses = accessed
        self.has_all_accesses = True
        """Whether all accesses were compared."""
        self.races = races
        self.registers = registers
        self.pool: dict[int, int] = {}
        """By CTA, the registers to spare."""
        self.is_sure = True
        self.log: list[tuple[int, int]] = []
        """The order in which agents did what others may wait for: who, and the event."""
        self.shift = self._granularity()
        self.sizes = self._sizes()

    def _granularity(self) -> int:
        found = 2
        for step in {event.step for trace in self.traces for event in trace.events}:
            if step.does in (Does.READ, Does.WRITE) and step.bytes is not None:
                found = min(found, (step.bytes & -step.bytes).bit_length() - 1)
        return max(0, found)

    def _sizes(self) -> dict[Event, int]:
        """The bytes of copies that are not known but expected: where one copy alone makes up for an expectation."""
        found: dict[Event, int] = {}
        for trace in self.traces:
            last: dict[tuple[int, ...], tuple[Event, list[Event]]] = {}
            closed: list[tuple[Event, list[Event]]] = []
            for event in trace.events:
                if event.step.does is Does.EXPECT and event.address is not None:
                    if event.address in last:
                        closed.append(last[event.address])
                    last[event.address] = (event, [])
                elif event.step.does is Does.COPY and event.address is not None and event.address in last:
                    last[event.address][1].append(event)
            for expect, copies in (*closed, *last.values()):
                amount = expect.amount
                if len(copies) == 1 and copies[0].bytes is None and amount is not None and len(set(amount)) == 1:
                    found[copies[0]] = amount[0]
        return found

    # --- the run

    def run(self) -> None:
        """Runs until nobody can go on."""
        while True:
            moved = False
            for agent in self.agents:
                while not agent.is_done and self._step(agent):
                    moved = True
                    if not self.is_eager:
                        break
                    self._wake()
                if len(self.faults) > MOST_FAULTS:
                    return
            if self.end < math.inf and monotonic() > self.end:
                self.is_late = True
                return
            if not moved and not self._settle():
                return

    def _wake(self) -> None:
        """Lets those go on who wait for a phase that has just completed."""
        if not self.has_completed:
            return
        self.has_completed = False
        for agent in self.agents:
            event = agent.event
            if event is not None and event.step.does is Does.WAIT:
                self._step(agent)

    @property
    def stuck(self) -> list[Agent]:
        """The agents that cannot go on; nobody if somebody's trace ended before the threads did."""
        if self.is_late or any(agent.is_done and (agent.trace.is_cut or agent.trace.is_lost) for agent in self.agents):
            return []
        return [agent for agent in self.agents if not agent.is_done]

    def _settle(self) -> bool:
        """What is in flight comes to its end, if that lets somebody go on."""
        for mbarrier in list(self.mbarriers.values()):
            if mbarrier.coming:
                mbarrier.expected -= mbarrier.coming
                mbarrier.coming = 0
                if self._completes(mbarrier):
                    return True
        for agent in self.agents:
            event = agent.event
            if event is None or event.step.does is not Does.WAIT:
                continue
            for address, _ in self._lanes(agent, event):
                awaited = self.mbarriers.get(address)
                if awaited is not None and awaited.unknown and not awaited.pending:
                    awaited.unknown = awaited.expected = 0
                    awaited.was_unknown = True
                    if self._completes(awaited):
                        return True
        for agent in self.agents:
            event = agent.event
            if event is not None and event.step.does is Does.JOIN:
                self.is_sure = False
                agent.at += 1
                return True
        return False

    def _lanes(self, agent: Agent, event: Event) -> Iterator[tuple[int, int]]:
        """The address and amount of each thread; of what is multicast, for each CTA."""
        for position in agent.positions:
            address = event.address[0 if len(event.address) == 1 else position] if event.address is not None else 0
            amount = event.amount[0 if len(event.amount) == 1 else position] if event.amount is not None else -1
            if event.mask is None:
                yield plain(address), amount
                continue
            mask = event.mask[0 if len(event.mask) == 1 else position]
            for rank in bits(mask):
                # of a pair of CTAs the one that the address names is signalled
                signalled = rank if event.step.pairs is None else rank & ~1 | plain(address) >> RANK & 1
                yield plain(address) & (1 << RANK) - 1 | signalled << RANK, amount

    def _targets(self, agent: Agent, event: Event) -> Iterator[int]:
        """Where a copy writes, in the order of `_lanes`."""
        assert event.target is not None
        for position in agent.positions:
            target = plain(event.target[0 if len(event.target) == 1 else position])
            if event.mask is None:
                yield target
                continue
            for rank in bits(event.mask[0 if len(event.mask) == 1 else position]):
                yield target & (1 << RANK) - 1 | rank << RANK

    def _step(self, agent: Agent) -> bool:
        """Executes an event. False if the agent has to wait."""
        event = agent.trace.events[agent.at]
        done = _DO[event.step.does](self, agent, event)
        if done:
            if event.step.does in SYNCHRONIZES:
                self.log.append((agent.index, agent.at))
            agent.at += 1
        return done

    def _fault(
        self, kind: str, agent: Agent, event: Event, other: int = -1, two: tuple[int, int] = NOBODY, address: int = 0, *numbers: int
    ) -> None:
        key = (kind, event.step.instruction, other)
        if key not in self.faults:
            one = (agent.trace.rank, agent.threads[0])
            self.faults[key] = Fault(kind, event.step.instruction, other, one, two, address, numbers)

    # --- clocks

    def _release(self, agent: Agent) -> Clock:
        clock = dict(agent.clock)
        clock[agent.index] = agent.at
        return clock

    def _acquire(self, agent: Agent, clock: Clock) -> None:
        own = agent.clock
        for key, time in clock.items():
            if own.get(key, -1) < time:
                own[key] = time

    def _meet(self, agents: list[Agent], clocks: list[Clock]) -> None:
        """Agents meet: all know of one another."""
        if not agents:
            return
        merged = self._release(agents[0])
        for clock in (*[self._release(agent) for agent in agents[1:]], *clocks):
            _merge(merged, clock)
        for agent in agents:
            agent.clock = dict(merged)

    # --- mbarriers

    def _mbarrier(self, agent: Agent, event: Event, address: int) -> Mbarrier | None:
        """The mbarrier at an address, which somebody uses; None if there is none yet."""
        found = self.mbarriers.get(address)
        if found is None:
            return None
        owner = self.agents[found.agent]
        if owner.warp != agent.warp and agent.clock.get(found.agent, -1) <= found.time:
            kind = "unfenced" if owner.relaxed > found.time else "unpublished"
            self._fault(kind, agent, event, found.init, (owner.trace.rank, owner.threads[0]), address)
        if not found.is_alive:
            self._fault("invalid", agent, event, found.init, NOBODY, address)
        return found

    def _init(self, agent: Agent, event: Event) -> bool:
        for address, amount in self._lanes(agent, event):
            old = self.mbarriers.get(address)
            count = self.counts.get(event.step.instruction, amount)
            if old is not None and old.is_alive and old.agent == agent.index:
                self._fault("again", agent, event, old.init, NOBODY, address)
            number = -1 - len(self.by_number)
            new = Mbarrier(number, address, count, event.step.instruction, agent.index, agent.at, count)
            self.mbarriers[address] = self.by_number[number] = new
            self.changes += 1
        return True

    def _inval(self, agent: Agent, event: Event) -> bool:
        for address, _ in self._lanes(agent, event):
            found = self._mbarrier(agent, event, address)
            if found is not None:
                found.is_alive = False
        return True

    def _expect(self, agent: Agent, event: Event) -> bool:
        for address, amount in self._lanes(agent, event):
            found = self._mbarrier(agent, event, address)
            if found is None:
                return False
            self._follows(agent, event, found)
            found.expected += amount
            found.expected_bytes += amount
            found.expects = event.step.instruction
        return True

    def _copy(self, agent: Agent, event: Event) -> bool:
        lanes = list(self._lanes(agent, event))
        if any(address not in self.mbarriers for address, _ in lanes):
            return False
        self.requests += event.step.is_request
        targets = list(self._targets(agent, event)) if event.target is not None else []
        if event.map and event.bytes is None:
            self.targets.setdefault(event.map, set()).update(targets)
        for number, (address, _) in enumerate(lanes):
            found = self._mbarrier(agent, event, address)
            assert found is not None
            self._follows(agent, event, found)
            found.copies = event.step.instruction
            if found.expected_bytes:
                # the phase needs these bytes: it does not complete before they are asked for
                _merge(found.clock, self._release(agent))
            if event.bytes is None:
                found.unknown += 1
                found.maps[event.map] = found.maps.get(event.map, 0) + 1
            else:
                found.coming += event.bytes
                found.copied += event.bytes
            if targets and self.sought:
                self._deliver(agent, event, found, agent.positions[number * len(agent.positions) // len(lanes)], targets[number])
            if targets and self.races:
                target = targets[number]
                size = event.bytes or self.sizes.get(event, event.step.least)
                stamp = _Stamp(found.number, found.phase, event.step.instruction, agent.threads[0], True)
                self._write(agent, event, target, size, stamp)
        return True

    # --- numbers in memory

    def _fetch(self, agent: Agent, event: Event) -> bool:
        """Finds out what threads load: what was stored there last, if that came before for certain."""
        assert event.address is not None
        for position, thread in zip(agent.positions, agent.threads, strict=True):
            address = event.address[0 if len(event.address) == 1 else position]
            if address == NOWHERE:
                continue
            address = plain(address)
            held = [self.memory.get(address + at) for at in range(event.step.bytes or 0)]
            for at in range(event.step.bytes or 0):
                self.readers.setdefault(address + at, {})[agent.index] = (agent.at, event.step.instruction)
            numbers = [one[1] if one is not None and self._knows(agent, one[0]) else None for one in held]
            if None in numbers:
                continue
            raw = bytes(numbers)  # type: ignore[arg-type]
            units = [int.from_bytes(raw[at : at + event.unit], "little") for at in range(0, len(raw), event.unit)]
            self.fetched[agent.trace.rank, thread, event.step.instruction, event.visit] = tuple(units)
        return True

    def _store(self, agent: Agent, event: Event) -> bool:
        if not self.sought:
            return True
        assert event.address is not None
        for position, thread in zip(agent.positions, agent.threads, strict=True):
            address = event.address[0 if len(event.address) == 1 else position]
            if address != NOWHERE:
                stamp = _Stamp(agent.index, agent.at, event.step.instruction, thread)
                self._put(agent, stamp, plain(address), event.step.bytes or 0, _raw(event, position))
        return True

    def _spoil(self, agent: Agent, event: Event) -> None:
        """What is written there is not known."""
        assert event.address is not None
        for address in set(event.address) - {NOWHERE}:
            stamp = _Stamp(agent.index, agent.at, event.step.instruction, agent.threads[0])
            self._put(agent, stamp, plain(address), event.step.bytes or 1, [])

    def _deliver(self, agent: Agent, event: Event, found: Mbarrier, position: int, target: int) -> None:
        """What a copy writes that signals an mbarrier when it is done."""
        raw: list[int | None] = _raw(event, position)
        if event.step.is_request:
            answer = self.outcomes[self.requests - 1] if self.requests <= len(self.outcomes) else 0
            raw = list(answer.to_bytes(ANSWER, "little"))
        stamp = _Stamp(found.number, found.phase, event.step.instruction, agent.threads[0], True)
        self._put(agent, stamp, target, event.bytes or event.step.least, raw)

    def _put(self, agent: Agent, stamp: _Stamp, address: int, size: int, raw: Sequence[int | None]) -> None:
        """Writes numbers, or what is not known where there is none, to the bytes that are ever fetched."""
        for position in range(bisect_left(self.sought, address), bisect_left(self.sought, address + size)):
            byte = self.sought[position]
            for index, (at, instruction) in self.readers.pop(byte, {}).items():
                if index != agent.index and agent.clock.get(index, -1) <= at:
                    self.raced.add(instruction)
            old = self.memory.get(byte)
            number = raw[byte - address] if byte - address < len(raw) else None
            if old is not None and old[0].agent != stamp.agent and not self._knows(agent, old[0]):
                number = None
            self.memory[byte] = (stamp, number)

    # --- registers

    def _give(self, agent: Agent, event: Event) -> bool:
        number = next(self._lanes(agent, event))[1]
        if not self.registers:
            return True
        held = agent.registers or self.registers
        self.pool[agent.trace.rank] = self.pool.get(agent.trace.rank, 0) + (held - number) * len(agent.threads)
        agent.registers = number
        return True

    def _take(self, agent: Agent, event: Event) -> bool:
        number = next(self._lanes(agent, event))[1]
        held = agent.registers or self.registers
        wanted = (number - held) * len(agent.threads)
        if self.registers and wanted > self.pool.get(agent.trace.rank, 0):
            return False
        return self._give(agent, event)

    def _follows(self, agent: Agent, event: Event, found: Mbarrier) -> None:
        """Notes bytes that may be counted in an earlier phase in another run: nothing makes the thread wait until that has completed."""
        if found.phase and agent.clock.get(found.number, -1) < found.phase - 1:
            self._fault("unordered", agent, event, found.init, NOBODY, found.address, found.phase)

    def overrun(self) -> Iterator[tuple[Mbarrier, Agent, int, int]]:
        """Waits that miss their phase in another run: the next one may complete before the thread has come to look.

        Each as the mbarrier, who waits, the phase, and the event.
        """
        for found in self.by_number.values():
            for index, phase, at in found.waited:
                if phase + 1 < len(found.lasts) and found.lasts[phase + 1].get(index, -1) <= at:
                    yield found, self.agents[index], phase, at

    def _arrive(self, agent: Agent, event: Event) -> bool:
        sums: dict[int, int] = {}
        for address, amount in self._lanes(agent, event):
            sums[address] = sums.get(address, 0) + (event.step.times if amount < 0 else amount)
        if any(address not in self.mbarriers for address in sums):
            return False
        for address, amount in sums.items():
            found = self._mbarrier(agent, event, address)
            assert found is not None
            key = (event.step.instruction, event.visit)
            found.visits[key] = found.visits.get(key, 0) + amount
            if found.visits[key] > found.count > 0:
                counts = (found.visits[key], found.count, len(agent.positions))
                self._fault("crowd", agent, event, found.init, NOBODY, address, *counts)
            agent.signalled[address] = found.phase
            _merge(found.clock, self._release(agent))
            found.arrivals.append((agent.index, event.step.instruction))
            # each thread that arrives completes one phase at most
            for _ in agent.positions:
                if amount <= 0:
                    break
                taken = min(amount, found.pending)
                found.pending -= taken
                amount -= taken
                if not found.pending and not event.step.may_complete:
                    self._fault("completing", agent, event, found.init, NOBODY, address, found.count)
                if not self._completes(found) and amount > 0:
                    self._fault("excess", agent, event, found.init, NOBODY, address, found.count + amount, found.count)
                    break
                if not found.count:
                    break
            if event.step.drops:
                found.count = max(0, found.count - amount)
        return True

    def _completes(self, found: Mbarrier) -> bool:
        """Completes the phase of an mbarrier if nothing is missing."""
        if found.pending or found.expected or found.coming or found.unknown:
            return False
        found.last = found.clock
        found.last[found.number] = found.phase
        found.lasts.append(found.last)
        found.clock = dict(found.clock)
        found.phase += 1
        self.changes += 1
        self.has_completed = True
        found.pending = found.count
        found.history.append(found.arrivals)
        found.bytes.append((found.expected_bytes, found.copied))
        found.maps_of.append(found.maps)
        found.maps = {}
        found.expected_bytes = found.copied = 0
        found.arrivals = []
        return True

    def _wait(self, agent: Agent, event: Event) -> bool:
        if agent.asked == self.changes:
            return False
        if event.address is not None and _is_same(event.address) and (event.amount is None or _is_same(event.amount)):
            # the same for all threads, as it mostly is
            lanes = {plain(event.address[0]): event.amount[0] if event.amount is not None else -1}
        else:
            lanes = dict(self._lanes(agent, event))
        if not event.step.is_spinning:
            agent.peeks.update(dict.fromkeys(lanes, event.step.instruction))
            return True
        for address, amount in lanes.items():
            found = self.mbarriers.get(address)
            if found is None or not self._passes(agent, event, found, amount):
                agent.asked = self.changes
                return False
        agent.asked = -1
        for address in lanes:
            found = self._mbarrier(agent, event, address)
            assert found is not None
            seen = found.phase - 1
            signalled = agent.signalled.get(address, -1)
            if agent.seen.get(address, -2) == seen and signalled == found.phase and not event.step.by_state:
                self._fault("stale", agent, event, agent.waits.get(address, -1), NOBODY, address, seen)
            agent.seen[address] = seen
            found.waited.append((agent.index, seen, agent.at))
            agent.waits[address] = event.step.instruction
            self._acquire(agent, found.last)
        return True

    def _passes(self, agent: Agent, event: Event, found: Mbarrier, amount: int) -> bool:
        if event.step.by_state:
            return found.phase > agent.signalled.get(found.address, -1)
        parity = amount & 1 ^ (event.step.instruction in self.flips)
        return found.phase & 1 != parity

    # --- barriers

    def _sync(self, agent: Agent, event: Event) -> bool:
        number, count = next(self._lanes(agent, event))
        key = (agent.trace.rank, number & 15)
        meeting = self.meetings.setdefault(key, _Meeting())
        if agent not in meeting.agents:
            meeting.agents.append(agent)
            meeting.threads += len(agent.positions)
        return self._gathered(key, meeting, count, agent)

    def _gathered(self, key: tuple[int, int], meeting: _Meeting, count: int, agent: Agent) -> bool:
        """Whether all have come to a barrier; then all but the one that asks go on."""
        if count > 0:
            complete = meeting.threads >= count
            if meeting.threads > count:
                self._fault("barrier crowd", agent, agent.trace.events[agent.at], -1, NOBODY, key[1], meeting.threads, count)
        else:
            complete = all(one in meeting.agents or one.trace.rank != key[0] or one.has_left for one in self.agents)
        if not complete:
            return False
        self._meet(meeting.agents, meeting.clocks)
        for one in meeting.agents:
            if one is not agent:
                one.at += 1
        del self.meetings[key]
        return True

    def _barrier_arrive(self, agent: Agent, event: Event) -> bool:
        number, count = next(self._lanes(agent, event))
        key = (agent.trace.rank, number & 15)
        meeting = self.meetings.setdefault(key, _Meeting())
        meeting.threads += len(agent.positions)
        meeting.clocks.append(self._release(agent))
        if agent in meeting.arrived or 0 < count < meeting.threads:
            self._fault("barrier crowd", agent, event, -1, NOBODY, key[1], meeting.threads, count)
        meeting.arrived.append(agent)
        if 0 < count <= meeting.threads:
            self._meet(meeting.agents, meeting.clocks)
            for one in meeting.agents:
                one.at += 1
            del self.meetings[key]
        return True

    def _cluster_arrive(self, agent: Agent, event: Event) -> bool:
        while len(self.cluster) <= agent.arrived:
            self.cluster.append({})
        _merge(self.cluster[agent.arrived], agent.fenced if event.step.is_relaxed else self._release(agent))
        agent.arrived += 1
        if event.step.is_relaxed:
            agent.relaxed = agent.at
        return True

    def _cluster_wait(self, agent: Agent, event: Event) -> bool:
        if any(one.arrived < agent.arrived and not one.has_left for one in self.agents):
            return False
        if 0 < agent.arrived <= len(self.cluster):
            self._acquire(agent, self.cluster[agent.arrived - 1])
        return True

    def _fence(self, agent: Agent, event: Event) -> bool:
        agent.fenced = self._release(agent)
        return True

    def _join(self, agent: Agent, event: Event) -> bool:
        mates = [one for one in self.of_warp[agent.warp] if one is not agent]
        if not mates:
            return True
        members = next(self._lanes(agent, event))[1]
        mask = members if event.amount is not None else (1 << WARP) - 1
        others = [one for one in mates if not one.has_left and any(mask >> thread % WARP & 1 for thread in one.threads)]
        for one in others:
            other = one.event
            if other is None or other.step is not event.step:
                return False
        self._meet([agent, *others], [])
        if event.exchange is not None:
            self._exchange([agent, *others])
        for one in others:
            one.at += 1
        return True

    def _exchange(self, agents: list[Agent]) -> None:
        """Notes what the lanes of a warp find out together."""
        held: dict[int, int] = {}
        lanes: list[tuple[Agent, int, int, int]] = []
        for agent in agents:
            event = agent.event
            assert event is not None
            inputs, members = event.values
            for position, thread in zip(agent.positions, agent.threads, strict=True):
                if inputs is not None:
                    held[thread % WARP] = inputs[0 if len(inputs) == 1 else position]
                if members is not None:
                    lanes.append((agent, thread, members[0 if len(members) == 1 else position], event.visit))
        for agent, thread, mask, visit in lanes:
            event = agent.event
            assert event is not None and event.exchange is not None
            number = exchanged(event.exchange, thread % WARP, held, mask)
            if number is not None:
                self.fetched[agent.trace.rank, thread, event.step.instruction, visit] = (number,)

    # --- memory

    def _access(self, agent: Agent, event: Event) -> bool:
        if self.sought and event.step.does is Does.WRITE and event.step.instruction not in self.stored:
            self._spoil(agent, event)
        if not self.races or self.accessed > self.most_accesses:
            self.has_all_accesses = False
            return True
        step = event.step
        size = min(step.bytes or 1, MOST_BYTES)
        writes = step.does is Does.WRITE
        access = self._write if writes else self._read
        addresses, time = event.address, agent.at
        assert addresses is not None
        alone, lanes, instruction = len(addresses) == 1, step.lanes or WARP, step.instruction
        mbarriers = self.mbarriers if writes else {}
        for position, thread in zip(agent.positions, agent.threads, strict=True):
            address = addresses[0 if alone else position]
            if address == NOWHERE:
                continue
            if step.is_descriptor:
                address = (address & 0x3FFF) << 4 | agent.trace.rank << RANK
            elif thread % WARP >= lanes:
                continue
            if address >= SHARED_WINDOW:
                address -= SHARED_WINDOW
            for start in range(address & ~7, address + size, 8) if mbarriers else ():
                held = mbarriers.get(start)
                if held is not None and held.is_alive:
                    self._fault("overwritten", agent, event, held.init, (-1, -1), start)
            if step.is_plain:
                access(agent, event, address, size, _Stamp(agent.index, time, instruction, thread))
            if alone:
                break
        return True

    def _read(self, agent: Agent, event: Event, address: int, size: int, stamp: _Stamp) -> None:
        shadows, index = self.shadow, agent.index
        first, last = address >> self.shift, address + size - 1 >> self.shift
        self.accessed += last - first + 1
        for word in range(first, last + 1):
            shadow = shadows.get(word)
            if shadow is None:
                shadows[word] = _Shadow(None, {index: stamp})
                continue
            write = shadow.write
            if write is not None and write.agent != stamp.agent and not self._knows(agent, write):
                self._race("read", agent, event, write, stamp, word << self.shift)
            shadow.reads[index] = stamp

    def _write(self, agent: Agent, event: Event, address: int, size: int, stamp: _Stamp) -> None:
        shadows, words = self.shadow, range(address >> self.shift, (address + min(size, MOST_BYTES) - 1 >> self.shift) + 1)
        self.accessed += len(words)
        for word in words:
            shadow = shadows.get(word)
            if shadow is None:
                shadows[word] = _Shadow(stamp, {})
                continue
            write = shadow.write
            if write is not None and not self._knows(agent, write) and not (write.is_async and stamp.is_async):
                self._race("write", agent, event, write, stamp, word << self.shift)
            if shadow.reads:
                for read in shadow.reads.values():
                    if not self._knows(agent, read):
                        self._race("after", agent, event, read, stamp, word << self.shift)
                shadow.reads = {}
            shadow.write = stamp

    def _knows(self, agent: Agent, stamp: _Stamp) -> bool:
        return stamp.agent == agent.index or agent.clock.get(stamp.agent, -1) >= (stamp.time if stamp.is_async else stamp.time + 1)

    def _race(self, kind: str, agent: Agent, event: Event, old: _Stamp, new: _Stamp, address: int) -> None:
        """`kind`: a read of what was written, a write over what was written, or one after a read."""
        if not self.is_sure:
            return
        if old.is_async:
            mbarrier = self.by_number[old.agent]
            waited = agent.waits.get(mbarrier.address, -1)
            name = "unwaited" if waited < 0 else "too early"
            self._fault(f"{name} {kind}", agent, event, old.instruction, (agent.trace.rank, old.thread), address, mbarrier.address, waited)
            return
        owner = self.agents[old.agent]
        if new.is_async:
            mbarrier = self.by_number[new.agent]
            if not _waits_at(owner, mbarrier.address):
                read = owner.trace.events[old.time]
                self._fault("unwaited refill", owner, read, new.instruction, (agent.trace.rank, new.thread), address)
                return
        collective = event.step.is_collective or owner.trace.events[old.time].step.is_collective
        near = " in warp" if owner.warp == agent.warp and not collective else ""
        if owner.trace.rank != agent.trace.rank:
            near = " across"
        how = "refill" if new.is_async else kind
        whom = (owner.trace.rank, old.thread)
        self._fault(f"race {how}{near}", agent, event, old.instruction, whom, address, old.agent, old.time, agent.index, new.thread)


def _waits_at(agent: Agent, address: int) -> bool:
    """Whether an agent ever waits at an mbarrier."""
    for event in agent.trace.events:
        if event.step.does is Does.WAIT and event.address is not None:
            lanes = event.address if len(event.address) == 1 else [event.address[position] for position in agent.positions]
            if any(plain(one) == address for one in lanes):
                return True
    return False


def _raw(event: Event, position: int) -> list[int | None]:
    """The bytes that a thread stores, as far as they are known."""
    found: list[int | None] = []
    for numbers in event.values:
        number = None if numbers is None else numbers[0 if len(numbers) == 1 else position]
        found += [None] * event.unit if number is None else list((number & (1 << 8 * event.unit) - 1).to_bytes(event.unit, "little"))
    return found


def _is_same(numbers: tuple[int, ...]) -> bool:
    """Whether all threads have the same number."""
    return len(numbers) == 1 or numbers.count(numbers[0]) == len(numbers)


def _merge(into: Clock, clock: Clock) -> None:
    for key, time in clock.items():
        if into.get(key, -1) < time:
            into[key] = time


def plain(address: int) -> int:
    """An address of shared memory without the window of generic addresses."""
    return address - SHARED_WINDOW if address >= SHARED_WINDOW else address


_DO = {
    Does.INIT: Machine._init,
    Does.INVAL: Machine._inval,
    Does.EXPECT: Machine._expect,
    Does.ARRIVE: Machine._arrive,
    Does.WAIT: Machine._wait,
    Does.COPY: Machine._copy,
    Does.BARRIER_SYNC: Machine._sync,
    Does.BARRIER_ARRIVE: Machine._barrier_arrive,
    Does.CLUSTER_ARRIVE: Machine._cluster_arrive,
    Does.CLUSTER_WAIT: Machine._cluster_wait,
    Does.FENCE: Machine._fence,
    Does.JOIN: Machine._join,
    Does.RELEASE: Machine._give,
    Does.TAKE: Machine._take,
    Does.READ: Machine._access,
    Does.WRITE: Machine._access,
    Does.FETCH: Machine._fetch,
    Does.STORE: Machine._store,
}
