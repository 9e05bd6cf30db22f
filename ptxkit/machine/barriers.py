"""Barriers of CTAs and clusters: arrivals and completed phases (ISA 9.7.14.1, 9.7.14.3)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ptxkit.machine.groups import WARP, Lanes
from ptxkit.machine.values.distinct import distinct_numbers

if TYPE_CHECKING:
    from ptxkit.machine.interfaces import Residents

Array = np.ndarray[Any, Any]
BARRIERS = 16
"""Number of barriers of a CTA (9.7.14.1)."""


class CtaBarriers:
    """Sixteen barriers for each resident CTA, indexed by `cta * 16 + number`.

    `phase` counts completions. The result of a reduction is kept for two phases, since no thread can complete the next phase but one before
    all have left.
    """

    def __init__(self, residents: Residents) -> None:
        self.residents = residents
        self.phase = self.arrived = self.expected = np.zeros(0, np.int64)
        self.came = np.zeros((0, residents.warps_per_cta), np.uint32)
        """For each barrier and warp of the CTA, the lanes that have arrived, if the barrier has a thread count."""
        self.true = np.zeros((2, 0), np.int64)
        self.total = np.zeros((2, 0), np.int64)
        self._exits = -1

    def grow(self, ctas: int) -> None:
        more = ctas * BARRIERS - len(self.phase)
        if more <= 0:
            return
        empty = np.zeros(more, np.int64)
        self.phase = np.concatenate([self.phase, empty])
        self.arrived = np.concatenate([self.arrived, empty])
        self.expected = np.concatenate([self.expected, empty])
        self.came = np.concatenate([self.came, np.zeros((more, self.came.shape[1]), np.uint32)])
        self.true = np.concatenate([self.true, np.zeros((2, more), np.int64)], axis=1)
        self.total = np.concatenate([self.total, np.zeros((2, more), np.int64)], axis=1)

    def arrive(self, lanes: Lanes, number: Any, threads: Any, value: Any = None) -> Any:
        """Lanes arrive; `threads` is the expected thread count (None: the whole CTA). Returns the token to wait with."""
        if not number.ndim and number >= BARRIERS:
            lanes.fault(None, f"barrier {int(number)}, but a CTA has barriers 0 to 15", "barrier")
        if number.ndim and (number >= BARRIERS).any():
            lanes.fault(number >= BARRIERS, "a barrier beyond the 16 of its CTA", "barrier")
        key = lanes.cta * BARRIERS + number
        phase = self.phase[key]
        if threads is not None and np.any(threads % WARP):
            bad = None if not threads.ndim else threads % WARP != 0
            lanes.fault(bad, "a barrier whose thread count is not a multiple of 32", "barrier", "multiple")
        arrived = np.bincount(key, minlength=len(self.phase))
        self.arrived += arrived
        if threads is not None:
            np.bitwise_or.at(self.came, (key, lanes.thread // WARP), np.uint32(1) << lanes.lane.astype(np.uint32))
        if threads is not None:
            self.expected[key] = threads
        else:
            self.expected[key] = 0
        side = phase & 1
        if value is not None:
            pressed = np.bincount(key, lanes.broadcast(value), minlength=len(self.phase)).astype(np.int64)
            for parity in (0, 1):
                mine = distinct_numbers(key[side == parity])
                self.true[parity, mine] += pressed[mine]
                self.total[parity, mine] += np.bincount(key, minlength=len(self.phase))[mine]
        self.complete(np.flatnonzero(arrived))
        return key, phase

    def complete(self, keys: Array) -> None:
        """Completes those of the given barriers at which all expected threads have arrived."""
        expected = self.expected[keys]
        awaited = np.where(expected > 0, expected, self.residents.alive_of_cta[keys // BARRIERS])
        arrived = self.arrived[keys]
        if (expected > 0).any():
            arrived = arrived + self.absent(keys)
        done = keys[(arrived >= awaited) & (arrived > 0)]
        if len(done):
            self.phase[done] += 1
            self.arrived[done] = 0
            self.came[done] = 0
            side = self.phase[done] & 1
            # the next phase starts with an empty reduction
            self.true[side, done] = 0
            self.total[side, done] = 0

    def absent(self, keys: Array) -> Array:
        """How many absent lanes count as arrived: once all remaining lanes of a warp have arrived, the whole warp counts."""
        came = self.came[keys]
        warps = self.came.shape[1]
        alive = self.residents.alive_mask.reshape(-1, warps)[keys // BARRIERS]
        whole = (came != 0) & (alive & ~came == 0)
        return np.where(whole, WARP - np.bitwise_count(came).astype(np.int64), 0).sum(axis=1)  # type: ignore[no-any-return]

    def passed(self, token: Any) -> Any:
        """Whether the phase of a token has completed."""
        key, phase = token
        if self._exits != self.residents.exits:
            self._exits = self.residents.exits
            self.complete(np.flatnonzero(self.arrived))
        return self.phase[key] != phase

    def found(self, token: Any) -> tuple[Array, Array]:
        """For the reduction in the phase of a token: the number of true predicates, and of all predicates."""
        key, phase = token
        return self.true[phase & 1, key], self.total[phase & 1, key]


class ClusterBarriers:
    """One barrier for each resident cluster."""

    def __init__(self, residents: Residents) -> None:
        self.residents = residents
        self.phase = self.arrived = np.zeros(0, np.int64)
        self.mine = np.zeros(0, np.int64)
        """For each thread, the phase in which it last arrived; -1 if it never has."""
        self._exits = -1

    def grow(self, ctas: int, threads: int) -> None:
        clusters = -(-ctas // self.residents.launch.cluster_size)
        more = clusters - len(self.phase)
        self.phase = np.concatenate([self.phase, np.zeros(more, np.int64)])
        self.arrived = np.concatenate([self.arrived, np.zeros(more, np.int64)])
        self.mine = np.concatenate([self.mine, np.full(threads - len(self.mine), -1, np.int64)])

    def _clusters(self, lanes: Lanes) -> Array:
        return lanes.cta // int(self.residents.launch.cluster_size)

    def arrive(self, lanes: Lanes) -> None:
        cluster = self._clusters(lanes)
        again = self.mine[lanes.place] == self.phase[cluster]
        if again.any():
            lanes.fault(again, "a second barrier.cluster.arrive without barrier.cluster.wait between them", "barrier", "cluster")
        self.mine[lanes.place] = self.phase[cluster]
        self.arrived += np.bincount(cluster, minlength=len(self.phase))
        self.complete()

    def complete(self) -> None:
        alive = self.residents.alive_of_cta
        size = self.residents.launch.cluster_size
        awaited = alive[: len(self.phase) * size].reshape(-1, size).sum(axis=1)
        # exited threads count as arrived; arrivals before the exit no longer count
        done = (self.arrived > 0) & (self._arrived_alive() >= awaited)
        self.phase[done] += 1
        self.arrived[done] = 0

    def _arrived_alive(self) -> Array:
        residents = self.residents
        cluster = residents.column("cta") // residents.launch.cluster_size
        here = residents.alive & (self.mine == self.phase[cluster])
        return np.bincount(cluster[here], minlength=len(self.phase))

    def token(self, lanes: Lanes) -> Any:
        mine = self.mine[lanes.place]
        if (mine < 0).any():
            lanes.fault(mine < 0, "barrier.cluster.wait without barrier.cluster.arrive before it", "barrier", "cluster")
        return self._clusters(lanes), mine

    def passed(self, token: Any) -> Any:
        cluster, phase = token
        if self._exits != self.residents.exits:
            self._exits = self.residents.exits
            self.complete()
        return self.phase[cluster] != phase
