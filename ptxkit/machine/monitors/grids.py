"""Dependent grids that access global memory before they have waited for the grid they depend on (ISA 9.7.14.13).

A kernel that executes `griddepcontrol` may start while a grid that it depends on is still running and writing memory. It is unknown which
memory that is. Memory read through `.nc` is not written meanwhile (9.7.10.8). Of other memory, the monitor considers what the kernel itself
writes and, if the kernel reads some memory through `.nc`, what it reads otherwise. Asynchronous copies before the wait usually read what
no grid writes, which a launch does not show: the first is only named. So is the first access that some threads make after their wait, and
others without one, before they meet a thread at a barrier that has waited: what it reads may be what earlier grids write.

It covers G001 and G002. Nothing goes wrong in this launch, but a launch that starts early may fail.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ptxkit.diagnostics import Severity
from ptxkit.frozen import frozen
from ptxkit.isa.binding import Bound
from ptxkit.machine.monitoring import Monitor
from ptxkit.machine.monitors.collected import DOES, Collected, Rule, short, spoken_thread

if TYPE_CHECKING:
    from ptxkit.machine.asynchronous import Flight
    from ptxkit.machine.code import Site
    from ptxkit.machine.findings import Finding
    from ptxkit.machine.interfaces import Launch
    from ptxkit.machine.memory import Access

WAITS, LAUNCHES = "grid-wait", "grid-launch"
NO_WAIT: Rule = ("G001", "griddepcontrol-missing-wait")
TOO_EARLY: Rule = ("G002", "griddepcontrol-access-before-wait")


@frozen(eq=False)
class _Early:
    """The first access of an instruction to a buffer by a thread that has not waited."""

    site: Site
    thread: int
    kind: str
    start: int
    name: str


class Grids(Monitor):
    """Detects accesses of kernels before they have waited for the grids that they depend on."""

    def begin(self, launch: Launch) -> None:
        self.launch = launch
        self.collected = Collected(launch)
        effects = {effect for bound in launch.program.entry.forms for effect in bound.effects}
        self.waits, self.is_idle = WAITS in effects, effects.isdisjoint((WAITS, LAUNCHES))
        self._waited = np.zeros(0 if self.is_idle else launch.ctas * launch.threads, bool)
        self._early: dict[int, _Early] = {}
        self._copies: dict[int, tuple[Site, int]] = {}
        """The copies that start before the wait, each with its first thread."""
        self.left_out: list[str] = []
        self._follows = self._waited.copy()
        """The threads that have waited, or met such a thread of their CTA at a barrier: the wait is for the whole grid."""
        self._following: set[int] = set()
        """The instructions, by `id`, with which such a thread accesses memory."""
        self._others: dict[int, tuple[Site, int]] = {}
        """The instructions with which other threads do, each with its first such thread."""
        self._written: set[int] = set()
        self._after: set[int] = set()
        self._has_constants = False

    @property
    def findings(self) -> list[Finding]:
        return self.collected.findings

    def instruction(self, lanes: Any, arguments: tuple[Any, ...]) -> None:
        if not self.is_idle and WAITS in lanes.site.bound.effects:
            self._waited[lanes.index] = self._follows[lanes.index] = True

    def passed(self, lanes: Any, arguments: tuple[Any, ...], token: Any) -> None:
        if self.waits and lanes.site.bound.barrier:
            has_waited = np.asarray(self._waited.reshape(-1, self.launch.threads).any(axis=1))
            self._follows[lanes.index] |= has_waited[lanes.index // self.launch.threads]

    def started(self, flight: Flight) -> None:
        lanes, site = flight.lanes, flight.lanes.site
        if not self.waits or flight.footprints is None or id(site) in self._copies:
            return
        early = np.flatnonzero(~self._waited[lanes.index])
        if len(early) and any(one.space == ".global" and len(one.at) for one in flight.footprints()):
            self._copies[id(site)] = site, int(lanes.index[early[0]])

    def access(self, access: Access) -> None:
        site = getattr(access.lanes, "site", None)
        if access.space != ".global" or site is None or not isinstance(site.bound, Bound):
            return
        if site.bound.has(".nc") or access.proxy != "generic":
            self._has_constants = True
            return
        buffer = self.launch.machine.memory.allocations.containing(int(np.min(access.at)))
        if buffer is None:
            return
        if access.kind != "read":
            self._written.add(buffer.start)
        waited = self._waited[access.lanes.index]
        follows = self._follows[access.lanes.index]
        if follows.any():
            self._following.add(id(site))
        if not follows.all():
            self._others.setdefault(id(site), (site, int(access.lanes.index[np.flatnonzero(~follows)[0]])))
        if waited.any():
            self._after.add(buffer.start)
        if not waited.all() and id(site) not in self._early:
            thread = int(access.lanes.index[np.flatnonzero(~waited)[0]])
            name = self.collected.names.buffer(buffer)
            self._early[id(site)] = _Early(site, thread, access.kind, buffer.start, name)

    def end(self, launch: Launch) -> None:
        """Reports the first access to memory that another grid may still write. Only now is it known whether a thread waits, and what is
        written."""
        copies = (self.collected.line(site) for site, thread in self._copies.values() if self._waited[thread])
        self.left_out = [
            f"the copy on line {line} starts before the wait for earlier grids: they may still write there" for line in copies
        ][:1]
        self.left_out += [
            f"some threads execute line {self.collected.line(site)} after the wait for earlier grids, others without one: these grids may "
            "still write there"
            for key, (site, thread) in self._others.items()
            if key in self._following and not self._waited[thread]
        ][:1]
        found = next((one for one in self._early.values() if self._matters(one)), None)
        if found is None:
            return
        cta, thread = self.collected.names.thread(found.thread)
        why = "before it waits for" if self.waits else "and never waits for"
        what = f"{DOES[found.kind]} {short(found.name) or 'global memory'}"
        side = {"cta": list(cta), "thread": list(thread), "line": self.collected.line(found.site), "kind": found.kind}
        self.collected.add(
            (id(found.site), "early"),
            TOO_EARLY if self.waits else NO_WAIT,
            f"{spoken_thread(cta, thread)} {what} {why} the grids that it depends on: they may still write there",
            found.site,
            {"accesses": [side], "space": "global", "variable": found.name, "offset": 0, "bytes": 0},
            severity=Severity.WARNING,
        )

    def _matters(self, one: _Early) -> bool:
        is_own = one.start in self._written
        if not self.waits:
            return one.kind == "read" and (self._has_constants or is_own)
        is_of_others = self._has_constants and one.kind == "read" and one.start not in self._after
        # warps with other tasks need not wait if one warp does
        return bool(self._waited[one.thread]) and (one.kind != "read" or is_own or is_of_others)
