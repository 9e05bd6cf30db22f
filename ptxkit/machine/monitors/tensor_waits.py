"""Loads and stores of tensor memory that have not been waited for: `tcgen05.ld` and `tcgen05.st` only start them, `tcgen05.wait::ld` and
`tcgen05.wait::st` wait for completion (9.1: 9.7.16.8).

An access to stored data, and a write where a load reads, must come after the wait: the warp has executed it, and it happens before the
access.
"""

from __future__ import annotations

import bisect
from typing import TYPE_CHECKING, Any

import numpy as np

from ptxkit.isa.binding import Bound
from ptxkit.machine.interfaces import Races
from ptxkit.machine.matrices.tensor_memory import CELL
from ptxkit.machine.matrices.tensor_memory import SPACE as TENSOR
from ptxkit.machine.monitors.pieces import distinct
from ptxkit.machine.monitors.shadow import Entries
from ptxkit.machine.values.distinct import distinct_numbers

if TYPE_CHECKING:
    from ptxkit.machine.monitors.kinds import Kind

Array = np.ndarray[Any, Any]
STORES, LOADS = "tcgen05.st", "tcgen05.ld"
WAITS = {STORES: ("store", "tcgen05.wait::st"), LOADS: ("load", "tcgen05.wait::ld")}
"""What a warp waits for, by the queue of its operation: its name, and the instruction that waits."""
RULE, NAME = "T003", "tmem-load-not-waited"
NEVER = np.iinfo(np.int64).max


def waits_for(bound: Bound) -> str:
    """The queue of the accesses to tensor memory that an instruction waits for; empty if it waits for none."""
    return next((one.group for one in bound.asynchronous if one.group in WAITS and one.action == "wait"), "")


class TensorWaits:
    """The waits for accesses to tensor memory in one launch, by queue and warp."""

    def __init__(self, races: Races) -> None:
        self.races = races
        self.reset()

    def reset(self) -> None:
        """Called when other CTAs become resident."""
        self.waits: dict[tuple[str, int], list[int]] = {}

    def waited(self, lanes: Any, queue: str) -> None:
        """Warps have waited for their loads or stores."""
        knowledge = self.races.knowledge
        for warp in distinct_numbers(knowledge.warp_of(lanes.place + knowledge.first)).tolist():
            self.waits.setdefault((queue, warp), []).append(knowledge.stamp)
        knowledge.tick()

    def check(self, place: Array, before: Entries, kind: Kind, how: str, times: Array, what: str = "write") -> None:
        """Checks accesses of threads to tensor memory against earlier accesses, all of them writes or reads (`what`), each for a number
        of cells."""
        races, queue = self.races, STORES if what == "write" else LOADS
        if kind.group == queue:
            return
        rows = np.flatnonzero(races.are(lambda one: one.group == queue, before.site))
        if not len(rows):
            return
        knowledge = races.knowledge
        place, before = place[rows], before.at(rows)
        warp = knowledge.warp_of(before.thread)
        first, which = distinct(warp, before.stamp)
        asked = zip(warp[first].tolist(), before.stamp[first].tolist(), strict=True)
        done = np.array([self._done(queue, one, stamp) for one, stamp in asked])[which]
        is_own = warp == knowledge.warp_of(place + knowledge.first)
        # unordered accesses are reported as races
        is_late = (done == NEVER) | ~(is_own | knowledge.known(place, before.thread, done))
        late = is_late & knowledge.known(place, before.thread, before.stamp)
        if late.any():
            i = int(np.flatnonzero(late)[0])
            start = int(before.piece[i]) * CELL
            threads = int(before.thread[i]), int(place[i]) + knowledge.first
            kinds = races.kind_at(int(before.site[i])), kind
            name, wait = WAITS[queue]
            why = f"its warp has not waited for the {name}: there is no {wait} between"
            races.conflict(TENSOR, start, start + CELL, threads, kinds, (what, how), int(times[rows[late]].sum()), RULE, why)

    def _done(self, queue: str, warp: int, stamp: int) -> int:
        """The stamp at which a warp waited for a load or store with this stamp."""
        own = self.waits.get((queue, warp), [])
        i = bisect.bisect_left(own, stamp)
        return own[i] if i < len(own) else NEVER


__all__ = ["NAME", "RULE", "TensorWaits", "waits_for"]
