"""Stores to tensor memory that have not been waited for: `tcgen05.st` only starts them, `tcgen05.wait::st` waits for completion (9.1:
9.7.16.8).

An access to stored data must come after the wait: the storing warp has executed it, and it happens before the access.
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
STORES = "tcgen05.st"
RULE, NAME = "T003", "tmem-load-not-waited"
NEVER = np.iinfo(np.int64).max


def is_wait(bound: Bound) -> bool:
    """Whether an instruction waits for stores to tensor memory."""
    return any(one.group == STORES and one.action == "wait" for one in bound.asynchronous)


class TensorStores:
    """The waits for stores to tensor memory in one launch, by warp."""

    def __init__(self, races: Races) -> None:
        self.races = races
        self.reset()

    def reset(self) -> None:
        """Called when other CTAs become resident."""
        self.waits: dict[int, list[int]] = {}

    def waited(self, lanes: Any) -> None:
        """Warps have waited for their stores."""
        knowledge = self.races.knowledge
        for warp in distinct_numbers(knowledge.warp_of(lanes.place + knowledge.first)).tolist():
            self.waits.setdefault(warp, []).append(knowledge.stamp)
        knowledge.tick()

    def check(self, place: Array, before: Entries, kind: Kind, how: str) -> None:
        """Checks accesses of threads to tensor memory against earlier stores."""
        races = self.races
        if kind.group == STORES:
            return
        rows = np.flatnonzero(races.are(lambda one: one.group == STORES, before.site))
        if not len(rows):
            return
        knowledge = races.knowledge
        place, before = place[rows], before.at(rows)
        warp = knowledge.warp_of(before.thread)
        first, which = distinct(warp, before.stamp)
        done = np.array([self._done(one, stamp) for one, stamp in zip(warp[first].tolist(), before.stamp[first].tolist(), strict=True)])[
            which
        ]
        is_own = warp == knowledge.warp_of(place + knowledge.first)
        # unordered accesses are reported as races
        is_late = (done == NEVER) | ~(is_own | knowledge.known(place, before.thread, done))
        late = is_late & knowledge.known(place, before.thread, before.stamp)
        if late.any():
            i = int(np.flatnonzero(late)[0])
            start = int(before.piece[i]) * CELL
            threads = int(before.thread[i]), int(place[i]) + knowledge.first
            kinds = races.kind_at(int(before.site[i])), kind
            why = "its warp has not waited for the store: there is no tcgen05.wait::st between"
            races.conflict(TENSOR, start, start + CELL, threads, kinds, ("write", how), int(late.sum()), RULE, why)

    def _done(self, warp: int, stamp: int) -> int:
        """The stamp at which a warp waited for a store with this stamp."""
        own = self.waits.get(warp, [])
        i = bisect.bisect_left(own, stamp)
        return own[i] if i < len(own) else NEVER


__all__ = ["NAME", "RULE", "TensorStores", "is_wait"]
