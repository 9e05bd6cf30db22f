"""The numbers of an array, each once.

`np.unique` by itself would import masked arrays, which takes as long as a small launch, and then more time than the sort.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def distinct_numbers(values: Any) -> Array:
    """The numbers of an array, each once and in order. None of them is a NaN."""
    values = np.asarray(values).ravel()
    if not len(values) or values.strides == (0,):
        found: Array = values[:1].copy()
        return found
    ordered = np.sort(values)
    is_first = np.empty(len(ordered), bool)
    is_first[0] = True
    np.not_equal(ordered[1:], ordered[:-1], out=is_first[1:])
    return ordered[is_first]
