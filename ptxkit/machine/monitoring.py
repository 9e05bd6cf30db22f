"""What monitors see of a launch. `Machine.launch(…, monitors=[…])` compiles the blocks anew, with events; without monitors there is no
trace of them.

An event has the `lanes` concerned: threads (`lanes.place` among the resident ones, `lanes.index` in the launch, `lanes.cta`,
`lanes.warp`, …) and
`lanes.site`, the instruction: `site.bound` is what the table says of it (order, scope, effects, barrier, converges),
`lanes.launch.span(site)` where
it stands. A monitor raises `Stop(kind, reason, mask)`, or calls `lanes.fault`, to end the launch; or it keeps what it found.

Order of events: `begin`; for each chunk of CTAs `resident`, then what its threads do, `vacant`; `end`, also after a fault. Threads that run
together have one event, and are to be taken as running at the same time.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from ptxkit.isa.binding import Bound
from ptxkit.machine.groups import Array, Lanes

if TYPE_CHECKING:
    from ptxkit.machine.asynchronous.agents import Flight
    from ptxkit.machine.code import BasicBlock, Body, Site
    from ptxkit.machine.fault import Fault
    from ptxkit.machine.interfaces import Launch, Residents
    from ptxkit.machine.memory import Access


class Monitor:
    """The events, each doing nothing: a monitor overrides those that it wants."""

    follows_undefined = False
    """Whether the code is compiled so that undefined values are followed (`following.Undefined`)."""
    is_idle = False
    """Whether it has found in `begin` that no access is of interest to it."""
    steps = False
    """Whether it wants `statement`: the code is compiled instruction by instruction, and dead registers keep their values."""

    def begin(self, launch: Launch) -> None:
        """A launch begins; `launch.grid`, `launch.block`, `launch.cluster`, `launch.schedule`."""

    def resident(self, residents: Residents) -> None:
        """CTAs become resident: `residents.first_cta`, `residents.ctas`, `residents.threads`. Again where further ones join them."""

    def block(self, lanes: Lanes, body: Body, block: BasicBlock, taken: Any) -> None:
        """Lanes have executed a block of a function, up to the instruction at its end if that may wait. `taken` is who takes the branch at
        its end, an array or one value for all. Both sides of a branch are then executed by their own threads only."""

    def statement(self, lanes: Lanes, body: Body, i: int, registers: list[Any]) -> None:
        """Lanes are about to execute an instruction of a function, `body.sites[i]`, with these registers, by number; of one with a guard
        also those for which that is false. Only of a monitor that `steps`. Lanes that wait for others come again when these are there."""

    def found(self) -> None:
        """A monitor has found something: its `findings` have one more."""

    def access(self, access: Access) -> None:
        """Memory is about to be accessed: `kind` (read, write, update), `lanes`, `space`, `at` (where in the buffer of that space: an
        array or a number; `memory.owner` says whose), `size` in bytes, `proxy`. Of an operation in flight when it reads or writes, not
        when it is issued."""

    def instruction(self, lanes: Lanes, arguments: tuple[Any, ...]) -> None:
        """An instruction that synchronizes is about to be executed, before anybody waits: fences, barriers and mbarriers, collectives,
        asynchronous operations, commits and waits. `arguments` are its operands, as its semantics get them. Also a branch that says
        `.uni`: then the argument is who takes it."""

    def registers(self, lanes: Lanes, reads: int, writes: int) -> None:
        """Registers that asynchronous operations may hold are about to be read and written: numbers as bits, as `Body.held` has them."""

    def passed(self, lanes: Lanes, arguments: tuple[Any, ...], token: Any) -> None:
        """Lanes go on from an instruction at which they may have waited. `token` is what its `enter` gave (`(key, phase)` of a barrier)."""

    def partial(self, lanes: Lanes, missing: Array) -> None:
        """An instruction for a whole warp or warpgroup, or the lanes of a mask, is executed without some: which of each warp, as bits.
        Of a warpgroup whole warps may be missing."""

    def started(self, flight: Flight) -> None:
        """An operation is in flight from now on: `flight.lanes`, `flight.queue`, `flight.group`; `flight.footprints`: its accesses."""

    def committed(self, lanes: Lanes, queue: str) -> None:
        """What lanes have started in a queue since its last group is a group."""

    def awaited(self, lanes: Lanes, queue: str, limit: Array, reading: bool) -> None:
        """Lanes have waited for the groups of a queue below `limit[lanes.place]`; with `reading` only for what these read."""

    def landing(self, flight: Flight, positions: Array) -> None:
        """An operation in flight is about to be done, and to signal its mbarriers, for the lanes at some positions."""

    def exit(self, lanes: Lanes) -> None:
        """Threads end."""

    def speaks_for(self, fault: Fault) -> bool:
        """Whether it reports a deadlock that others then need not report."""
        return False

    def fault(self, fault: Fault) -> None:
        """The launch ends with a fault; `fault.stop` and `fault.waits` say more of it. `end` follows, `vacant` does not."""

    def vacant(self, residents: Residents) -> None:
        """All resident threads have ended, and nothing is in flight any more."""

    def end(self, launch: Launch) -> None:
        """The launch is over."""


class WatchedLanes(Lanes):
    """Lanes that know their instruction."""

    __slots__ = ("site", "sites")

    def __init__(self, residents: Residents, place: Array) -> None:
        super().__init__(residents, place)
        self.site: Site | None = None
        self.sites: tuple[Site, ...] = ()
        """The instruction of each lane, where lanes of several execute one operation together."""

    def on(self, site: Site) -> WatchedLanes:
        """The same lanes at an instruction. Operations in flight keep these."""
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
        """Lanes at positions of these, which know their instructions too."""
        assert isinstance(found, WatchedLanes)
        found.site = self.site
        found.sites = tuple([self.sites[position] for position in positions.tolist()]) if self.sites else ()
        return found


def overrides(monitor: Any, event: str) -> bool:
    """Whether a monitor wants an event: it defines it itself."""
    return getattr(type(monitor), event, None) is not getattr(Monitor, event)


def observed(lanes: WatchedLanes, arguments: tuple[Any, ...]) -> None:
    """Tells the monitors of an instruction."""
    for monitor in lanes.launch.monitors:
        monitor.instruction(lanes, arguments)


def used(lanes: WatchedLanes, registers: tuple[int, int]) -> None:
    """Tells the monitors of registers that are read and written."""
    for monitor in lanes.launch.monitors:
        monitor.registers(lanes, *registers)


def stepped(lanes: Lanes, body: Body, i: int, registers: list[Any]) -> None:
    """Tells the monitors that step of an instruction that is executed next."""
    for monitor in lanes.launch.monitors:
        if monitor.steps:
            monitor.statement(lanes, body, i, registers)


@lru_cache(maxsize=4096)
def is_observed(bound: Bound) -> bool:
    """Whether monitors are notified of an instruction: one that orders, synchronizes, or is asynchronous. Others are just accesses."""
    if bound.barrier or bound.converges is not None or bound.asynchronous or bound.completes:
        return True
    if any("fence" in effect or effect in ("grid-wait", "grid-launch") for effect in bound.effects):
        return True
    return bound.form.mnemonic == "mbarrier" or any(memory.is_async for memory in bound.memory)
