"""Which ranges of global memory are allocated: a table that answers for whole arrays of addresses, and names the nearest allocation."""

from __future__ import annotations

from bisect import bisect_right, insort
from typing import Any

import attrs
import numpy as np


@attrs.frozen(order=True)
class Allocation:
    """A range of addresses, `start` to `end` (not included), and what it is called in messages."""

    start: int
    end: int
    name: str = ""

    @property
    def size(self) -> int:
        return self.end - self.start


class Allocations:
    """A set of ranges that do not overlap."""

    def __init__(self) -> None:
        self._all: list[Allocation] = []
        self._starts: list[int] = []
        self._arrays: tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]] | None = None

    def __iter__(self) -> Any:
        return iter(self._all)

    def add(self, allocation: Allocation) -> None:
        """Raises ValueError if it overlaps another."""
        near = self._at(allocation.end - 1) if allocation.size else None
        if near is not None and near.end > allocation.start:
            raise ValueError(f"{allocation.start:#x} to {allocation.end:#x} overlaps {describe(near)}")
        insort(self._all, allocation)
        self._changed()

    def remove(self, start: int) -> Allocation:
        """The allocation that begins there, no longer in the table; raises KeyError if none does."""
        found = self._at(start)
        if found is None or found.start != start:
            raise KeyError(start)
        self._all.remove(found)
        self._changed()
        return found

    def _changed(self) -> None:
        self._starts = [a.start for a in self._all]
        self._arrays = None

    def _at(self, address: int) -> Allocation | None:
        i = bisect_right(self._starts, address) - 1
        return self._all[i] if i >= 0 else None

    def hold(self, low: int, high: int) -> bool:
        """Whether one allocation has all addresses from `low` to `high` (not included)."""
        i = bisect_right(self._starts, low) - 1
        return i >= 0 and high <= self._all[i].end

    def outside(self, addresses: np.ndarray[Any, Any], size: int) -> np.ndarray[Any, Any]:
        """For each address whether the `size` bytes at it are not all in one allocation."""
        if not self._all:
            return np.ones(len(addresses), bool)
        if self._arrays is None:
            self._arrays = np.array(self._starts, np.uint64), np.array([a.end for a in self._all], np.uint64)
        starts, ends = self._arrays
        i = np.searchsorted(starts, addresses, "right").astype(np.int64) - 1
        last = addresses + np.uint64(size)
        return (i < 0) | (last > ends[i]) | (last < addresses)

    def containing(self, address: int) -> Allocation | None:
        """The allocation that an address lies in."""
        found = self._at(address)
        return found if found is not None and address < found.end else None

    def nearest(self, address: int) -> str:
        """Where an address lies, in words: in, before or after which allocation."""
        before = self._at(address)
        if before is not None and address < before.end:
            return f"{address - before.start} bytes into {describe(before)}"
        i = bisect_right(self._starts, address)
        after = self._all[i] if i < len(self._all) else None
        choices = []
        if before is not None:
            gap = address - before.end
            choices.append((gap, f"at the end of {describe(before)}" if gap == 0 else f"{gap} bytes after the end of {describe(before)}"))
        if after is not None:
            choices.append((after.start - address, f"{after.start - address} bytes before {describe(after)}"))
        return min(choices)[1] if choices else "nothing is allocated"


def describe(allocation: Allocation) -> str:
    """`out` (1024 bytes at 0x1000)."""
    name = f"`{allocation.name}`" if allocation.name else "an allocation"
    return f"{name} ({allocation.size} bytes at {allocation.start:#x})"
