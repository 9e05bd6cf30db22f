"""Allocated ranges of global memory: a table with vectorized lookups, which also finds the nearest allocation."""

from __future__ import annotations

from bisect import bisect_right
from typing import Any

import attrs
import numpy as np


@attrs.frozen(order=True)
class Allocation:
    """A range of addresses from `start` to `end` (exclusive), and its name in messages."""

    start: int
    end: int
    name: str = ""

    @property
    def size(self) -> int:
        return self.end - self.start


class Allocations:
    """A set of disjoint ranges.

    The table by start address is updated atomically, and the sorted list is derived from it on demand, since the garbage collector or other
    threads may free an allocation at any point.
    """

    def __init__(self) -> None:
        self._by_start: dict[int, Allocation] = {}
        self._change = 0
        self._sorted: tuple[int, list[int], list[Allocation]] = (0, [], [])
        self._arrays: tuple[int, np.ndarray[Any, Any], np.ndarray[Any, Any]] | None = None

    def __iter__(self) -> Any:
        return iter(self._in_order()[2])

    def add(self, allocation: Allocation) -> None:
        """Adds an allocation. Raises ValueError if it overlaps another one."""
        near = self._at(allocation.end - 1) if allocation.size else None
        if near is None:
            near = self._by_start.get(allocation.start)
        if near is not None and (near.end > allocation.start or near.start == allocation.start):
            raise ValueError(f"{allocation.start:#x} to {allocation.end:#x} overlaps {describe(near)}")
        self._by_start[allocation.start] = allocation
        self._change += 1

    def remove(self, start: int) -> Allocation:
        """Removes and returns the allocation that starts here. Raises KeyError if there is none."""
        found = self._by_start.pop(start)
        self._change += 1
        return found

    def _in_order(self) -> tuple[int, list[int], list[Allocation]]:
        """The version of the table, the start addresses, and the allocations in order."""
        known = self._sorted
        if known[0] == self._change:
            return known
        change, table = self._change, self._by_start.copy()
        starts = sorted(table)
        known = self._sorted = change, starts, [table[start] for start in starts]
        return known

    def _at(self, address: int) -> Allocation | None:
        _, starts, every = self._in_order()
        i = bisect_right(starts, address) - 1
        return every[i] if i >= 0 else None

    def hold(self, low: int, high: int) -> bool:
        """Whether a single allocation contains all addresses from `low` to `high` (exclusive)."""
        known = self._sorted if self._sorted[0] == self._change else self._in_order()
        i = bisect_right(known[1], low) - 1
        return i >= 0 and high <= known[2][i].end

    def outside(self, addresses: np.ndarray[Any, Any], size: int) -> np.ndarray[Any, Any]:
        """For each address, whether the `size` bytes there are not all in one allocation."""
        change, begun, every = self._in_order()
        if not every:
            return np.ones(len(addresses), bool)
        known = self._arrays
        if known is None or known[0] != change:
            known = self._arrays = change, np.array(begun, np.uint64), np.array([a.end for a in every], np.uint64)
        _, starts, ends = known
        i = np.searchsorted(starts, addresses, "right").astype(np.int64) - 1
        last = addresses + np.uint64(size)
        return (i < 0) | (last > ends[i]) | (last < addresses)

    def containing(self, address: int) -> Allocation | None:
        """The allocation that contains an address; None if there is none."""
        found = self._at(address)
        return found if found is not None and address < found.end else None

    def nearest(self, address: int) -> str:
        """Describes where an address lies: in, before or after which allocation."""
        before = self._at(address)
        if before is not None and address < before.end:
            return f"{address - before.start} bytes into {describe(before)}"
        _, starts, every = self._in_order()
        i = bisect_right(starts, address)
        after = every[i] if i < len(every) else None
        choices = []
        if before is not None:
            gap = address - before.end
            choices.append((gap, f"at the end of {describe(before)}" if gap == 0 else f"{gap} bytes after the end of {describe(before)}"))
        if after is not None:
            choices.append((after.start - address, f"{after.start - address} bytes before {describe(after)}"))
        return min(choices)[1] if choices else "nothing is allocated"


def describe(allocation: Allocation) -> str:
    """The description of an allocation: `out` (1024 bytes at 0x1000)."""
    name = f"`{allocation.name}`" if allocation.name else "an allocation"
    return f"{name} ({allocation.size} bytes at {allocation.start:#x})"
