"""Packed registers: split into elements along a new last axis, and joined again. Element 0 has the lowest bits."""

from __future__ import annotations

from typing import Any

import numpy as np


def split(x: Any, dtype: Any) -> Any:
    """The elements of packed values along a last axis: n `uint32` become (n, 2) `uint16`."""
    array = np.ascontiguousarray(x)
    return array.reshape(*np.shape(x), 1).view(dtype)


def join(elements: Any, dtype: Any) -> Any:
    """Packs elements along the last axis into values of a dtype: the inverse of `split`."""
    return np.ascontiguousarray(elements).view(dtype)[..., 0][()]
