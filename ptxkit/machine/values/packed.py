"""Several values in a register: split into elements along a new last axis, and joined again. The lowest bits are element 0."""

from __future__ import annotations

from typing import Any

import numpy as np


def split(x: Any, dtype: Any) -> Any:
    """The elements of packed values as a last axis: an array of n `uint32` as one of (n, 2) `uint16`."""
    array = np.ascontiguousarray(x)
    return array.reshape(*np.shape(x), 1).view(dtype)


def join(elements: Any, dtype: Any) -> Any:
    """Elements along the last axis packed into values of a dtype: the opposite of `split`."""
    return np.ascontiguousarray(elements).view(dtype)[..., 0][()]
