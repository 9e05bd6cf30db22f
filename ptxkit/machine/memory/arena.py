"""Memory of this process for machines with its addresses: allocations lie near together, so that monitors can count by address."""

from __future__ import annotations

import mmap
import sys
from typing import Any

import numpy as np

from ptxkit.machine.memory.allocations import Allocations
from ptxkit.machine.memory.buffer import Buffer

RESERVED = 1 << 38
"""Bytes of addresses; they take memory when they are written."""

GUARD = 4096
"""Bytes between two allocations."""

WATCHED = 1 << 36
"""Monitors keep columns for all bytes from the first allocation to the last: no more than so many."""


class Arena:
    """Allocations one after another. What was freed is used again for the same size."""

    def __init__(self) -> None:
        self._map: Any = None
        self._start = self._used = 0
        self._free: dict[int, list[int]] = {}
        self._kept: dict[int, Any] = {}
        if sys.platform == "linux":
            try:
                flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0x4000)
                self._map = mmap.mmap(-1, RESERVED, flags=flags)
            except (OSError, ValueError):
                return
            self._start = int(np.frombuffer(self._map, np.uint8, 1).ctypes.data)

    def allocate(self, size: int, align: int, may_be_elsewhere: bool = True) -> int:
        """The address of so many zeros, `may_be_elsewhere` than among the reserved ones. Raises MemoryError."""
        align = max(align, 4096)
        room = _room(size)
        freed = self._free.get(room, [])
        for i in reversed(range(len(freed))):
            if freed[i] % align == 0:
                return freed.pop(i)
        address = -(-(self._start + self._used) // align) * align
        if self._map is None or address + room > self._start + RESERVED:
            if not may_be_elsewhere:
                raise MemoryError
            kept = np.zeros(size + align, np.uint8)
            address = -(-int(kept.ctypes.data) // align) * align
            self._kept[address] = kept
            return address
        self._used = address + room - self._start
        return address

    def free(self, address: int, size: int) -> None:
        """Frees what was allocated there."""
        if self._kept.pop(address, None) is not None or self._map is None:
            return
        room = _room(size)
        self._map.madvise(mmap.MADV_DONTNEED, address - self._start, room)
        self._free.setdefault(room, []).append(address)


def _room(size: int) -> int:
    """Bytes that an allocation takes with what lies between it and the next."""
    return -(-(size + GUARD) // 4096) * 4096


def watched(whole: Buffer, allocations: Allocations) -> Buffer:
    """The bytes from the first allocation to the last. Raises MemoryError if these are too many to be watched."""
    every = list(allocations)
    if not every:
        return Buffer(whole.data[:64], whole.origin)
    low, high = every[0].start & ~63, -(-max(one.end for one in every) // 64) * 64
    if high - low > WATCHED:
        raise MemoryError(f"{high - low} bytes from the first allocation to the last cannot be watched")
    return Buffer(whole.data[low - whole.origin : high - whole.origin], low)
