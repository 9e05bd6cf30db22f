"""A monitor that counts what a launch did and records which instructions read synthesized contents."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from ptxkit.analyses.execution.representatives import Classes, Representatives
from ptxkit.analyses.execution.unknown import UnknownFunctions
from ptxkit.isa.binding import Bound
from ptxkit.machine.asynchronous.arguments import named
from ptxkit.machine.fault import Stop
from ptxkit.machine.memory import CONST
from ptxkit.machine.memory.operands import SplitAddress
from ptxkit.machine.monitoring import Monitor, is_observed
from ptxkit.machine.polling import STRONG
from ptxkit.machine.values.distinct import distinct_numbers

MOST_FLAGS = 256
MOST = 0.7
"""The share of the instructions of a kernel that are most of them."""


class Observer(Monitor):
    """Counts what a run covers. `made` are the generic address ranges (start, end) of synthesized memory.

    If `classes` is given, one CTA of each class, and one of all other CTAs, represents the rest in shared memory.
    `held` are the ranges of variables of the module of which the user says what they hold.
    `unknown` synthesizes the results of undefined functions. With `first_lines`, only the first rows of matrices are read through
    descriptors. With `most_ctas`, only so many CTAs are started, the first ones of the grid.

    With `patience`, the launch ends as if its budget were used up once it only repeats itself: most instructions have been executed, and
    none for the first time for so many operations.
    """

    def __init__(
        self,
        made: tuple[tuple[int, int], ...] = (),
        classes: Classes | None = None,
        unknown: UnknownFunctions | None = None,
        first_lines: bool = False,
        most_ctas: int | None = None,
        held: tuple[tuple[int, int], ...] = (),
        patience: int | None = None,
    ) -> None:
        self.classes = classes
        self.most_ctas = most_ctas
        self.first_lines = first_lines
        self.unknown = unknown
        self.representatives: Representatives | None = None
        self.made = sorted(made)
        self.held = sorted(held)
        self.patience = patience
        self.program: Any = None
        self.shared = 0
        self.globals = 0
        self.completed = 0
        """How many CTAs ran to completion."""
        self.barriers = 0
        self.phases = 0
        self.copies = 0
        self.operations = 0
        """Cost of the launch, in the operations that a budget counts."""
        self.sources: dict[int, Any] = {}
        """The instructions that read synthesized contents, by `id`."""
        self.read: dict[int, dict[int, Any]] = {}
        """The same for each range of synthesized memory, by its start."""
        self.strong: dict[int, dict[int, Any]] = {}
        """Those of them that are atomics, or read with ordering semantics, by range."""
        self.extent: dict[int, int] = {}
        """How many bytes from its start the kernel reads of each."""
        self.preset: dict[int, Any] = {}
        """The instructions that read variables of the module that were not synthesized, but that the host may have overwritten."""
        self.flags: dict[int, int] = {}
        """Words of synthesized contents that were read with ordering semantics, as flags and locks are: address and size."""
        self.seen: set[int] = set()
        """The instructions that accessed memory or synchronized, by `id`."""
        self.depends_on_order = False
        """Whether an operation was executed whose outcome may depend on the schedule: an asynchronous operation, an atomic, or a strong
        read."""
        self.updates = False
        """Whether memory was updated by atomics, whose order may show in results of a correct kernel."""
        self._launch: Any = None
        self._last = 0
        """Number of operations before an instruction was first executed most recently."""
        self._placed = 0
        self._preset_ranges: list[tuple[int, int]] = []
        self._known: dict[int, tuple[bool, bool, bool, bool]] = {}
        self._parities: dict[tuple[int, int], int] = {}

    def begin(self, launch: Any) -> None:
        self._launch = launch
        self.program = launch.program
        launch.stand_in = self.unknown
        launch.first_lines = self.first_lines
        if self.most_ctas is not None:
            clusters = max(1, self.most_ctas // launch.cluster_size)
            launch.started_ctas = min(launch.ctas, clusters * launch.cluster_size)
        if self.classes is not None and launch.ctas > 1 and launch.cluster_size == 1 and not _has_flights(launch.program.entry):
            self.representatives = Representatives(launch, self.classes)
            launch.of_shared = self._of_shared

    @property
    def unknown_calls(self) -> dict[int, Any]:
        """The calls of undefined functions, by `id`."""
        return self.unknown.sites if self.unknown is not None else {}

    @property
    def unknown_names(self) -> tuple[str, ...]:
        """Names of the undefined functions."""
        return tuple(self.unknown.called) if self.unknown is not None else ()

    def _of_shared(self, access: Any) -> Any:
        count = access.lanes.count
        assert self.representatives is not None
        seen = self.representatives.seen(access)
        self.shared += count - (seen.lanes.count if seen is not None else 0)
        return seen

    def resident(self, residents: Any) -> None:
        self._parities.clear()
        if self.representatives is not None:
            self.representatives.resident(residents)

    def vacant(self, residents: Any) -> None:
        self.completed += residents.ctas

    def end(self, launch: Any) -> None:
        self.operations = launch.operations

    def access(self, access: Any) -> None:
        lanes = access.lanes
        count = int(getattr(lanes, "count", 1))
        if access.space == ".global":
            self.globals += count
        elif access.space.startswith(".shared"):
            self.shared += count
        elif access.space != ".const":
            return
        site = getattr(lanes, "site", None)
        if site is None:
            return
        self._see(site)
        self.updates |= access.kind not in ("read", "write")
        _, _, _, ordered = self._of(site)
        if ordered and access.kind != "write":
            self.depends_on_order = True
        if access.kind != "write" and not access.space.startswith(".shared"):
            base = CONST if access.space == ".const" else 0
            at = np.asarray(access.at)
            first, last = base + int(at.min()), base + int(at.max())
            for start in [start for start, end in self.made if start <= last and first < end]:
                self.sources.setdefault(id(site), site)
                self.read.setdefault(start, {})[id(site)] = site
                if ordered:
                    self.strong.setdefault(start, {})[id(site)] = site
                self.extent[start] = max(self.extent.get(start, 0), last - start + int(np.max(access.size)))
            if _overlap(self.made, first, last):
                if ordered and len(self.flags) < MOST_FLAGS:
                    self.flags.update(dict.fromkeys(distinct_numbers(access.at).tolist()[:MOST_FLAGS], int(access.size)))
            if _overlap(self._presets(), first, last):
                self.preset.setdefault(id(site), site)

    def _presets(self) -> list[tuple[int, int]]:
        """Address ranges of the module's variables, as far as they have been allocated."""
        code = self.program.code
        if len(code._addresses) != self._placed:
            self._placed = len(code._addresses)
            ranges = [*self.made, *self.held]
            self._preset_ranges = [(start, end) for start, end in code.placed() if not _overlap(ranges, start, end - 1)]
        return self._preset_ranges

    def instruction(self, lanes: Any, arguments: tuple[Any, ...]) -> None:
        self._see(lanes.site)
        if self.patience is not None and self._repeats_itself(self.patience):
            raise Stop("budget", "the launch only repeats what it has executed before")
        if self.representatives is not None and not lanes.site.bound.flow:
            self.representatives.synchronized(lanes, arguments)
        in_flight, _, _, _ = self._of(lanes.site)
        if in_flight:
            self.depends_on_order = True
            self.copies += lanes.count

    def _see(self, site: Any) -> None:
        if id(site) not in self.seen:
            self.seen.add(id(site))
            self._last = self._now

    @property
    def _now(self) -> int:
        """The number of operations so far."""
        return int(self._launch.operations + self._launch.scheduler.operations)

    def _repeats_itself(self, patience: int) -> bool:
        """Whether most instructions have been executed, and none for the first time for long."""
        return self._now > self._last + patience and self.has_seen_most

    @property
    def has_seen_most(self) -> bool:
        """Whether most instructions that access memory or synchronize were executed, in the functions that were entered."""
        return len(self.seen) >= MOST * self._count()

    def _count(self) -> int:
        """The number of instructions that access memory or synchronize, in the functions that were entered."""
        return sum([_count_of(body) for body in self.program.entered])

    def passed(self, lanes: Any, arguments: tuple[Any, ...], token: Any) -> None:
        _, barrier, wait, _ = self._of(lanes.site)
        if barrier:
            self.barriers += lanes.count
        elif wait:
            self.depends_on_order = True
            self._phase(lanes, arguments)

    def _phase(self, lanes: Any, arguments: tuple[Any, ...]) -> None:
        """Counts a wait at an mbarrier if it is for another phase than the previous wait."""
        bound = lanes.site.bound
        given = named(bound, arguments)
        address = given.get(next(one.operand for one in bound.barrier if one.action == "wait"))
        parity = given.get("parity", given.get("state"))
        if address is None or parity is None:
            return
        at, which = np.broadcast_arrays(np.atleast_1d(np.asarray(_whole(address))), np.atleast_1d(np.asarray(parity)))
        cta = lanes.cta if len(at) == lanes.count else lanes.cta[:1]
        for key in set(zip(cta.tolist(), at.tolist(), which.tolist(), strict=False)):
            if self._parities.get(key[:2]) != key[2]:
                self._parities[key[:2]] = key[2]
                self.phases += 1

    def _of(self, site: Any) -> tuple[bool, bool, bool, bool]:
        """Whether the instruction starts an asynchronous operation, is a barrier, waits at an mbarrier, and accesses memory with
        ordering semantics."""
        found = self._known.get(id(site))
        if found is None:
            found = self._known[id(site)] = _traits(site.bound)
        return found


