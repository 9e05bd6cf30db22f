"""Long calculations on many lanes, a block at a time: temporary arrays stay in the cache, and none is too large for the heap."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np


def in_blocks(function: Callable[..., Any], size: int, *values: Any) -> Any:
    """A function of arrays of lanes and of scalars, which gives an array of their dtype, a block of `size` lanes at a time."""
    count = 1
    for value in values:
        count = max(count, value.size)
    if count <= size + size // 2 or any(value.ndim > 1 for value in values):
        return function(*values)
    result = np.empty(count, values[0].dtype)
    for start in range(0, count, size):
        part = slice(start, start + size)
        result[part] = function(*(v[part] if v.ndim else v for v in values))
    return result
