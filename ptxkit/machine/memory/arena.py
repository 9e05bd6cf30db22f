"""Allocates host memory for machines that use host addresses. Allocations are close together, so that monitors can use dense tables."""

from __future__ import annotations

import mmap
import sys
from typing import Any

import numpy as np

from ptxkit.machine.memory.allocations import Allocations
from ptxkit.machine.memory.buffer import Buffer

RESERVED = 1 << 38
"""Size of the reserved address range in bytes. Physical memory is used only when written."""

GUARD = 4096
"""Bytes between two allocations."""

WATCHED = 1 << 36
"""Maximum size in bytes of the range from the first to the last allocation that monitors can track."""


class Arena:
    """A bump allocator. Freed memory is reused for allocations of the same size."""

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
        """Allocates zeroed memory, outside the reserved range only if `may_be_elsewhere`. Raises MemoryError."""
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
        """Frees an allocation."""
        if self._kept.pop(address, None) is not None or self._map is None:
            return
        room = _room(size)
        self._map.madvise(mmap.MADV_DONTNEED, address - self._start, room)
        self._free.setdefault(room, []).append(address)


def _room(size: int) -> int:
    """Size of an allocation with the gap to the next one, in bytes."""
    return -(-(size + GUARD) // 4096) * 4096


def watched(whole: Buffer, allocations: Allocations) -> Buffer:
    """The bytes from the first to the last allocation. Raises MemoryError if these are too many to be tracked."""
    every = list(allocations)
    if not every:
        return Buffer(whole.data[:64], whole.origin)
    low, high = every[0].start & ~63, -(-max(one.end for one in every) // 64) * 64
    if high - low > WATCHED:
        raise MemoryError(f"{high - low} bytes from the first allocation to the last cannot be watched")
    return Buffer(whole.data[low - whole.origin : high - whole.origin], low)
