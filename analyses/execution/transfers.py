"""A monitor that compares the bytes that copies signal to mbarriers with the bytes that these expect (9.7.9.25.5, 9.7.14.15.5)."""

from __future__ import annotations

from collections import Counter
from typing import Any

import attrs
import numpy as np

from ptxkit.frozen import define
from ptxkit.isa.binding import Bound
from ptxkit.machine.asynchronous import mbarrier
from ptxkit.machine.asynchronous.arguments import located, named, order
from ptxkit.machine.asynchronous.tensor_maps import described
from ptxkit.machine.fault import Stop
from ptxkit.machine.monitoring import Monitor

MOST_PHASES, MOST_COPIES = 3, 512
"""Maximum number of phases that are recorded for each mbarrier, and of copies in all."""
ENOUGH = 1000
"""Operations in which other phases show, if there are any, once each tensor has arrived."""
SETTLED = "settled"
"""Kind of the fault that ends a launch in which nothing new happens."""
TENSOR_MAP = 128
"""Size of a tensor map in bytes."""


@define
class Phase:
    """One phase of an mbarrier: expect-tx bytes, number of boxes that arrive by address of their tensor, and bytes from other copies."""

    parity: int
    expected: int = 0
    boxes: Counter[int] = attrs.field(factory=Counter)
    others: int = 0


class Transfers(Monitor):
    """Records the phases of each mbarrier by its address, and for each tensor the size of a box in bytes and its destinations in shared
    memory.

    The launch ends (`SETTLED`) once it has gone on for more than `patience` operations without a phase that differs from all before: in
    what was expected, or in what arrived. Before the first phase is over, it goes on; once a phase is over for each tensor in `asked`, it
    goes on for `ENOUGH` operations at most.
    """

    follows_undefined = True
    """Only so that the same compiled code serves the run under all monitors."""

    def __init__(self, patience: int, asked: frozenset[int] = frozenset()) -> None:
        self.patience = patience
        self.asked = asked
        self.phases: dict[int, list[Phase]] = {}
        self.sizes: dict[int, int] = {}
        self.targets: dict[int, set[int]] = {}
        self.operations = 0
        self._launch: Any = None
        self._copies = 0
        self._maps: dict[int, int] = {}
        self._full: set[int] = set()
        """The mbarriers of which all phases to be recorded are over."""
        self._kinds: set[tuple[frozenset[tuple[int, int]], int, int]] = set()
        """Boxes, expect-tx bytes and other bytes of the phases that are over."""
        self._arrived: set[int] = set()
        """The tensors of which a box has arrived in such a phase."""
        self._last = 0
        """Number of operations before the last phase of a new kind was over."""

    def begin(self, launch: Any) -> None:
        self._launch = launch

    def end(self, launch: Any) -> None:
        self.operations = launch.operations

    def instruction(self, lanes: Any, arguments: tuple[Any, ...]) -> None:
        if self._last and self._now > self._last + self.patience:
            raise Stop(SETTLED, "mbarriers have repeated their phases for long enough")
        bound = lanes.site.bound
        if not isinstance(bound, Bound):
            return
        if bound.has(".expect_tx"):
            given = named(bound, arguments)
            at = located(lanes, bound, given["m"], "m")
            for where, amount in zip(at.tolist(), lanes.broadcast(np.asarray(given["tx"])[()]).tolist(), strict=True):
                phase = self._phase(where)
                if phase is not None:
                    phase.expected += int(amount)
        elif "map" in order(bound) and "mbar" in order(bound):
            given = named(bound, arguments)
            self._maps = dict(zip(lanes.index.tolist(), self._tensors(lanes, given["map"]), strict=True))

    def started(self, flight: Any) -> None:
        if flight.signals is None or flight.footprints is None or self._copies >= MOST_COPIES:
            return
        self._copies += 1
        lanes = flight.lanes
        is_of_tensor = "map" in order(lanes.site.bound)
        threads = lanes.index.tolist()
        for one in flight.footprints():
            if one.kind != "write" or one.signal is None:
                continue
            for lane, at, size, signal in zip(one.lane.tolist(), one.at.tolist(), one.size.tolist(), one.signal.tolist(), strict=True):
                tensor = self._maps.get(threads[lane], 0) if is_of_tensor else 0
                phase = self._phase(signal) if signal >= 0 else None
                if phase is None:
                    continue
                if tensor:
                    phase.boxes[tensor] += 1
                    self.sizes[tensor] = size
                    self.targets.setdefault(tensor, set()).add(at)
                else:
                    phase.others += size

    def _phase(self, at: int) -> Phase | None:
        """The phase that an mbarrier is in; None if no more phases of it are recorded."""
        word = self._launch.machine.memory.shared.view(np.dtype(np.uint64))[at >> 3]
        parity = int(mbarrier.parity(word))
        own = self.phases.setdefault(at, [])
        if at in self._full:
            return None
        if not own or own[-1].parity != parity:
            if own:
                self._over(own[-1])
            if len(own) >= MOST_PHASES:
                self._full.add(at)
                return None
            own.append(Phase(parity))
        return own[-1]

    def _over(self, phase: Phase) -> None:
        """A phase is over: says when, if it is of a new kind."""
        kind = frozenset(phase.boxes.items()), phase.expected, phase.others
        if kind not in self._kinds:
            self._kinds.add(kind)
            self._last = self._now
            self._arrived.update(phase.boxes)
            if self.asked and self.asked <= self._arrived:
                self.patience = min(self.patience, ENOUGH)

    @property
    def _now(self) -> int:
        """The number of operations so far."""
        return int(self._launch.operations + self._launch.scheduler.operations)

    def _tensors(self, lanes: Any, address: Any) -> list[int]:
        """For each lane, the address of the tensor that its tensor map describes; 0 if it is not a valid tensor map."""
        found = [0] * lanes.count
        address = lanes.broadcast(np.asarray(address, np.uint64)[()])
        for buffer, at, mine in lanes.memory.locate(lanes, ".generic", address, TENSOR_MAP, "read", 64, "tensormap", watched=False):
            for i, where in zip(range(lanes.count) if mine is None else mine.tolist(), at.tolist(), strict=True):
                try:
                    found[i] = described(buffer.span(where, TENSOR_MAP).tobytes()).address
                except ValueError:
                    continue
        return found


__all__ = ["Phase", "Transfers"]
