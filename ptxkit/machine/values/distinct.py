"""The distinct numbers of an array.

`np.unique` would import masked arrays, which takes as long as a small launch, and is slower than the sort itself.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def distinct_numbers(values: Any) -> Array:
    """The distinct numbers of an array, in ascending order. The array must not contain NaNs."""
    values = np.asarray(values).ravel()
    if not len(values) or values.strides == (0,):
        found: Array = values[:1].copy()
        return found
    ordered = np.sort(values)
    is_first = np.empty(len(ordered), bool)
    is_first[0] = True
    np.not_equal(ordered[1:], ordered[:-1], out=is_first[1:])
    return ordered[is_first]
