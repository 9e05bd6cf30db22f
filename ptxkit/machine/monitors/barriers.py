"""Participation in barriers, and in what a warp executes together (ISA 9.7.14.1 to 9.7.14.3, 9.7.19.5).

| rule | condition |
| --- | --- |
| B001, B002 | an invalid barrier number or thread count |
| B003 | the thread count of a barrier differs from the number of threads that arrive |
| B005 | `bar.red` and `bar.sync` or `bar.arrive` in one phase of a barrier |
| B006 | a thread arrives again in the same phase; all threads arrive and none waits |
| C001 | part of a warp or, without a thread count, part of a CTA executes an aligned barrier |
| C010, C011 | unpaired arrivals at the cluster barrier; setmaxnreg that no pool can grant |

`collectives` has the rules of warps and warpgroups.

Threads that have exited count as arrived, as on hardware from sm_70 on. Lanes of a warp may arrive at a barrier one after another, for
example after a spin loop; a warp is partial only if the barrier completes, or all threads wait, without some of its lanes. A deadlock is a
finding too, unless some of its threads wait for an mbarrier: `mbarriers` then reports it.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import numpy as np

from ptxkit.diagnostics import Severity
from ptxkit.isa.binding import Bound
from ptxkit.machine.asynchronous.arguments import named
from ptxkit.machine.fault import spoken_index
from ptxkit.machine.groups import WARP
from ptxkit.machine.monitoring import Monitor
from ptxkit.machine.monitors import deadlocks
from ptxkit.machine.monitors.collected import Collected, Rule, do, opcode, spoken_thread, threads
from ptxkit.machine.monitors.collectives import Collectives
from ptxkit.machine.monitors.deadlocks import BARRIERS, spoken_lanes
from ptxkit.machine.monitors.order import Order
from ptxkit.machine.monitors.register_pool import RegisterPool
from ptxkit.machine.monitors.sites import Sites
from ptxkit.machine.values.distinct import distinct_numbers

if TYPE_CHECKING:
    from collections.abc import Callable

    from ptxkit.machine.code import Site
    from ptxkit.machine.fault import Fault
    from ptxkit.machine.findings import Finding
    from ptxkit.machine.interfaces import Launch, Residents
    from ptxkit.machine.memory import Access

Array = np.ndarray[Any, Any]
NUMBER: Rule = ("B001", "barrier-id-out-of-range")
MULTIPLE: Rule = ("B002", "barrier-count-not-warp-multiple")
COUNT: Rule = ("B003", "barrier-count-vs-participants")
MIXED: Rule = ("B005", "barrier-red-mixed")
OVERRUN: Rule = ("B006", "named-barrier-overrun")
DIVERGENT: Rule = ("C001", "aligned-barrier-divergent")
UNPAIRED: Rule = ("C010", "cluster-barrier-unpaired")
NEVER_CAME = "exited without having reached it"
LEFT = "exited after fewer iterations"
UNDEFINED = "undefined in CUDA C++, though exits release barriers (9.7.13.7)"


_REFUSED = {"cluster": UNPAIRED, "multiple": MULTIPLE}
"""The rules that barriers which the machine refuses violate, by `Fault.why`; any other is a wrong number."""


class Barriers(Monitor):
    """Monitors barriers of CTAs and clusters, collectives of warps and warpgroups, and deadlocks."""

    residents: Residents
    _phase: Array
    _site: Array
    _expected: Array
    _kind: Array
    _waited: Array
    _owing: Array
    _came: Array
    _executed: dict[int, Array]

    def begin(self, launch: Launch) -> None:
        self.launch = launch
        self.collected = Collected(launch)
        self._sites = Sites()
        self._first = -1
        self._open: dict[tuple[int, int], Site] = {}
        """By instruction and barrier: aligned barriers of the whole CTA to which threads did not come at once."""
        self._order = Order(launch.program)
        self._collectives = Collectives(self.collected, self._order)

    @property
    def findings(self) -> list[Finding]:
        return self.collected.findings

    def resident(self, residents: Residents) -> None:
        if self._first == residents.first and residents.count > len(self._came[0]):
            keys, more = residents.ctas * BARRIERS - len(self._phase), residents.count - len(self._came[0])
            self._phase, self._site, self._expected, self._kind = [
                np.concatenate([column, np.full(keys, -1)]) for column in (self._phase, self._site, self._expected, self._kind)
            ]
            self._waited = np.concatenate([self._waited, np.zeros(keys, bool)])
            self._owing = np.concatenate([self._owing, np.zeros(more, bool)])
            self._came = np.concatenate([self._came, np.full((BARRIERS, more), -1, np.int32)], axis=1)
            self._collectives.joined(more)
            self._executed = {key: np.concatenate([one, np.zeros(more, bool)]) for key, one in self._executed.items()}
            return
        self.residents, self._first = residents, residents.first
        keys = residents.ctas * BARRIERS
        self._phase, self._site, self._expected, self._kind = [np.full(keys, -1) for _ in range(4)]
        """Of each barrier the phase in which threads came last, where, how many were awaited, and by which kind of instruction."""
        self._waited = np.zeros(keys, bool)
        self._owing = np.zeros(residents.count, bool)
        """Who has arrived at the barrier of its cluster and not waited."""
        self._came = np.full((BARRIERS, residents.count), -1, np.int32)
        """By barrier and thread, the phase in which it came last."""
        self._executed = {}
        """By aligned barrier of the whole CTA, whether each thread has executed it."""
        self._partial: dict[tuple[int, int, int], tuple[Site, int]] = {}
        """By warp, barrier and phase: part of a warp that came to it."""
        self._repeated: list[tuple[int, int, Callable[[], None]]] = []
        """Threads that arrived again and waited: the barrier, its thread count, and what reports them."""
        self._pool = RegisterPool(self.launch, residents, self.collected)
        self._collectives.resident(residents)

    # --- what happens

    def instruction(self, lanes: Any, arguments: tuple[Any, ...]) -> None:
        bound = lanes.site.bound
        if bound.flow:
            self._collectives.branch(lanes, arguments[0])
            return
        self._collectives.instruction(lanes, bound, arguments)
        if bound.barrier and bound.members is None:
            operand = bound.operand(bound.barrier[0].operand)
            if operand is None:
                self._at_cluster(lanes, bound)
            elif operand.role != "addr":
                self._arrive(lanes, bound, arguments)
        if "setmaxnreg" in bound.effects:
            self._pool.request(lanes, bound)

    def passed(self, lanes: Any, arguments: tuple[Any, ...], token: Any) -> None:
        if token is None or not self._partial or not lanes.site.bound.barrier or lanes.site.bound.has(".cluster"):
            return
        key, phase = [np.broadcast_to(x, lanes.count) for x in token]
        for warp, barrier, when in sorted(set(zip(lanes.warp.tolist(), key.tolist(), phase.tolist(), strict=True)) & self._partial.keys()):
            self._judge(warp, barrier, when)

    def partial(self, lanes: Any, missing: Array) -> None:
        self._collectives.partial(lanes, missing)

    def vacant(self, residents: Residents) -> None:
        self._report_repeated()
        for warp, barrier, phase in sorted(self._partial):
            if residents.barriers.phase[barrier] > phase:
                self._judge(warp, barrier, phase)
        self._unwaited(np.flatnonzero((self._phase >= 0) & (self._phase < residents.barriers.phase)))
        self._pool.check()

    def fault(self, fault: Fault) -> None:
        if self._first < 0:
            return
        self._report_repeated()
        if fault.kind in deadlocks.KINDS:
            self._pool.check()
            if not any(monitor.speaks_for(fault) for monitor in self.launch.monitors if monitor is not self):
                deadlocks.report(self.collected, fault, deadlocks.waiting(self.collected, fault.waits), {}, False)
            return
        if fault.kind in ("warp", "warpgroup") and fault.threads:
            self._collectives.refused(fault)
        if fault.kind != "barrier" or not fault.threads:
            return
        rule = _REFUSED.get(fault.why, NUMBER)
        cta, thread = fault.threads[0]
        group = {"cta": list(cta), "threads": [list(one) for _, one in fault.threads], "count": fault.count, "line": fault.line or 0}
        message = f"{spoken_thread(cta, thread)} executes {fault.reason}"
        self.collected.add(
            ("fault", fault.line), rule, message, None, {"waiting": [{**group, "for": "nothing"}]}, span=fault.diagnostic.span
        )

    # --- barriers of clusters

    def _at_cluster(self, lanes: Any, bound: Bound) -> None:
        """Between two arrivals a thread has to wait, whether or not the phase is complete."""
        if any(barrier.action == "wait" for barrier in bound.barrier):
            self._owing[lanes.place] = False
            return
        again = np.flatnonzero(self._owing[lanes.place])
        self._owing[lanes.place] = True
        if not len(again) or self.collected.knows((id(lanes.site), "cluster"), len(again)):
            return
        self.collected.add(
            (id(lanes.site), "cluster"),
            UNPAIRED,
            f"{spoken_thread(*self.collected.thread(lanes, int(again[0])))} arrives at the cluster barrier again without"
            " having waited at it in between",
            lanes.site,
            {"waiting": self.collected.groups(lanes.index[again], self.collected.line(lanes.site), "nothing")},
            count=len(again),
        )

    # --- barriers of a CTA

    def _arrive(self, lanes: Any, bound: Bound, arguments: tuple[Any, ...]) -> None:
        given = named(bound, arguments)
        operand = bound.barrier[0].operand
        number, count = np.asarray(given[operand]).astype(np.int64), given.get(bound.threads.name) if bound.threads is not None else None
        waits = any(barrier.action == "wait" for barrier in bound.barrier)
        residents = self.residents
        if np.any(number >= BARRIERS) or np.any(number < 0):
            return
        here = np.bincount(lanes.cta, minlength=residents.ctas)
        key = lanes.cta * BARRIERS + number
        if count is None and bound.converges is not None and bound.converges.aligned:
            self._executed.setdefault(id(lanes.site), np.zeros(residents.count, bool))[lanes.place] = True
        if count is None and not number.ndim:
            # CTAs whose threads arrive all together, with nothing else in progress at the barrier, are correct
            whole = (here == residents.alive_of_cta) & (residents.barriers.arrived[number::BARRIERS] == 0)
            if whole[lanes.cta].all():
                return
        phase = residents.barriers.phase[key]
        expected = np.broadcast_to(np.asarray(0 if count is None else count).astype(np.int64), lanes.count)
        kind = 1 if any(barrier.action == "reduce" for barrier in bound.barrier) else 0
        self._compare(lanes, key, phase, expected, kind, waits)
        number = np.broadcast_to(number, lanes.count)
        self._again(lanes, number, phase, (key, expected) if waits else None)
        self._came[number, lanes.place] = phase
        if bound.converges is not None and bound.converges.aligned:
            self._parts(lanes, key, phase)
            if count is None:
                for one in distinct_numbers(number).tolist():
                    self._open[id(lanes.site), one] = lanes.site

    def _compare(self, lanes: Any, key: Array, phase: Array, expected: Array, kind: int, waits: bool) -> None:
        """Compares arrivals with earlier ones in the same phase, and with the expected thread count."""
        barriers, site = self.residents.barriers, self._sites.number(lanes.site)
        keys, first, counts = np.unique(key, return_index=True, return_counts=True)
        now = phase[first]
        self._unwaited(keys[(self._phase[keys] >= 0) & (self._phase[keys] < now)])
        earlier = (self._phase[keys] == now) & (barriers.arrived[keys] > 0)
        self._differ(lanes, key, keys[earlier & (self._expected[keys] != expected[first])], COUNT, "awaits")
        self._differ(lanes, key, keys[earlier & (self._kind[keys] != kind)], MIXED, "mixed")
        aligned = lanes.site.bound.converges is not None and lanes.site.bound.converges.aligned
        if aligned:
            elsewhere = earlier & (self._expected[keys] == 0) & (expected[first] == 0) & (self._site[keys] != site)
            self._differ(lanes, key, keys[elsewhere], DIVERGENT, "elsewhere")
        surplus = keys[(expected[first] > 0) & (barriers.arrived[keys] + counts > expected[first]) & (counts > expected[first])]
        if len(surplus):
            barrier = int(surplus[0])
            mine = key == barrier
            self.collected.add(
                (id(lanes.site), "surplus"),
                COUNT,
                f"{threads(int(mine.sum()))} of CTA {self._cta(barrier)} reach barrier {barrier % BARRIERS} at once, which is"
                f" complete with"
                f" {int(expected[mine][0])}: the others wait for the next phase",
                lanes.site,
                {"waiting": self.collected.groups(lanes.index[mine], self.collected.line(lanes.site), f"barrier {barrier % BARRIERS}")},
                count=len(surplus),
            )
        self._waited[keys] = (self._waited[keys] & earlier) | waits
        self._phase[keys], self._site[keys], self._expected[keys], self._kind[keys] = now, site, expected[first], kind

    def _differ(self, lanes: Any, key: Array, keys: Array, rule: Rule, what: str) -> None:
        """Reports arrivals in one phase that are inconsistent."""
        if not len(keys):
            return
        barrier = int(keys[0])
        site = self._sites[int(self._site[barrier])]
        cause = (id(site), id(lanes.site), rule)
        if self.collected.knows(cause, len(keys)):
            return
        line, now, number = self.collected.line(site), self.collected.line(lanes.site), barrier % BARRIERS
        mine = lanes.index[key == barrier]
        before = self._arrived_before(barrier, mine, site)
        where = f"barrier {number} of CTA {self._cta(barrier)}"
        if what == "awaits":
            awaited = self._awaited(lanes.site, lanes, key == barrier)
            message = (
                f"{threads(len(mine))} {do(len(mine), 'reach')} {where} with {awaited} (line {now}),"
                f" {len(before)} with a thread count of {int(self._expected[barrier]) or 'all'} (line {line})"
            )
        elif what == "mixed":
            this, other = opcode(lanes.site), opcode(site)
            reach = do(len(mine), "reach")
            message = f"{threads(len(mine))} {reach} {where} with `{this}` (line {now}), {len(before)} with `{other}` (line {line})"
        else:
            message = (
                f"threads diverge before {where}: {len(mine)} reach it on line {now}, {len(before)} on line {line};"
                f" all must execute the same instruction"
            )
        groups = [*self.collected.groups(before, line, f"barrier {number}"), *self.collected.groups(mine, now, f"barrier {number}")]
        related = [(site, "other threads reach it here")]
        self.collected.add(cause, rule, message, lanes.site, {"waiting": groups}, related=related, count=len(keys))

    def _awaited(self, site: Site, lanes: Any, mine: Array) -> str:
        return "another thread count" if site.bound.threads is not None else "no thread count"  # type: ignore[union-attr]

    def _arrived_before(self, barrier: int, mine: Array, site: Site) -> Array:
        """The threads that have arrived at a barrier in its current phase, by this instruction as far as is known."""
        residents, number = self.residents, barrier % BARRIERS
        first = barrier // BARRIERS * residents.threads
        places = first + np.flatnonzero(self._came[number, first : first + residents.threads] == self._phase[barrier])
        found = self._that_executed(site, places) + residents.first
        return found[~np.isin(found, mine)]  # type: ignore[no-any-return]

    def _that_executed(self, site: Site, places: Array) -> Array:
        """Without the threads that have never executed a barrier of the whole CTA, and came by another instruction."""
        executed = self._executed.get(id(site))
        return places if executed is None else places[executed[places]]

    def _again(self, lanes: Any, number: Array, phase: Array, waiting: tuple[Array, Array] | None) -> None:
        """Reports threads that have already arrived in this phase; those that wait now, once it is known who comes to the barrier."""
        twice = np.flatnonzero(self._came[number, lanes.place] == phase)
        if not len(twice) or self.collected.knows((id(lanes.site), "again"), len(twice)):
            return
        lane = int(twice[0])
        who = spoken_thread(*self.collected.thread(lanes, lane))
        those = f"and {len(twice) - 1} others arrive" if len(twice) > 1 else "arrives"
        what = f"barrier {int(number[lane])}"
        report = functools.partial(
            self.collected.add,
            (id(lanes.site), "again"),
            OVERRUN,
            f"{who} {those} at {what} again before it is complete: each must wait at it in between",
            lanes.site,
            {"waiting": self.collected.groups(lanes.index[twice], self.collected.line(lanes.site), what)},
            count=len(twice),
        )
        if waiting is None:
            report()
        else:
            key, expected = waiting
            self._repeated.append((int(key[lane]), int(expected[lane]), report))

    def _report_repeated(self) -> None:
        """Reports threads that arrived twice and waited the second time, unless the barrier is for more threads than came to it: then it
        takes both arrivals."""
        for barrier, expected, report in self._repeated:
            first = barrier // BARRIERS * self.residents.threads
            came = self._came[barrier % BARRIERS, first : first + self.residents.threads] >= 0
            if expected <= np.count_nonzero(came):
                report()
        self._repeated = []

    def _unwaited(self, keys: Array) -> None:
        """Reports barriers that completed a phase in which no thread waited."""
        alone = keys[~self._waited[keys]]
        if not len(alone):
            return
        barrier = int(alone[0])
        site = self._sites[int(self._site[barrier])]
        number = barrier % BARRIERS
        came = self._arrived_before(barrier, np.empty(0, np.int64), site)
        self.collected.add(
            (id(site), "unwaited"),
            OVERRUN,
            f"barrier {number} of CTA {self._cta(barrier)} completes with {threads(int(self._expected[barrier]))} that arrive,"
            f" and no thread waits"
            f" at it: the count is too small, or bar.sync is missing",
            site,
            {"waiting": self.collected.groups(came, self.collected.line(site), "nothing")},
            count=len(alone),
        )

    def _parts(self, lanes: Any, key: Array, phase: Array) -> None:
        """Records warps of which only some lanes arrive."""
        short = lanes.warp_mask != self.residents.alive_mask[lanes.warps]
        if not short.any():
            return
        starts = np.searchsorted(lanes.warp, lanes.warps)
        for row in np.flatnonzero(short).tolist():
            warp, lane = int(lanes.warps[row]), int(starts[row])
            here = (warp, int(key[lane]), int(phase[lane]))
            site, mask = self._partial.get(here, (lanes.site, 0))
            if site is not lanes.site:
                self._judge(*here)
            self._partial[here] = (lanes.site, mask | int(lanes.warp_mask[row]))

    def _judge(self, warp: int, barrier: int, phase: int) -> None:
        """Part of a warp arrived at a barrier that is now complete: checks whether the other lanes have exited, or arrived too."""
        site, mask = self._partial.pop((warp, barrier, phase))
        absent = int(self.residents.alive_mask[warp]) & ~mask
        if not absent or self.collected.knows((id(site), "part")):
            return
        number = barrier % BARRIERS
        first = warp // self.residents.warps_per_cta * self.residents.threads + warp % self.residents.warps_per_cta * WARP
        places = self._that_executed(site, first + np.array([lane for lane in range(WARP) if mask >> lane & 1]))
        self.collected.add(
            (id(site), "part"),
            DIVERGENT,
            f"{self.collected.warp(self.residents, warp)}: lanes {spoken_lanes(mask)} reach barrier {number} without lanes"
            f" {spoken_lanes(absent)}: all threads of"
            f" a warp must execute an aligned barrier together",
            site,
            {"waiting": self.collected.groups(places + self.residents.first, self.collected.line(site), f"barrier {number}")},
        )

    def access(self, access: Access) -> None:
        """Detects threads that execute what follows a barrier at which others wait, without having arrived there."""
        lanes = access.lanes
        site = getattr(lanes, "site", None)
        if site is None:
            return
        self._collectives.access(lanes, site)
        if not self._open or site.bound.asynchronous or any(memory.is_async for memory in site.bound.memory):
            return
        for (_, number), barrier in self._open.items():
            if self._order.is_after(barrier, site):
                self._skipped(lanes, number, barrier)

    def exit(self, lanes: Any) -> None:
        """Detects threads that exit while others wait at a barrier at which they have not arrived. Hardware counts them as arrived.

        Threads that executed the barrier in an earlier iteration did not end before the work began: the trip counts of a loop differ.
        """
        for (_, number), barrier in self._open.items():
            past, key = self._missed(lanes, number, barrier)
            again = self._executed[id(barrier)][lanes.place[past]]
            for how, what, mine in (("exited", NEVER_CAME, past[~again]), ("left", LEFT, past[again])):
                if len(mine) and not self.collected.knows((id(barrier), how), len(mine)):
                    self._found_missing(lanes, mine, key, number, barrier, how, f"{what}: {UNDEFINED}")

    def _skipped(self, lanes: Any, number: int, site: Site) -> None:
        past, key = self._missed(lanes, number, site)
        if not len(past) or self.collected.knows((id(site), "skipped"), len(past)):
            return
        now = self.collected.line(lanes.site)
        self._found_missing(lanes, past, key, number, site, "skipped", f"passed it without arriving (line {now})")

    def _missed(self, lanes: Any, number: int, site: Site) -> tuple[Array, Array]:
        """The lanes that have not arrived at a barrier of the whole CTA at which others now wait, and the barrier of each lane."""
        barriers = self.residents.barriers
        key = lanes.cta * BARRIERS + number
        phase = barriers.phase[key]
        here = (self._phase[key] == phase) & (self._site[key] == self._sites.number(site)) & (self._expected[key] == 0)
        return np.flatnonzero(here & (barriers.arrived[key] > 0) & (self._came[number, lanes.place] != phase)), key

    def _found_missing(self, lanes: Any, past: Array, key: Array, number: int, site: Site, how: str, what: str) -> None:
        barrier = int(key[past[0]])
        mine = lanes.index[past][key[past] == barrier]
        before = self._arrived_before(barrier, np.empty(0, np.int64), site)
        line = self.collected.line(site)
        here = lanes.site if how == "skipped" else None
        groups = [
            *self.collected.groups(before, line, f"barrier {number}"),
            *self.collected.groups(mine, self.collected.line(here), "nothing"),
        ]
        self.collected.add(
            (id(site), how),
            DIVERGENT,
            f"{threads(len(before))} of CTA {self._cta(barrier)} {do(len(before), 'wait')} at barrier {number} (line {line}),"
            f" but {len(mine)} other{'s' if len(mine) != 1 else ''} {what}",
            site,
            {"waiting": groups, **({how: len(mine)} if how in ("exited", "left") else {})},
            severity=Severity.ERROR if here is not None else Severity.WARNING,
            related=[(here, "the other threads are here")] if here is not None else (),
            count=len(past),
        )

    # --- names

    def _cta(self, barrier: int) -> str:
        return spoken_index(self.collected.names.thread(self.residents.first + barrier // BARRIERS * self.residents.threads)[0])
