"""The CTAs that are resident, and what is known of each of their threads."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ptxkit.machine.barriers import ClusterBarriers, CtaBarriers
from ptxkit.machine.fault import Thread
from ptxkit.machine.groups import WARP, Lanes

if TYPE_CHECKING:
    from ptxkit.machine.interfaces import Launch

Array = np.ndarray[Any, Any]


class Residents:
    """The resident CTAs, a range of the launch's CTAs. Data of their threads is in columns, indexed by the thread's position among them."""

    def __init__(self, launch: Launch, memory: Any) -> None:
        self.launch = launch
        self.memory = memory
        self.agents: Any = None
        self.elects_last = launch.schedule == "early" or isinstance(launch.schedule, int)
        """Whether `elect.sync` elects the last lane: the ISA does not say which one it is (9.7.14.14)."""
        self.threads = launch.threads
        self.warps_per_cta = -(-launch.threads // WARP)
        self.writes = 0
        self.polls = 0
        """Iterations that an unsuccessful poll counts for, so that other groups run soon."""
        self.exits = 0

    def begin(self, first_cta: int, ctas: int) -> None:
        """Makes CTAs resident, replacing the previous ones."""
        self.first_cta, self.ctas = first_cta, ctas
        self.first = first_cta * self.threads
        self.count = ctas * self.threads
        self._columns: dict[str, Any] = {}
        self._kept: dict[Any, Any] = {}
        self.alive = np.ones(self.count, bool)
        self.alive_count = self.count
        self.alive_of_cta = np.full(ctas, self.threads)
        self.alive_mask = self._masks(ctas)
        self.barriers = CtaBarriers(self)
        self.barriers.grow(ctas)
        self.cluster_barriers = ClusterBarriers(self)
        self.cluster_barriers.grow(ctas, self.count)
        self.all = self.launch.lanes_type(self, np.arange(self.count))
        self.launch.lay_out(self.memory, ctas)

    def grow(self, more: int) -> Lanes:
        """Makes further CTAs resident and returns their lanes."""
        before, threads = self.count, self.threads
        self.ctas += more
        self.count = self.ctas * threads
        self._columns = {}
        new = self.count - before
        self.alive = np.concatenate([self.alive, np.ones(new, bool)])
        self.alive_count += new
        self.alive_of_cta = np.concatenate([self.alive_of_cta, np.full(more, threads)])
        self.alive_mask = np.concatenate([self.alive_mask, self._masks(more)])
        self.barriers.grow(self.ctas)
        self.cluster_barriers.grow(self.ctas, self.count)
        self.exits += 1
        self.all = self.launch.lanes_type(self, np.arange(self.count))
        self.memory.grow(self.ctas)
        new_lanes: Lanes = self.launch.lanes_type(self, np.arange(before, self.count))
        return new_lanes

    def _masks(self, ctas: int) -> Array:
        of_cta = np.full(self.warps_per_cta, 0xFFFFFFFF, np.uint32)
        rest = self.threads % WARP
        if rest:
            of_cta[-1] = (1 << rest) - 1
        return np.tile(of_cta, ctas)

    def groups_per_cta(self, width: int) -> int:
        """How many groups of so many threads a CTA has."""
        return int(-(-self.threads // width))

    def exit(self, lanes: Lanes) -> None:
        """These threads have exited."""
        self.exits += 1
        self.alive_count -= lanes.count
        if not self.alive_count:
            return
        self.alive[lanes.place] = False
        self.alive_of_cta -= np.bincount(lanes.cta, minlength=self.ctas)
        self.alive_mask[lanes.warps] &= ~lanes.warp_mask

    def kept(self, key: Any, factory: Callable[[], Any]) -> Any:
        """What semantics keep while these CTAs are resident, as a `defaultdict` of the factory."""
        found = self._kept.get(key)
        if found is None:
            found = self._kept[key] = defaultdict(factory)
        return found

    def column(self, name: str) -> Array:
        """For each thread, the index of its CTA among the residents (`cta`), its index in the CTA (`thread`), its warp or its lane."""
        found = self._columns.get(name)
        if found is None:
            found = self._columns[name] = self._column(name)
        return found

    def _column(self, name: str) -> Array:
        if name == "cta":
            return np.repeat(np.arange(self.ctas), self.threads)
        if name == "thread":
            return np.tile(np.arange(self.threads), self.ctas)
        if name == "lane":
            return self.column("thread") & 31
        if name == "warp":
            return self.column("cta") * self.warps_per_cta + (self.column("thread") >> 5)  # type: ignore[no-any-return]
        raise KeyError(name)

    def special(self, name: str) -> Any:
        """A special register in each thread; a scalar if it is the same in all."""
        found = self._columns.get(name)
        if found is None:
            column = np.asarray(self._special(name)).astype(np.uint32)
            found = column if column.ndim and (column != column[0]).any() else np.uint32(column.flat[0])
            self._columns[name] = found
        return found

    def _special(self, name: str) -> Any:
        launch = self.launch
        stem, _, component = name.partition(".")
        at = "xyz".find(component)
        if stem == "tid":
            thread = self.column("thread")
            x, y, _ = launch.block
            return (thread % x, thread // x % y, thread // (x * y))[at]
        if stem in ("ctaid", "clusterid", "cluster_ctaid", "cluster_ctarank"):
            number = self.first_cta + np.arange(self.ctas)
            per_cta: Any
            if stem == "cluster_ctarank":
                per_cta = number % launch.cluster_size
            else:
                per_cta = launch.places(number)[("ctaid", "clusterid", "cluster_ctaid").index(stem)][at]
            return np.repeat(per_cta, self.threads)
        lane = self.column("lane")
        if name == "laneid":
            return lane
        if name == "warpid":
            return self.column("thread") >> 5
        if name == "smid":
            return (self.first_cta + self.column("cta")) % launch.multiprocessors
        one = np.uint64(1) << lane.astype(np.uint64)
        masks = {"eq": one, "lt": one - 1, "le": 2 * one - 1, "ge": 2**32 - one, "gt": 2**32 - 2 * one}
        return masks[name.removeprefix("lanemask_")]

    def thread_of(self, place: int) -> Thread:
        """The index of the CTA in the grid and of the thread in the CTA."""
        launch = self.launch
        cta, thread = divmod(int(place), self.threads)
        found = launch.places(np.array([self.first_cta + cta]))[0]
        x, y, _ = launch.block
        return (int(found[0][0]), int(found[1][0]), int(found[2][0])), (thread % x, thread // x % y, thread // (x * y))
