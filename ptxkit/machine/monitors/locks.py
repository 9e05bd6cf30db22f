"""Locks and flags that do not order what they are there to order (ISA 8.8, 8.9.5).

Strong accesses of the same bytes are no data race, but that alone does not order them. A thread that waits for a flag or a lock relies on
more: that it sees what the thread before it has written, and that its own writes come later. So three orders are compared: the one of the
manual; one in which each wait acquires; and one in which, besides, each strong write releases at the widest scope, as the program takes
them to do. What only the last one orders lacks a fence, or has one of too small a scope.

A strong read that follows the wait without a fence is not reported: the manual does not order the two, but many programs rely on it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from ptxkit.diagnostics import Severity
from ptxkit.frozen import define
from ptxkit.isa.binding import Bound
from ptxkit.machine.monitoring import Monitor
from ptxkit.machine.monitors.clocks import GPU
from ptxkit.machine.monitors.collected import Collected, spoken_range, spoken_thread
from ptxkit.machine.monitors.kinds import Kind
from ptxkit.machine.monitors.ordering import SPACES, Ordering
from ptxkit.machine.polling import has_strong_stores, polls

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ptxkit.machine.code import Site
    from ptxkit.machine.findings import Finding
    from ptxkit.machine.groups import Lanes
    from ptxkit.machine.interfaces import Launch, Residents
    from ptxkit.machine.memory import Access

Array = np.ndarray[Any, Any]
Location = tuple[str, int]
"""State space and address."""
RULE = "G007", "unordered-critical-section"
REAL, WAITING, TRUSTING = 0, 1, 2
"""The order of the manual; waits acquire; strong writes release, too."""


class _Assumed(Ordering):
    """The order in which the strong reads for which `acquires` holds acquire and, with `releases`, each strong write releases."""

    def __init__(self, acquires: Callable[[Site], bool], releases: bool) -> None:
        super().__init__()
        self.acquires = acquires
        self.releases = releases

    def _made(self, site: Site) -> Kind:
        kind = super()._made(site)
        if not kind.strength or kind.is_object or kind.group:
            return kind
        acquires = self.acquires(site) or kind.order in ("acquire", "acq_rel")
        releases = self.releases or kind.order in ("release", "acq_rel")
        order = {(True, True): "acq_rel", (True, False): "acquire", (False, True): "release"}.get((acquires, releases), kind.order)
        return attrs.evolve(kind, order=order, strength=GPU if self.releases else kind.strength)


@define(eq=False)
class _Section:
    """What a thread does between taking a lock, at a site, and setting it again. `found` are the findings that wait for that."""

    location: Location
    site: Site
    is_over: bool = False
    found: list[Callable[[], None]] = attrs.field(factory=list)


@define(eq=False)
class _Write:
    """The last strong store to a location: by which thread, when in each of the orders, and in which critical sections."""

    thread: int
    stamps: tuple[int, ...]
    site: Site
    value: bytes | None
    sections: tuple[_Section, ...]


class Locks(Monitor):
    """Detects strong accesses that a lock or flag is meant to order and does not. Idle in kernels that wait for no memory."""

    def begin(self, launch: Launch) -> None:
        self.launch = launch
        self.collected = Collected(launch)
        bodies = launch.program.entered
        self.is_idle = not (any(map(polls, bodies)) and any(map(has_strong_stores, bodies)))
        self.orders: tuple[Ordering, ...] = () if self.is_idle else (Ordering(), _Assumed(is_poll, False), _Assumed(is_poll, True))
        for order in self.orders:
            order.begin(launch)
        self.writes: dict[Location, _Write] = {}
        self.waited: dict[int, tuple[Site, Location]] = {}
        """The last wait of each thread."""
        self.sections: dict[int, list[_Section]] = {}
        """The critical sections in which each thread is."""
        self.polled: set[Location] = set()
        self.reports: dict[Location, list[Callable[[], None]]] = {}
        """Findings about a location, to be reported at the end unless threads wait for it."""
        self.known: set[tuple[Location, int, int]] = set()
        """The location and the instructions of each, by `id`."""

    def resident(self, residents: Residents) -> None:
        for order in self.orders:
            order.resident(residents)
        if self.orders:
            self.writes = {key: write for key, write in self.writes.items() if key[0] == ".global"}

    def instruction(self, lanes: Any, arguments: tuple[Any, ...]) -> None:
        for order in self.orders:
            order.instruction(lanes, arguments)

    def passed(self, lanes: Any, arguments: tuple[Any, ...], token: Any) -> None:
        for order in self.orders:
            order.passed(lanes, arguments, token)

    def access(self, access: Access) -> None:
        site = getattr(access.lanes, "site", None)
        space = ".shared" if access.space.startswith(".shared") else access.space
        if site is not None and space in SPACES and access.proxy != "tensormap":
            kind = self.orders[REAL].kind(site)
            if kind.strength and kind.is_watched and not kind.group and not kind.is_object:
                self._strong(access, space, site, kind)
        for order in self.orders:
            order.access(access)

    def end(self, launch: Launch) -> None:
        for location, found in self.reports.items():
            for report in found if location not in self.polled else ():
                report()
        self.reports = {}

    @property
    def findings(self) -> list[Finding]:
        return self.collected.findings

    # --- strong accesses

    def _strong(self, access: Access, space: str, site: Site, kind: Kind) -> None:
        lanes = access.lanes
        places = [(space, at) for at in lanes.broadcast(np.asarray(access.at, np.int64)[()]).tolist()]
        if is_poll(site):
            self.polled.update(places)
            takes = self.orders[REAL].changing(space, access) if _is_exchange(access, site) else None
            for lane, (thread, place) in enumerate(zip(lanes.index.tolist(), places, strict=True)):
                self.waited[thread] = (site, place)
                if takes is not None and takes[lane]:
                    self.sections.setdefault(thread, []).append(_Section(place, site))
            return
        if access.kind != "read":
            self._leave(lanes, places)
        if not kind.updates:
            self._compare(access, places, site)

    def _leave(self, lanes: Lanes, places: Sequence[Location]) -> None:
        """Ends the critical sections of the locks that threads set."""
        for thread, place in zip(lanes.index.tolist(), places, strict=True):
            for section in [one for one in self.sections.get(thread, ()) if one.location == place]:
                self.sections[thread].remove(section)
                section.is_over = True
                for report in section.found:
                    report()

    def _compare(self, access: Access, places: Sequence[Location], site: Site) -> None:
        """Compares strong loads or stores with the last store to the same location, and records stores."""
        lanes = access.lanes
        is_store = access.kind == "write"
        values = _stored(access) if is_store else None
        last = [self.writes.get(place) for place in places]
        asked = [i for i, one in enumerate(last) if one is not None and one.thread != int(lanes.index[i])]
        if asked:
            before = [one for i in asked if (one := last[i]) is not None]
            threads = np.array([one.thread for one in before])
            known = [
                order.knowledge.known(lanes.place[asked], threads, np.array([one.stamps[n] for one in before]))
                for n, order in enumerate(self.orders)
            ]
            for j, (i, write) in enumerate(zip(asked, before, strict=True)):
                if (places[i], id(write.site), id(site)) in self.known:
                    continue
                by = [bool(one[j]) for one in known]
                if by[TRUSTING] and not by[REAL if is_store else WAITING]:
                    self._unordered(access, i, places[i], site, write, by[WAITING])
                elif is_store and not by[TRUSTING] and (values is None or write.value != values[i]):
                    self._one_sided(access, i, places[i], site, write)
        if is_store:
            stamps = tuple([order.knowledge.stamp for order in self.orders])
            for i, (thread, place) in enumerate(zip(lanes.index.tolist(), places, strict=True)):
                value = values[i] if values is not None else None
                self.writes[place] = _Write(thread, stamps, site, value, tuple(self.sections.get(thread, ())))

    # --- findings

    def _unordered(self, access: Access, lane: int, place: Location, site: Site, write: _Write, is_released: bool) -> None:
        """A load or store after a wait that does not order it after a store of another thread."""
        thread = int(access.lanes.index[lane])
        waited = self.waited.get(thread)
        me, other = self.collected.names.thread(thread), self.collected.names.thread(write.thread)
        bytes_, line = self._named(place, access.size), self.collected.line
        what = f"{bytes_} (line {line(site)})"
        does = f"{spoken_thread(*me)} may read an old value of {what}"
        if access.kind != "read":
            does = f"what {spoken_thread(*me)} writes to {what} may be lost"
        wait = f"waiting for {self._named(waited[1], 4)} (line {line(waited[0])})" if waited else "a wait of another thread"
        message = f"{does}: {wait} does not order it after the write by {spoken_thread(*other)} (line {line(write.site)})"
        note = "no fence follows the wait" if is_released else "no release at a scope that includes both threads follows the write"
        related = [(write.site, "it is written here"), *([(waited[0], "the wait")] if waited else ())]
        self._add(access, lane, place, site, write, message, related, (note,))

    def _one_sided(self, access: Access, lane: int, place: Location, site: Site, write: _Write) -> None:
        """Two stores that nothing orders, one of them in a critical section of a lock that the other thread does not hold."""
        thread = int(access.lanes.index[lane])
        mine, theirs = self.sections.get(thread, []), write.sections
        held = {section.location for section in mine} & {section.location for section in theirs}
        section = next(iter([*mine, *theirs]), None)
        threads = self.launch.threads
        is_of_a_warp = thread // threads == write.thread // threads and thread % threads // 32 == write.thread % threads // 32
        if section is None or held or is_of_a_warp:
            return
        inside, outside = ((thread, site), (write.thread, write.site)) if section in mine else ((write.thread, write.site), (thread, site))
        named, bytes_ = self.collected.names.thread, self._named(place, access.size)
        line = self.collected.line
        holds = f"while it holds {self._named(section.location, 4)} (line {line(section.site)})"
        message = (
            f"{spoken_thread(*named(inside[0]))} writes {bytes_} (line {line(inside[1])}) {holds}, and "
            f"{spoken_thread(*named(outside[0]))} without (line {line(outside[1])}): either value may remain"
        )
        related = [(write.site, "it is written here, too"), (section.site, "the lock is taken here")]

        def report() -> None:
            self._add(access, lane, place, site, write, message, related)

        if section.is_over:
            report()
        else:
            section.found.append(report)

    def _add(
        self,
        access: Access,
        lane: int,
        place: Location,
        site: Site,
        write: _Write,
        message: str,
        related: list[tuple[Site, str]],
        notes: tuple[str, ...] = (),
    ) -> None:
        named, line = self.collected.names.thread, self.collected.line
        variable, offset = self.collected.names.variable(*place)
        sides = [(named(write.thread), line(write.site), "write"), (named(int(access.lanes.index[lane])), line(site), access.kind)]
        accesses = [{"cta": list(cta), "thread": list(thread), "line": at, "kind": kind} for (cta, thread), at, kind in sides]
        witness = {
            "accesses": accesses, "space": place[0].removeprefix("."), "variable": variable, "offset": offset, "bytes": access.size,
        }  # fmt: skip
        cause = (write.site.path, site.path)

        self.known.add((place, id(write.site), id(site)))

        def report() -> None:
            self.collected.add(cause, RULE, message, site, witness, severity=Severity.WARNING, related=related, notes=notes)

        self.reports.setdefault(place, []).append(report)

    def _named(self, place: Location, size: int) -> str:
        variable, offset = self.collected.names.variable(*place)
        return spoken_range(variable, place[0], offset, size)


def is_poll(site: Site) -> bool:
    """Whether threads wait by this instruction."""
    return site.number in polls(site.body)


def _is_exchange(access: Access, site: Site) -> bool:
    """Whether an access is a compare-and-swap or an exchange, with known operands."""
    is_one = isinstance(site.bound, Bound) and (site.bound.has(".cas") or site.bound.has(".exch"))
    return is_one and access.kind == "update" and access.values is not None


def _stored(access: Access) -> list[bytes] | None:
    """What each lane stores; None if unknown."""
    if access.values is None:
        return None
    columns = [access.lanes.broadcast(np.asarray(value)[()]) for value in access.values]
    return [b"".join([column[i].tobytes() for column in columns]) for i in range(access.lanes.count)]
