"""The events that monitors receive. `Machine.launch(…, monitors=[…])` compiles blocks with events; without monitors there is no overhead.

An event has the `lanes` concerned: threads (`lanes.place` among the resident ones, `lanes.index` in the launch, `lanes.cta`, `lanes.warp`,
…) and `lanes.site`, the instruction. `site.bound` is its form (order, scope, effects, barrier, converges), `lanes.launch.span(site)` its
location. A monitor ends the launch by raising `Stop(kind, reason, mask)` or calling `lanes.fault`; otherwise it records what it finds.

Order of events: `begin`; for each chunk of CTAs `resident`, the events of its threads, `vacant`; finally `end`, also after a fault. Threads
that execute together share one event and count as concurrent.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from ptxkit.isa.binding import Bound
from ptxkit.machine.groups import Array, Lanes

if TYPE_CHECKING:
    from ptxkit.machine.asynchronous.agents import Flight
    from ptxkit.machine.blocks import BasicBlock
    from ptxkit.machine.code import Body, Site
    from ptxkit.machine.fault import Fault
    from ptxkit.machine.interfaces import Launch, Residents
    from ptxkit.machine.memory import Access


class Monitor:
    """The events. All methods do nothing; a monitor overrides those that it needs."""

    follows_undefined = False
    """Whether code is compiled to track undefined values (`following.Undefined`)."""
    is_idle = False
    """Whether it has found in `begin` that no access is relevant to it."""
    steps = False
    """Whether it receives `statement`: code is compiled instruction by instruction, and dead registers keep their values."""

    def begin(self, launch: Launch) -> None:
        """A launch begins; see `launch.grid`, `launch.block`, `launch.cluster`, `launch.schedule`."""

    def resident(self, residents: Residents) -> None:
        """CTAs become resident: `residents.first_cta`, `residents.ctas`, `residents.threads`. Called again if further CTAs join them."""

    def block(self, lanes: Lanes, body: Body, block: BasicBlock, taken: Any) -> None:
        """Lanes have executed a block, up to the instruction at its end if that may wait. `taken` says which lanes take the branch at
        its end, as an array or one value for all. With this event, both sides of a branch are executed only by the lanes that take them."""

    def branch(self, lanes: Lanes, body: Body, block: BasicBlock, taken: Any) -> None:
        """Lanes are about to take the sides of the conditional branch at the end of a block; `taken` as for `block`."""

    def statement(self, lanes: Lanes, body: Body, i: int, registers: list[Any]) -> None:
        """Lanes are about to execute `body.sites[i]` with these registers, by number, including lanes whose guard is false. Only for a
        monitor that `steps`. Lanes that wait for others have the event again once these have arrived."""

    def found(self) -> None:
        """Some monitor has added a finding to its `findings`."""

    def access(self, access: Access) -> None:
        """Memory is about to be accessed: `kind` (read, write, update), `lanes`, `space`, `at` (position in the buffer of that space, an
        array or a number; `memory.owner` gives the owner), `size` in bytes, `proxy`. An asynchronous operation has this event when it
        reads or writes, not when it is issued."""

    def instruction(self, lanes: Lanes, arguments: tuple[Any, ...]) -> None:
        """A synchronizing instruction is about to be executed, before any lane waits: fences, barriers, mbarriers, collectives,
        asynchronous operations, commits and waits. `arguments` are its operands as its semantics receive them. Also a branch marked
        `.uni`, with the lanes that take it as argument."""

    def registers(self, lanes: Lanes, reads: int, writes: int) -> None:
        """Registers that asynchronous operations may use are about to be read and written; both are bit sets as in `Body.held`."""

    def passed(self, lanes: Lanes, arguments: tuple[Any, ...], token: Any) -> None:
        """Lanes continue after an instruction at which they may have waited. `token` is the result of its `enter` (`(key, phase)` of a
        barrier)."""

    def partial(self, lanes: Lanes, missing: Array) -> None:
        """An instruction for a whole warp or warpgroup, or the lanes of a mask, executes without some of them. `missing` has their bits
        for each warp; whole warps of a warpgroup may be missing."""

    def started(self, flight: Flight) -> None:
        """An asynchronous operation starts: `flight.lanes`, `flight.queue`, `flight.group`; `flight.footprints` are its accesses."""

    def committed(self, lanes: Lanes, queue: str) -> None:
        """Lanes commit a group of the operations that they started in a queue since the previous group."""

    def awaited(self, lanes: Lanes, queue: str, limit: Array, reading: bool) -> None:
        """Lanes have waited for the groups of a queue below `limit[lanes.place]`; with `reading` only for their reads."""

    def landing(self, flight: Flight, positions: Array) -> None:
        """An asynchronous operation is about to complete, and to signal its mbarriers, for the lanes at some positions."""

    def exit(self, lanes: Lanes) -> None:
        """Threads exit."""

    def speaks_for(self, fault: Fault) -> bool:
        """Whether the monitor itself reports a deadlock, so that no other report is needed."""
        return False

    def fault(self, fault: Fault) -> None:
        """The launch ends with a fault; `fault.stop` and `fault.waits` have details. `end` follows, `vacant` does not."""

    def vacant(self, residents: Residents) -> None:
        """All resident threads have exited, and nothing is in flight."""

    def end(self, launch: Launch) -> None:
        """The launch is over."""


class WatchedLanes(Lanes):
    """Lanes with their current instruction."""

    __slots__ = ("site", "sites")

    def __init__(self, residents: Residents, place: Array) -> None:
        super().__init__(residents, place)
        self.site: Site | None = None
        self.sites: tuple[Site, ...] = ()
        """The instruction of each lane, if lanes at several instructions execute one operation together."""

    def on(self, site: Site) -> WatchedLanes:
        """The same lanes at an instruction. Asynchronous operations keep this object."""
        found = WatchedLanes.__new__(WatchedLanes)
        found.residents, found.place, found.count = self.residents, self.place, self.count
        found._known = self._known
        found.site = site
        found.sites = ()
        return found

    def site_of(self, lane: int) -> Site | None:
        """The instruction that one of these lanes executes."""
        return self.sites[lane] if self.sites else self.site

    def at(self, positions: Array) -> WatchedLanes:
        return self._notified(super().at(positions), positions)

    def repeated(self, positions: Array) -> WatchedLanes:
        return self._notified(super().repeated(positions), positions)

    def _notified(self, found: Lanes, positions: Array) -> WatchedLanes:
        """Lanes at some positions, with their instructions."""
        assert isinstance(found, WatchedLanes)
        found.site = self.site
        found.sites = tuple([self.sites[position] for position in positions.tolist()]) if self.sites else ()
        return found


def overrides(monitor: Any, event: str) -> bool:
    """Whether a monitor overrides an event."""
    return getattr(type(monitor), event, None) is not getattr(Monitor, event)


def observed(lanes: WatchedLanes, arguments: tuple[Any, ...]) -> None:
    """Notifies monitors of an instruction."""
    for monitor in lanes.launch.monitors:
        monitor.instruction(lanes, arguments)


def used(lanes: WatchedLanes, registers: tuple[int, int]) -> None:
    """Notifies monitors of registers that are read and written."""
    for monitor in lanes.launch.monitors:
        monitor.registers(lanes, *registers)


def stepped(lanes: Lanes, body: Body, i: int, registers: list[Any]) -> None:
    """Notifies monitors that step of the instruction to be executed next."""
    for monitor in lanes.launch.monitors:
        if monitor.steps:
            monitor.statement(lanes, body, i, registers)


@lru_cache(maxsize=4096)
def is_observed(bound: Bound) -> bool:
    """Whether monitors are notified of an instruction: it orders, synchronizes, or is asynchronous. Other instructions only have
    accesses."""
    if bound.barrier or bound.converges is not None or bound.asynchronous or bound.completes:
        return True
    if any("fence" in effect or effect in ("grid-wait", "grid-launch") for effect in bound.effects):
        return True
    return bound.form.mnemonic == "mbarrier" or any(memory.is_async for memory in bound.memory)
