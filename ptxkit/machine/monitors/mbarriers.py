"""Monitors mbarriers in shared memory (ISA 9.7.14.15), and shared memory of CTAs that have exited.

| rule | condition | | --- | --- | | M001 | an operation on bytes that no thread has initialized as an mbarrier | | M002, M003 | a use of an
mbarrier that is unordered with its initialization: in its CTA, in another CTA of the cluster | | M004 | an mbarrier is initialized while it
is in use | | M005 | more threads arrive than the phase has pending, or fewer while others wait forever | | M006, M007 | expected bytes do
not arrive; bytes arrive that are not expected, or in a later phase | | M009 | a wait for a phase at which no thread arrives | | M011 | the
bytes of an mbarrier are accessed as data; an mbarrier is used after mbarrier.inval | | M013, M015 | an invalid count; an arrival completes
a phase that it must not complete | | M016 | a wait for a parity that is neither 0 nor 1 | | T005 | a wait for tcgen05 operations that have
not been committed | | M020 | an arrival at an mbarrier of another CTA that only releases to its own CTA | | G004 | an access to shared
memory of a CTA that has exited, or may have: the access is unordered with its exit |

Whether a thread knows of an initialization or access follows from synchronization, as for races (the knowledge of `races` is used if that
monitor is active). A wait for the wrong parity that returns at once is not detected here, but the premature read that follows is (`races`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from ptxkit.diagnostics import Severity
from ptxkit.isa.binding import Bound
from ptxkit.isa.mismatch import Mismatch
from ptxkit.machine.asynchronous import mbarrier as objects
from ptxkit.machine.asynchronous.arguments import located, named, order
from ptxkit.machine.fault import Fault, Wait, spoken_index
from ptxkit.machine.groups import WARP
from ptxkit.machine.monitoring import Monitor
from ptxkit.machine.monitors import deadlocks
from ptxkit.machine.monitors.collected import DOES, Collected, Rule, bytes_of, spoken_thread, threads
from ptxkit.machine.monitors.deadlocks import is_mbarrier_wait, spoken_mbarrier
from ptxkit.machine.monitors.ordering import Ordering
from ptxkit.machine.monitors.races import Races
from ptxkit.machine.monitors.sites import Sites
from ptxkit.machine.values.distinct import are_among, distinct_numbers

if TYPE_CHECKING:
    from ptxkit.machine.asynchronous.agents import Flight
    from ptxkit.machine.code import Site
    from ptxkit.machine.findings import Finding
    from ptxkit.machine.interfaces import Launch, Residents
    from ptxkit.machine.memory import Access

Array = np.ndarray[Any, Any]
BEFORE_INIT: Rule = ("M001", "mbarrier-use-before-init")
NOT_PUBLISHED: Rule = ("M002", "mbarrier-init-not-published")
NOT_FENCED: Rule = ("M003", "mbarrier-init-fence")
TWICE: Rule = ("M004", "mbarrier-double-init")
ARRIVALS: Rule = ("M005", "mbarrier-arrive-count")
BYTES: Rule = ("M006", "expect-tx-vs-bytes")
UNEXPECTED: Rule = ("M007", "tx-without-expect")
REUSED: Rule = ("M011", "mbarrier-storage-reuse")
RANGE: Rule = ("M013", "mbarrier-count-range")
COMPLETES: Rule = ("M015", "no-complete-completes-phase")
PARITY: Rule = ("M016", "mbarrier-parity-range")
SCOPE: Rule = ("M020", "mbarrier-scope-too-narrow")
NOT_COMMITTED: Rule = ("T005", "tcgen05-mma-not-committed")
OWNER_ENDED: Rule = ("G004", "dsmem-owner-may-exit")
NEVER = 1 << 60
_ALLOTTED = 8
"""Size of an mbarrier in bytes."""


class _Order(Ordering):
    """Happens-before, as far as mbarriers need it."""

    def _access(self, access: Access, space: str, kind: Any) -> None:
        if space == ".global" and self.launch.cluster_size == 1:
            # threads of one CTA signal by barriers and mbarriers that an mbarrier is ready, hardly ever by flags in global memory
            return
        if access.lanes.site.bound.form.mnemonic == "mbarrier":
            # the ordering effect of mbarrier operations is tracked elsewhere
            return
        super()._access(access, space, kind)


class Mbarriers(Monitor):
    """Monitors mbarriers, and accesses to shared memory of other CTAs in a cluster."""

    residents: Residents
    order: Ordering
    _live: Array
    _awaited: Array
    _fenced: Array
    _passed: Array
    _arrived: Array
    _thread: Array
    _stamp: Array
    _site: Array
    _remote: Array
    _remote_site: Array

    def begin(self, launch: Launch) -> None:
        self.launch = launch
        self.collected = Collected(launch)
        shared = next((monitor for monitor in launch.monitors if isinstance(monitor, Races)), None)
        self.order = shared if shared is not None else _Order()
        self._idle = launch.cluster_size == 1 and not any(
            bound.completes or _is_operation(bound) for body in launch.program.entered for bound in body.forms
        )
        """Whether there is nothing to watch, as no function that the kernel may come to has anything of it."""
        self._leads = shared is None and not self._idle
        if self._leads:
            self.order.begin(launch)
        self._first = -1
        self._sites = Sites()
        self._polled: dict[int, Wait] = {}
        self._uncommitted: set[int] = set()
        """The CTAs of which tcgen05 operations have been started and not been committed to an mbarrier."""
        self._arriving: dict[str, dict[int, None]] = {}
        """By what an mbarrier is called the lines of what has arrived at it."""

    @property
    def findings(self) -> list[Finding]:
        return self.collected.findings

    def resident(self, residents: Residents) -> None:
        if self._leads:
            self.order.resident(residents)
        words = len(self.launch.machine.memory.shared.data) // _ALLOTTED
        if self._first == residents.first and residents.count > len(self._fenced):
            more, wider = words - len(self._live), residents.count - len(self._fenced)
            self._live = np.concatenate([self._live, np.zeros(more, bool)])
            self._awaited = np.concatenate([self._awaited, np.zeros(more, bool)])
            self._thread, self._stamp, self._site = [
                np.concatenate([column, np.full(more, -1)]) for column in (self._thread, self._stamp, self._site)
            ]
            self._fenced, self._passed = [np.concatenate([column, np.full(wider, -1)]) for column in (self._fenced, self._passed)]
            self._arrived = np.concatenate([self._arrived, np.full(wider, NEVER)])
            self._remote = np.concatenate([self._remote, np.full((len(self._remote), wider), -1)], axis=1)
            self._remote_site = np.concatenate([self._remote_site, np.full((len(self._remote), wider), -1)], axis=1)
            return
        self.residents, self._first = residents, residents.first
        self._live = np.zeros(words, bool)
        """By eight bytes of shared memory, whether they are an object."""
        self._awaited = np.zeros(words, bool)
        """By eight bytes of shared memory, whether a thread has tested the phase of an mbarrier there."""
        self._thread, self._stamp, self._site = [np.full(words, -1) for _ in range(3)]
        """Who initialized or invalidated it last, when, and where."""
        self._any = False
        self._fenced, self._passed = np.full((2, residents.count), -1)
        self._arrived = np.full(residents.count, NEVER)
        """Of each thread: its last fence of initializations; the phase of its cluster's barrier for which it waited last, and that at
        which it arrived first after the fence."""
        self._began: dict[int, tuple[Flight, Array]] = {}
        """The parities of the mbarriers of what is in flight when it began; with the flight, so that no other gets its `id`."""
        ranks = self.launch.cluster_size if self.launch.cluster_size > 1 else 0
        self._remote = np.full((ranks, residents.count if ranks else 0), -1)
        """By the rank of a CTA and by thread, when the thread accessed shared memory of that CTA last."""
        self._remote_site = np.full((ranks, residents.count if ranks else 0), -1)

    # --- operations on an mbarrier

    def instruction(self, lanes: Any, arguments: tuple[Any, ...]) -> None:
        if self._idle:
            return
        bound = lanes.site.bound
        if bound.form.mnemonic == "mbarrier":
            given = named(bound, arguments)
            if "m" in given:
                self._operation(lanes, bound, given)
        elif "init-fence" in bound.effects:
            self._fenced[lanes.place] = self.order.knowledge.stamp
            self._arrived[lanes.place] = NEVER
        elif any(one.action == "commit" and one.group == "tcgen05" for one in bound.asynchronous):
            self._uncommitted.difference_update(lanes.cta.tolist())
        elif bound.has(".cluster") and any(barrier.action == "arrive" for barrier in bound.barrier):
            phase = self.residents.cluster_barriers.phase[lanes.cta // self.launch.cluster_size]
            self._arrived[lanes.place] = np.minimum(self._arrived[lanes.place], phase)
        if self._leads:
            self.order.instruction(lanes, arguments)

    def passed(self, lanes: Any, arguments: tuple[Any, ...], token: Any) -> None:
        if self._idle:
            return
        bound = lanes.site.bound
        if token is not None and bound.has(".cluster") and any(barrier.action == "wait" for barrier in bound.barrier):
            self._passed[lanes.place] = token[1]
        if self._leads:
            self.order.passed(lanes, arguments, token)

    def _operation(self, lanes: Any, bound: Bound, given: dict[str, Any]) -> None:
        at = located(lanes, bound, given["m"], "m")
        word = at >> 3
        if bound.has(".init"):
            self._init(lanes, word)
            return
        if bound.has(".check_layout"):
            return
        self._used(lanes, at, word)
        if bound.has(".inval"):
            self._live[word] = False
            self._note(lanes, word)
            return
        if bound.has(".arrive") or bound.has(".arrive_drop") or bound.has(".complete_tx"):
            for one in distinct_numbers(at).tolist():
                self._arriving.setdefault(f"mbarrier {spoken_mbarrier(self.collected, one)}", {})[self.collected.line(lanes.site)] = None
        if bound.has(".arrive") or bound.has(".arrive_drop"):
            self._arrive(lanes, bound, given, at, word)
        if bound.has(".test_wait") or bound.has(".try_wait"):
            self._awaited[word] = True
            names = order(bound)
            self._polled[id(lanes.site)] = Wait(lanes, lanes.site, tuple([given[name] for name in names]))
            self._parity(lanes, at, given.get("parity", 0))

    def _parity(self, lanes: Any, at: Array, parity: Any) -> None:
        """Checks the parity of a wait. A warning: only older manuals say that it is 0 or 1 (9.7.14.15.16)."""
        wrong = np.flatnonzero(np.broadcast_to(np.asarray(parity) > 1, lanes.count))
        cause = (id(lanes.site), "parity")
        if not len(wrong) or self.collected.knows(cause, len(wrong)):
            return
        lane = int(wrong[0])
        value = int(np.broadcast_to(parity, lanes.count)[lane])
        message = f"{self._who(lanes, lane)} waits for a phase of parity {value}: a parity is 0 or 1"
        self._found(cause, PARITY, message, lanes, lane, int(at[lane]), "read", len(wrong), severity=Severity.WARNING)

    def _note(self, lanes: Any, word: Array) -> None:
        self._thread[word] = lanes.index
        self._stamp[word] = self.order.knowledge.stamp
        self._site[word] = self._sites.number(lanes.site)

    def _init(self, lanes: Any, word: Array) -> None:
        self._any = True
        again = np.flatnonzero(self._live[word])
        first = np.unique(word, return_index=True)[1]
        together = np.setdiff1d(np.arange(lanes.count), first) if len(first) < lanes.count else again[:0]
        if len(together):
            lane = int(together[0])
            name = spoken_mbarrier(self.collected, int(word[lane]) << 3)
            message = f"{threads(int((word == word[lane]).sum()))} initialize mbarrier {name} at once, {self._who(lanes, lane)} among them"
            self._found((id(lanes.site), "together"), TWICE, message, lanes, lane, int(word[lane]) << 3, "write", len(together))
        elif len(again):
            lane = int(again[0])
            site = self._sites[int(self._site[word[lane]])]
            name = spoken_mbarrier(self.collected, int(word[lane]) << 3)
            message = (
                f"{self._who(lanes, lane)} initializes mbarrier {name} again, which line {self.collected.line(site)} has initialized:"
                " mbarrier.inval must come first"
            )
            self._found((id(lanes.site), "again"), TWICE, message, lanes, lane, int(word[lane]) << 3, "write", len(again), site)
        self._live[word] = True
        self._note(lanes, word)

    def _used(self, lanes: Any, at: Array, word: Array) -> None:
        """Checks that the operand is an mbarrier, and that its initialization is known to the thread that uses it."""
        dead = np.flatnonzero(~self._live[word])
        if len(dead):
            lane = int(dead[0])
            name, before = spoken_mbarrier(self.collected, int(at[lane])), int(self._site[word[lane]])
            held = self.launch.machine.memory.shared.view(np.dtype(np.uint64))[word[lane]]
            if before < 0 and bool(objects.is_one(held)):
                return
            what = f"`{lanes.site.bound.opcode}` on {name}"
            rule, site, why = BEFORE_INIT, None, "where no thread has executed mbarrier.init"
            if before >= 0:
                rule, site = REUSED, self._sites[before]
                how = "mbarrier.inval" if self._is_inval(site) else "it was overwritten"
                why = f"which has not been an mbarrier since {how} on line {self.collected.line(site)}"
            message = f"{self._who(lanes, lane)} executes {what}, {why}"
            self._found((id(lanes.site), "dead"), rule, message, lanes, lane, int(at[lane]), "update", len(dead), site)
        knowledge = self.order.knowledge
        by, stamp = self._thread[word], self._stamp[word]
        unknown = (by >= 0) & self._live[word] & ~knowledge.known(lanes.place, by, stamp)
        if unknown.any():
            who = np.maximum(by - self.residents.first, 0)
            size = self.launch.cluster_size * self.residents.threads
            near = who // size == lanes.place // size
            unknown &= ~(near & (self._fenced[who] >= stamp) & (self._arrived[who] <= self._passed[lanes.place]))
        if not unknown.any():
            return
        lane = int(np.flatnonzero(unknown)[0])
        site, other = self._sites[int(self._site[word[lane]])], int(by[lane])
        apart = other // self.residents.threads != int(lanes.index[lane]) // self.residents.threads
        name = spoken_mbarrier(self.collected, int(at[lane]))
        cure = "fence.mbarrier_init and a cluster barrier are" if apart else "a barrier is"
        message = (
            f"{self._who(lanes, lane)} uses mbarrier {name}, and nothing orders its initialization"
            f" (line {self.collected.line(site)}) before that: {cure} needed"
        )
        cause = (id(site), id(lanes.site), apart)
        self._found(
            cause, NOT_FENCED if apart else NOT_PUBLISHED, message, lanes, lane, int(at[lane]), "update", int(unknown.sum()), site, other
        )

    def _is_inval(self, site: Site) -> bool:
        return isinstance(site.bound, Bound) and site.bound.has(".inval")

    def _arrive(self, lanes: Any, bound: Bound, given: dict[str, Any], at: Array, word: Array) -> None:
        count = np.broadcast_to(np.asarray(1 if given.get("count") is None else given["count"]).astype(np.int64), lanes.count)
        held = self.launch.machine.memory.shared.view(np.dtype(np.uint64))
        places, which = np.unique(word, return_inverse=True)
        total = np.bincount(which.reshape(-1), count, minlength=len(places)).astype(np.int64)
        pending = np.atleast_1d(objects.pending(held[places]))
        over = np.flatnonzero((total > pending) & self._live[places] & np.atleast_1d(objects.is_one(held[places])))
        if len(over):
            one = int(places[over[0]])
            lane = int(np.flatnonzero(word == one)[0])
            name = spoken_mbarrier(self.collected, one << 3)
            message = (
                f"{int(total[over[0]])} arrivals at once at mbarrier {name}, the first by {self._who(lanes, lane)}, but its phase expects"
                f" only {int(pending[over[0]])} more: the others count toward the next phase"
            )
            state = {"arrivals": int(total[over[0]])}
            self._found((id(lanes.site), "over"), ARRIVALS, message, lanes, lane, one << 3, "update", len(over), state=state)
        if self.launch.cluster_size > 1 and bound.has(".cta") and not bound.has(".relaxed"):
            remote = np.flatnonzero(at // self.launch.machine.memory.shared_stride != lanes.cta)
            if len(remote):
                lane = int(remote[0])
                message = (
                    f"{self._who(lanes, lane)} arrives at mbarrier {spoken_mbarrier(self.collected, int(at[lane]))} of another CTA, but"
                    " releases only to its own CTA: .cluster is needed"
                )
                self._found(
                    (id(lanes.site), "scope"), SCOPE, message, lanes, lane, int(at[lane]), "update", len(remote), severity=Severity.WARNING
                )

    # --- bytes

    def access(self, access: Access) -> None:
        if self._idle:
            return
        if self._leads:
            self.order.access(access)
        if not access.space.startswith(".shared"):
            return
        lanes = access.lanes
        site = getattr(lanes, "site", None)
        if site is None:
            return
        if len(self._remote):
            self._far(access, site)
        if not self._any or _is_operation(site.bound):
            return
        at, size = access.at, access.size
        if size > 2 * _ALLOTTED:
            touched = np.array([self._live[one >> 3 : (one + size + 7) >> 3].any() for one in np.atleast_1d(at).tolist()])
        else:
            touched = np.atleast_1d(self._live[at >> 3] | self._live[(at + size - 1) >> 3])
        if not touched.any() or (access.kind == "update" and site.bound.asynchronous):
            return
        touched = np.broadcast_to(touched, lanes.count)
        lane = int(np.flatnonzero(touched)[0])
        first = int(np.broadcast_to(at, lanes.count)[lane])
        words = np.arange(first >> 3, (first + size + 7) >> 3)
        word = int(words[self._live[words]][0])
        init = self._sites[int(self._site[word])]
        if access.kind == "write":
            every = distinct_numbers(np.broadcast_to(at, lanes.count)[touched] >> 3)
            self._live[every] = False
            self._live[words] = False
            self._site[every] = self._site[words] = self._sites.number(site)
        name = spoken_mbarrier(self.collected, word << 3)
        message = (
            f"{self._who(lanes, lane)} {DOES[access.kind]} {bytes_of(size)} as data over mbarrier {name}, initialized on line"
            f" {self.collected.line(init)}: mbarrier.inval must come first"
        )
        self._found((id(site), "data"), REUSED, message, lanes, lane, word << 3, access.kind, int(touched.sum()), init)

    # --- copies that signal

    def started(self, flight: Flight) -> None:
        if flight.queue == "tcgen05":
            self._uncommitted.update(flight.lanes.cta.tolist())
        if flight.signals is None:
            return
        held = self.launch.machine.memory.shared.view(np.dtype(np.uint64))
        there = np.maximum(flight.signals, 0)
        parity = np.asarray(objects.parity(held[there >> 3])).astype(np.int64)
        self._began[id(flight)] = (flight, np.where(flight.signals >= 0, parity, -1))
        lanes = flight.lanes
        for column in range(flight.signals.shape[1]):
            mine = np.flatnonzero(flight.signals[:, column] >= 0)
            if len(mine):
                at = flight.signals[mine, column]
                self._used(lanes.at(mine), at, at >> 3)
        line = self.collected.line(lanes.site)
        for one in distinct_numbers(flight.signals[flight.signals >= 0]).tolist():
            self._arriving.setdefault(f"mbarrier {spoken_mbarrier(self.collected, one)}", {})[line] = None

    def landing(self, flight: Flight, positions: Array) -> None:
        if id(flight) not in self._began or flight.signals is None or flight.after:
            return
        began = self._began[id(flight)][1]
        if not flight.flying.any():
            del self._began[id(flight)]
        held = self.launch.machine.memory.shared.view(np.dtype(np.uint64))
        signals = flight.signals[positions]
        now = np.asarray(objects.parity(held[np.maximum(signals, 0) >> 3])).astype(np.int64)
        late = np.argwhere((signals >= 0) & (began[positions] >= 0) & (now != began[positions]) & self._live[np.maximum(signals, 0) >> 3])
        if not len(late):
            return
        lane, at = int(positions[late[0][0]]), int(signals[tuple(late[0])])
        message = (
            f"the copy of {self._who(flight.lanes, lane)} ends in a later phase of {spoken_mbarrier(self.collected, at)} than it began in:"
            " no expect_tx kept that phase open"
        )
        self._found((id(flight.lanes.site), "late"), UNEXPECTED, message, flight.lanes, lane, at, "update", len(late))

    def vacant(self, residents: Residents) -> None:
        if self._leads:
            self.order.vacant(residents)
        live = np.flatnonzero(self._live)
        if not len(live):
            return
        left = np.atleast_1d(objects.transactions(self.launch.machine.memory.shared.view(np.dtype(np.uint64))[live]))
        # bytes that no thread waits for delay nothing
        for rule, mask in ((BYTES, (left > 0) & self._awaited[live]), (UNEXPECTED, left < 0)):
            some = np.flatnonzero(mask)
            if not len(some):
                continue
            word, tx = int(live[some[0]]), int(left[some[0]])
            site = self._sites[int(self._site[word])]
            name = spoken_mbarrier(self.collected, word << 3)
            what = f"expects {tx} bytes that never arrive" if tx > 0 else f"has received {-tx} bytes that it did not expect"
            cta, thread = self.collected.names.thread(int(self._thread[word]))
            side = {"cta": list(cta), "thread": list(thread), "line": self.collected.line(site), "kind": "write"}
            message = f"mbarrier {name} of CTA {spoken_index(cta)} {what} when its CTA ends"
            self.collected.add(
                (id(site), rule, "left"), rule, message, site, {"accesses": [side], **self._where(word << 3)}, count=len(some)
            )

    # --- shared memory of other CTAs

    def _far(self, access: Access, site: Site) -> None:
        """Records accesses to shared memory of other CTAs, and reports those to CTAs that have exited."""
        lanes, residents = access.lanes, self.residents
        owner = np.broadcast_to(access.at, lanes.count) // self.launch.machine.memory.shared_stride
        far = np.flatnonzero(owner != lanes.cta)
        if not len(far):
            return
        gone = far[residents.alive_of_cta[owner[far]] == 0]
        if len(gone):
            lane = int(gone[0])
            at = int(np.broadcast_to(access.at, lanes.count)[lane])
            message = f"{self._who(lanes, lane)} {DOES[access.kind]} shared memory of CTA {self._cta(int(owner[lane]))}, which has exited"
            self._found((id(site), "gone"), OWNER_ENDED, message, lanes, lane, at, access.kind, len(gone))
        assert isinstance(site.bound, Bound)
        if site.bound.asynchronous or site.bound.completes or any(memory.is_async for memory in site.bound.memory):
            return
        rank = owner[far] % self.launch.cluster_size
        # a thread that waits for an arrival knows of it; the mbarrier was published before
        self._remote[rank, lanes.place[far]] = self.order.knowledge.stamp - _is_operation(site.bound)
        self._remote_site[rank, lanes.place[far]] = self._sites.number(site)

    def exit(self, lanes: Any) -> None:
        """When the last threads of a CTA exit, accesses of other CTAs to its shared memory must happen before."""
        if not len(self._remote):
            return
        residents = self.residents
        ending = np.flatnonzero(np.bincount(lanes.cta, minlength=residents.ctas) == residents.alive_of_cta)
        for cta in ending[residents.alive_of_cta[ending] > 0].tolist():
            self._ends(lanes, cta)

    def _ends(self, lanes: Any, cta: int) -> None:
        size, per_cta = self.launch.cluster_size, self.residents.threads
        first = cta // size * size * per_cta
        others = slice(first, first + size * per_cta)
        rank = cta % size
        there = first + np.flatnonzero(self._remote[rank, others] >= 0)
        if not len(there):
            return
        # of the threads of a warp that did the same, the last one
        warps = there // per_cta * self.residents.warps_per_cta + there % per_cta // WARP
        latest = np.lexsort((self._remote[rank, there], warps))
        chosen = there[latest[np.append(warps[latest][1:] != warps[latest][:-1], True)]]
        mine = np.arange(cta * per_cta, (cta + 1) * per_cta)
        for place in chosen.tolist():
            stamp = int(self._remote[rank, place])
            known = self.order.knowledge.known(mine, np.full(per_cta, place + self.residents.first), np.full(per_cta, stamp))
            if known.any():
                continue
            site = self._sites[int(self._remote_site[rank, place])]
            if self.collected.knows((id(site), "may end")):
                return
            who = self.collected.names.thread(place + self.residents.first)
            message = f"{spoken_thread(*who)} accesses shared memory of CTA {self._cta(cta)}, which may have exited by then"
            side = {"cta": list(who[0]), "thread": list(who[1]), "line": self.collected.line(site), "kind": "access"}
            ends = self.collected.access(lanes, int(np.flatnonzero(lanes.cta == cta)[0]), "exit", None)
            witness = {"accesses": [side, ends], "space": "shared", "variable": "", "offset": 0, "bytes": 0}
            self.collected.add((id(site), "may end"), OWNER_ENDED, message, site, witness)
            return

    # --- faults

    def speaks_for(self, fault: Fault) -> bool:
        """Whether threads of a deadlock wait for mbarriers."""
        return fault.kind in deadlocks.KINDS and (any(is_mbarrier_wait(wait) for wait in fault.waits) or bool(self._polling(fault)))

    def fault(self, fault: Fault) -> None:
        if self._first < 0:
            return
        if self.speaks_for(fault):
            polled = self._polling(fault)
            waits = tuple([wait for wait in fault.waits if not (wait.iterates and polled)])
            could = {name: sorted(lines) for name, lines in self._arriving.items()}
            groups = [self._not_committed(group) for group in deadlocks.waiting(self.collected, (*waits, *polled))]
            named = {group.what for group in groups}
            deadlocks.report(self.collected, fault, groups, {name: lines for name, lines in could.items() if name in named}, True)
        elif fault.kind == "mbarrier" and fault.threads:
            self._refused(fault)

    def _not_committed(self, group: deadlocks.Waiting) -> deadlocks.Waiting:
        """Threads that wait in a CTA whose MMAs are in no group: the commit would arrive."""
        is_lacking = group.rule == deadlocks.NEVER_ARRIVED and self._uncommitted.issuperset(group.wait.lanes.cta.tolist())
        return attrs.evolve(group, rule=NOT_COMMITTED) if is_lacking else group

    def _polling(self, fault: Fault) -> tuple[Wait, ...]:
        """The phase tests that iterating threads have executed last."""
        iterating = [wait.lanes.place for wait in fault.waits if wait.iterates]
        if not iterating:
            return ()
        places = np.concatenate(iterating)
        return tuple([wait for wait in self._polled.values() if are_among(wait.lanes.place, places).any()])

    def _refused(self, fault: Fault) -> None:
        """Reports an undefined operation."""
        rule = _REFUSED.get(fault.why, BEFORE_INIT)
        span = fault.diagnostic.span
        if any(finding.diagnostic.span == span for finding in self.findings):
            return
        cta, thread = fault.threads[0]
        side = {"cta": list(cta), "thread": list(thread), "line": fault.line or 0, "kind": "update"}
        witness = {"accesses": [side], "space": "shared", "variable": "", "offset": 0, "bytes": _ALLOTTED}
        self.collected.add(
            ("fault", fault.line), rule, f"{spoken_thread(cta, thread)}: {fault.reason}", None, witness, span=span, count=fault.count
        )

    # --- findings

    def _found(
        self,
        cause: Any,
        rule: Rule,
        message: str,
        lanes: Any,
        lane: int,
        at: int,
        kind: str,
        count: int,
        site: Site | None = None,
        other: int | None = None,
        severity: Severity = Severity.ERROR,
        state: Mapping[str, int] | None = None,
    ) -> None:
        sides = []
        if site is not None:
            who = other if other is not None else int(self._thread[at >> 3])
            cta, thread = self.collected.names.thread(max(who, 0))
            sides.append({"cta": list(cta), "thread": list(thread), "line": self.collected.line(site), "kind": "write"})
        sides.append(self.collected.access(lanes, lane, kind, lanes.site))
        before = "the mbarrier was last initialized, invalidated or overwritten here"
        related = [(site, before)] if site is not None and site is not lanes.site else []
        witness = {"accesses": sides, **self._where(at), **(state or {})}
        self.collected.add(cause, rule, message, lanes.site, witness, related=related, count=count, severity=severity)

    def _where(self, at: int) -> dict[str, Any]:
        variable, offset = self.collected.names.variable(".shared", at)
        return {"space": "shared", "variable": variable, "offset": offset, "bytes": _ALLOTTED}

    def _who(self, lanes: Any, lane: int) -> str:
        return spoken_thread(*self.collected.thread(lanes, lane))

    def _cta(self, cta: int) -> str:
        return spoken_index(self.collected.names.thread(self.residents.first + cta * self.residents.threads)[0])


_REFUSED = {"count": RANGE, "completes": COMPLETES, "arrivals": ARRIVALS, "bytes": BYTES}
"""The rules that undefined operations violate, by `Fault.why`."""


def _is_operation(bound: Bound | Mismatch) -> bool:
    """Whether an instruction operates on mbarriers."""
    if not isinstance(bound, Bound) or not bound.barrier:
        return isinstance(bound, Bound) and bound.form.mnemonic == "mbarrier"
    operand = bound.operand(bound.barrier[0].operand)
    return operand is not None and operand.role == "addr"
