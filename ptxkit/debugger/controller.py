"""The debugger's monitor: it observes each statement before execution, and stops there on request."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from ptxkit.frozen import define, frozen
from ptxkit.machine.fault import Fault
from ptxkit.machine.monitoring import Monitor
from ptxkit.machine.operation import Operation
from ptxkit.syntax import Path

if TYPE_CHECKING:
    from ptxkit.debugger.program import Text
    from ptxkit.machine.code import Body
    from ptxkit.machine.findings import Finding
    from ptxkit.machine.interfaces import Launch, Residents

WARP = 32
Dimensions = tuple[int, int, int]


@frozen(eq=False)
class Plan:
    """Until when to run. Breakpoints, findings and faults stop the launch as well, except in plan `to`."""

    how: str = "continue"
    """`continue`; `entry`: until the chosen CTA begins; `to`: until the statement of a number; `into`, `over`, `out`: until these
    threads reach any statement, one of their function or a caller, or one of a caller."""
    threads: Any = None
    """The threads, by their index among the resident ones."""
    depth: int = 0
    """Their call depth."""
    line: tuple[str, int] | None = None
    """The source line to leave, for steps by source line."""
    number: int = 0


@define(eq=False)
class Breakpoint:
    """Statements to stop at, with a condition, which is called with the controller."""

    paths: frozenset[Path]
    condition: Callable[[Controller], bool] | None = None
    after: int = 1
    """The number of hits from which on it stops."""
    reason: str = "breakpoint"
    number: int = 0
    hits: int = 0


@frozen
class Stop:
    """Why a launch has stopped.

    `reason`: `entry`, `step`, `breakpoint`, `function breakpoint`, `pause`, `goto`, `finding`, `fault`, `end`.
    """

    reason: str
    text: str = ""
    warp: int = 0
    """The warp concerned, by its index in the chosen CTA."""
    breakpoint: int = 0
    finding: Finding | None = None
    fault: Fault | None = None


class Abandoned(BaseException):
    """Ends a launch that is not to continue; not a fault of the kernel."""


@define(eq=False)
class Trace:
    """The trace of the chosen CTA: the number of each statement, the instruction, the warps as bits, the call depth."""

    numbers: array[int] = attrs.field(factory=lambda: array("Q"))
    paths: array[int] = attrs.field(factory=lambda: array("I"))
    warps: array[int] = attrs.field(factory=lambda: array("I"))
    depths: array[int] = attrs.field(factory=lambda: array("I"))


class Controller(Monitor):
    """Observes one launch. `wait` is called, in the launch's thread, with each `Stop`, and returns the next plan or raises `Abandoned`."""

    steps = True

    def __init__(
        self,
        text: Text,
        cta: Dimensions,
        plan: Plan,
        breakpoints: list[Breakpoint],
        stops_on: frozenset[str],
        wait: Callable[[Stop], Plan],
    ) -> None:
        self.text = text
        self.cta = 0
        """The number of the chosen CTA in the launch."""
        self.index = cta
        self.plan = plan
        self.breakpoints = breakpoints
        self.stops_on = stops_on
        self.wait = wait
        self.launch: Launch = None
        self.residents: Residents = None
        self.number = 0
        """The number of the statement about to be executed."""
        self.lanes: Any = None
        self.body: Body | None = None
        self.i = 0
        self.held: list[Any] = []
        """The registers of `lanes`, by number."""
        self.trace = Trace()
        self.interrupted = False
        self.barriers: set[int] = set()
        """The barriers of CTAs that have been used."""
        self.mbarriers: dict[int, None] = {}
        """The locations at which mbarriers were initialized, as indices into the shared memory buffer."""
        self.is_over = False
        self._stands: Any = np.zeros(0, np.int64)
        """For each thread, the instruction at which it waits for others and whose arrival has been counted; -1: none."""
        self._paths: dict[Path, int] = {}
        self.paths: list[Path] = []
        self._waiting: dict[int, frozenset[int]] = {}
        self._known: set[Any] = set()
        self._seen: tuple[Any, int, int, int, int] = (None, 0, 0, 0, 0)
        self._stops: dict[int, dict[int, list[Breakpoint]]] = {}

    def changed(self) -> None:
        """Called when breakpoints have changed."""
        self._stops = {}

    # --- events

    def begin(self, launch: Launch) -> None:
        self.launch = launch
        self.cta = cta_number(launch, self.index)

    def resident(self, residents: Residents) -> None:
        before = len(self._stands) if self.residents is residents and residents.first == self._first else 0
        kept = self._stands[:before]
        self.residents, self._first = residents, residents.first
        self._stands = np.concatenate([kept, np.full(residents.count - before, -1, np.int64)])
        self._seen = (None, 0, 0, 0, 0)
        if not before:
            self.mbarriers = {}

    _first = -1

    def statement(self, lanes: Any, body: Body, i: int, registers: list[Any]) -> None:
        waiting = self._waiting.get(id(body))
        if waiting is None:
            waiting = self._waiting[id(body)] = frozenset([block.last for block in body.blocks if block.kind == "sync"])
        if i in waiting:
            if bool((self._stands[lanes.place] == i).all()):
                return  # they wait there, and others have arrived
            self._stands[lanes.place] = i
        self.number += 1
        self.lanes, self.body, self.i, self.held = lanes, body, i, registers
        first, _, warps = self.inside(lanes)
        if warps:
            self._note(body.sites[i].path, warps)
        plan = self.plan
        if plan.how == "to":
            if self.number >= plan.number:
                self.stop(Stop("goto", warp=self._warp(lanes, first)))
            return
        if self.interrupted:
            self.interrupted = False
            self.stop(Stop("pause", warp=self._warp(lanes, first)))
            return
        if not warps:
            return
        if plan.how == "entry":
            self.stop(Stop("entry", warp=self._warp(lanes, first)))
            return
        stops = self._stops.get(id(body))
        if stops is None:
            stops = self._stops[id(body)] = self._stops_of(body)
        for one in stops.get(i, ()):
            if self._hits(one):
                self.stop(Stop(one.reason, warp=self._warp(lanes, first), breakpoint=one.number))
                return
        if plan.how != "continue" and self._is_reached(plan, lanes, body, i):
            mine = lanes.place[np.isin(lanes.place, plan.threads)]
            self.stop(Stop("step", warp=int((mine[0] - self.base) // WARP)))

    def passed(self, lanes: Any, arguments: tuple[Any, ...], token: Any) -> None:
        self._stands[lanes.place] = -1

    def instruction(self, lanes: Any, arguments: tuple[Any, ...]) -> None:
        bound = lanes.site.bound
        if bound.form.mnemonic in ("bar", "barrier") and bound.barrier:
            self.barriers.update(np.ravel(arguments[0]).tolist())
        if bound.form.mnemonic != "mbarrier" or not bound.has(".init"):
            return
        memory = self.residents.memory
        for buffer, at, _ in memory.locate(lanes, Operation(bound).space("m"), arguments[0], 8, "write", watched=False):
            if buffer is memory.shared:
                self.mbarriers.update(dict.fromkeys(np.ravel(at).tolist()))

    def found(self) -> None:
        """Stops at a new finding of a monitor, if requested."""
        for finding in [one for monitor in self.launch.monitors for one in getattr(monitor, "findings", ())]:
            diagnostic = finding.diagnostic
            key = (diagnostic.rule, diagnostic.span, tuple([one.span for one in diagnostic.related]))
            if key in self._known:
                continue
            self._known.add(key)
            if diagnostic.severity != "info" and "findings" in self.stops_on and self.plan.how != "to":
                warp = self._follow(_first_thread(finding.witness))
                self.stop(Stop("finding", self.text.prose(f"{diagnostic.rule}: {diagnostic.message}"), warp, finding=finding))

    def fault(self, fault: Fault) -> None:
        if "faults" in self.stops_on and self.plan.how != "to":
            warp = self._follow(fault.threads[0] if fault.threads else None)
            self.stop(Stop("fault", self.text.prose(str(fault)), warp, fault=fault))

    def end(self, launch: Launch) -> None:
        self.is_over = True

    # --- where the chosen CTA is

    @property
    def base(self) -> int:
        """The index among resident threads of the first thread of the chosen CTA; out of range if it is not resident."""
        return int((self.cta - self.residents.first_cta) * self.residents.threads)

    def inside(self, lanes: Any) -> tuple[int, int, int]:
        """The given lanes that belong to the chosen CTA: their first and last position (exclusive), and their warps as bits."""
        seen = self._seen
        if seen[0] is lanes and seen[4] == self.cta:
            return seen[1], seen[2], seen[3]
        base = self.base
        first, end = np.searchsorted(lanes.place, (base, base + self.residents.threads)).tolist()
        warps = 0
        for warp in np.unique((lanes.place[first:end] - base) // WARP).tolist():
            warps |= 1 << warp
        self._seen = (lanes, first, end, warps, self.cta)
        return first, end, warps

    def choose(self, index: Dimensions) -> None:
        """Selects another CTA."""
        self.index, self.cta = index, cta_number(self.launch, index)
        self.trace = Trace()

    def _warp(self, lanes: Any, first: int) -> int:
        """The warp of the lane at a position; 0 if it is outside the chosen CTA."""
        warp = (int(lanes.place[min(first, lanes.count - 1)]) - self.base) // WARP
        return warp if 0 <= warp * WARP < self.residents.threads else 0

    def _follow(self, thread: Any) -> int:
        """Selects the CTA of a thread, if it is another one; returns the thread's warp."""
        if thread is None or self.residents is None:
            return 0
        cta, index = thread
        number = cta_number(self.launch, cta)
        if number != self.cta:
            self.choose(cta)
        x, y, _ = self.launch.block
        return int(index[0] + x * (index[1] + y * index[2])) // WARP

    # --- whether to stop

    @property
    def depth(self) -> int:
        """The call depth of the current statement."""
        frame = self.launch.scheduler.current.frame
        return frame.depth if frame is not None else 0

    def _note(self, path: Path, warps: int) -> None:
        number = self._paths.get(path)
        if number is None:
            number = self._paths[path] = len(self.paths)
            self.paths.append(path)
        trace = self.trace
        trace.numbers.append(self.number)
        trace.paths.append(number)
        trace.warps.append(warps)
        trace.depths.append(self.depth)

    def _stops_of(self, body: Body) -> dict[int, list[Breakpoint]]:
        wanted: dict[Path, list[Breakpoint]] = {}
        for one in self.breakpoints:
            for path in one.paths:
                wanted.setdefault(path, []).append(one)
        return {i: wanted[site.path] for i, site in enumerate(body.sites) if site.path in wanted}

    def _hits(self, one: Breakpoint) -> bool:
        if one.condition is not None and not one.condition(self):
            return False
        one.hits += 1
        return one.hits >= one.after

    def _is_reached(self, plan: Plan, lanes: Any, body: Body, i: int) -> bool:
        if not np.isin(lanes.place, plan.threads).any():
            return False
        depth = self.depth
        if depth > plan.depth:
            return plan.how == "into" and (plan.line is None or self._line(body, i) is not None)
        if plan.how == "out" and depth == plan.depth:
            return False
        return depth < plan.depth or plan.line is None or self._line(body, i) not in (None, plan.line)

    def _line(self, body: Body, i: int) -> tuple[str, int] | None:
        from ptxkit.debugger.program import shown

        known = self.text.by_path.get(body.sites[i].path)
        if known is None or known.origin is None:
            return None
        origin = shown(known.origin)
        return origin.path, origin.line

    def stop(self, stop: Stop) -> None:
        """Waits for the next plan."""
        self.plan = self.wait(stop)


def cta_number(launch: Launch, index: Dimensions) -> int:
    """The number in the launch of the CTA with an index in the grid: those of a cluster are consecutive."""
    outside = [i // n for i, n in zip(index, launch.cluster, strict=True)]
    inside = [i % n for i, n in zip(index, launch.cluster, strict=True)]
    return int(_linear(outside, launch.clusters) * launch.cluster_size + _linear(inside, launch.cluster))


def _linear(index: Sequence[int], size: Sequence[int]) -> int:
    return index[0] + size[0] * (index[1] + size[1] * index[2])


def _first_thread(witness: Any) -> Any:
    """The CTA and thread of the last access of a witness, or of the first of its groups; None if it names none."""
    for one in reversed(witness.get("accesses", ())):
        return tuple(one["cta"]), tuple(one["thread"])
    for one in witness.get("waiting", ()):
        return tuple(one["cta"]), tuple(one["threads"][0])
    return None
