"""Zeros of which few are ever written: memory takes pages where it is, and no more than that."""

from __future__ import annotations

import mmap
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

LARGE = 1 << 22
"""From so many bytes on NumPy asks for pages of 2 MiB, each of which is zeroed as a whole when one byte of it is accessed."""


def zeros(count: int, dtype: Any = np.uint8) -> Array:
    """An array of zeros, of small pages."""
    kind = np.dtype(dtype)
    size = count * kind.itemsize
    if size < LARGE or not hasattr(mmap, "MAP_ANONYMOUS"):
        return np.zeros(count, kind)
    try:
        pages = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except (OSError, ValueError):
        return np.zeros(count, kind)
    return np.frombuffer(pages, kind)
