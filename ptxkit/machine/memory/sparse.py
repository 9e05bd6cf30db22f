"""Zeroed arrays of which only few pages are ever written and use memory."""

from __future__ import annotations

import mmap
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

LARGE = 1 << 22
"""From this size in bytes, NumPy requests 2 MiB pages, each of which is cleared as a whole on first access."""


def zeros(count: int, dtype: Any = np.uint8) -> Array:
    """An array of zeros, in small pages."""
    kind = np.dtype(dtype)
    size = count * kind.itemsize
    if size < LARGE or not hasattr(mmap, "MAP_ANONYMOUS"):
        return np.zeros(count, kind)
    try:
        pages = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except (OSError, ValueError):
        return np.zeros(count, kind)
    return np.frombuffer(pages, kind)
