"""Common parts of bulk operations: where their bytes are, when they are moved, and what their completion signals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ptxkit.machine.asynchronous import mbarrier as objects
from ptxkit.machine.asynchronous.agents import Flight, Footprint, footprint
from ptxkit.machine.memory.buffer import Buffer
from ptxkit.machine.memory.updates import serially
from ptxkit.machine.values.distinct import distinct_numbers

Array = np.ndarray[Any, Any]
BULK = "bulk"
"""The queue of groups of bulk operations of a thread."""


def places(lanes: Any, space: str, address: Any, sizes: Any, kind: str, align: int, proxy: str = "async") -> tuple[Buffer, Array]:
    """The buffer, and for each lane the position in it, of the `sizes` bytes to be accessed. Faults like any access."""
    sizes = lanes.broadcast(np.asarray(sizes, np.int64)[()])
    address = lanes.broadcast(np.asarray(address, np.uint64)[()])
    at = np.empty(lanes.count, np.int64)
    found: Buffer | None = None
    for size in distinct_numbers(sizes).tolist():
        mine = np.flatnonzero(sizes == size)
        some = lanes.at(mine)
        for buffer, where, part in some.memory.locate(some, space, address[mine], max(size, 1), kind, align, proxy, watched=False):
            if found is not None and buffer is not found:
                lanes.fault(None, "an asynchronous operation on several state spaces at once", "address")
            found = buffer
            at[mine if part is None else mine[part]] = where
    assert found is not None
    return found, at


def complete_transactions(lanes: Any, at: Array, count: Any) -> None:
    """Completes transactions on mbarriers at addresses in the buffer of shared memory, one for each lane (ISA 9.7.14.15.5.2)."""
    view = lanes.memory.shared.view(np.dtype(np.uint64))
    tx = -np.asarray(count, np.int64)
    old = serially(view, at >> 3, objects.CHANGE, (np.int64(0), tx, np.int64(0)), len(at))
    objects.check(lanes, old, 0, tx)


def mbarriers_at(lanes: Any, space: str, address: Any, proxy: str = "async") -> Array:
    """The positions in shared memory of the mbarriers to be signalled. Faults if an address is in another space."""
    found, at = places(lanes, space, address, 8, "update", 8, proxy)
    if found is not lanes.memory.shared:
        lanes.fault(None, "an asynchronous operation signals an mbarrier that is not in shared memory", "mbarrier")
    return at


def complete_transaction(lanes: Any, space: str, address: Any, count: int) -> None:
    """Completes `count` transactions on the mbarriers at some addresses, at once."""
    at = mbarriers_at(lanes, space, address)
    complete_transactions(lanes, at, count)


def in_ctas(memory: Any, at: Array, mask: Array) -> Array:
    """The corresponding addresses in the shared memory of the CTAs in a mask: one row for each lane, -1 for other CTAs."""
    stride, cluster = memory.shared_stride, memory.cluster
    first = at // stride // cluster * cluster
    offset = at % stride
    rank = np.arange(cluster)
    every = (first[:, None] + rank) * stride + offset[:, None]
    named = mask.astype(np.int64)[:, None] >> rank & 1
    return np.where(named == 1, every, -1)


def tell(lanes: Any, lane: int, buffer: Buffer, at: int, size: int, kind: str) -> None:
    """Notifies monitors of an access of one lane through the async proxy."""
    if lanes.memory.watch is not None:
        lanes.memory.accessed(lanes.at(np.array([lane])), buffer, np.array([at]), size, kind, "async")


def in_columns(
    lanes: Any, kind: str, buffer: Buffer, columns: Array, sizes: Array, barriers: Array | None, skip: Array | None = None
) -> list[Footprint]:
    """The footprints of all addresses in the lanes' rows. With several mbarriers, each CTA's mbarrier signals its own bytes."""
    found = []
    for column in range(columns.shape[1]):
        at = columns[:, column]
        at = at if skip is None else np.where(at < 0, at, at + skip)
        signal = None if barriers is None else barriers[:, min(column, barriers.shape[1] - 1)]
        found.append(footprint(lanes, kind, buffer, at, sizes, signal=signal))
    return found


class Transfer:
    """A transfer of bytes from `read(lane)` to `write(lane, data)`, whose completion counts `count` transactions on the lane's
    mbarriers."""

    def __init__(
        self,
        lanes: Any,
        read: Callable[[int], Any],
        write: Callable[[int, Any], None],
        barriers: Array | None = None,
        count: Any = 0,
        footprints: Callable[[], list[Footprint]] | None = None,
    ) -> None:
        self.lanes = lanes
        self.read = read
        self.write = write
        self.barriers = barriers
        self.count = lanes.broadcast(np.asarray(count, np.int64)[()])
        self.footprints = footprints
        self.fetched: dict[int, Any] = {}

    def start(self, queue: str = "") -> None:
        """Starts the transfer."""
        self.lanes.agents.start(Flight(self.lanes, self.land, self.barriers, self.fetch, self.footprints), queue)

    def fetch(self, positions: Array) -> None:
        """Reads the sources of some lanes, which may change afterwards."""
        for lane in positions.tolist():
            if lane not in self.fetched:
                self.fetched[lane] = self.read(lane)

    def land(self, positions: Array) -> None:
        """Moves the bytes of some lanes and completes the transactions."""
        for lane in positions.tolist():
            self.write(lane, self.fetched.pop(lane) if lane in self.fetched else self.read(lane))
        if self.barriers is None:
            return
        for column in range(self.barriers.shape[1]):
            there = positions[self.barriers[positions, column] >= 0]
            if len(there):
                complete_transactions(self.lanes.at(there), self.barriers[there, column], self.count[there])
