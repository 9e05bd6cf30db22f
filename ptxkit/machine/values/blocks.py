"""Evaluates long computations block by block, so that temporary arrays stay in the cache and are small enough for the heap."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np


def in_blocks(function: Callable[..., Any], size: int, *values: Any) -> Any:
    """Applies a function of per-lane arrays and scalars, which returns an array of their dtype, to blocks of `size` lanes."""
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