def _count_of(body: Any) -> int:
    """The number of instructions of a function that access global or shared memory or synchronize."""
    found: int | None = body.known.get(_count_of)
    if found is None:
        bounds = map(body.bound, range(len(body.instructions)))
        found = body.known[_count_of] = sum([isinstance(bound, Bound) and _is_seen(bound) for bound in bounds])
    return found


@lru_cache(maxsize=4096)
def _is_seen(bound: Bound) -> bool:
    """Whether `Observer.seen` includes an instruction once it has been executed."""
    if bound.has(".param") or bound.has(".local"):
        return False
    return is_observed(bound) or bool(bound.memory)


def _has_flights(body: Any) -> bool:
    """Whether the function starts asynchronous operations."""
    return any(_traits(bound)[0] for bound in body.forms)


def _overlap(ranges: list[tuple[int, int]], first: int, last: int) -> bool:
    """Whether a range (start, end) has one of the bytes from `first` to `last`, both included."""
    return any(start <= last and first < end for start, end in ranges)


def _whole(address: Any) -> Any:
    """The address as one number, even if it comes as register and offset."""
    return address.address if isinstance(address, SplitAddress) else address


def _traits(bound: Any) -> tuple[bool, bool, bool, bool]:
    if not isinstance(bound, Bound):
        return False, False, False, False
    in_flight = any(memory.is_async for memory in bound.memory) or any(one.action == "open" for one in bound.asynchronous)
    waits = [bound.operand(one.operand) for one in bound.barrier if one.action == "wait"]
    on_object = any(operand is not None and operand.role == "addr" for operand in waits)
    ordered = bool(bound.writes) and any(memory.order.lstrip(".") in STRONG for memory in bound.memory if memory.order)
    return in_flight, bool(waits) and not on_object, on_object, ordered
