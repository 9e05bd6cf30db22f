"""Matrix products: whether two results are both what some order of accumulation gives.

The sum of the magnitudes of all products, and of what is added, is what the same instruction gives on operands without their signs.
Whatever the order, each of the k additions rounds a partial sum no larger than that.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import attrs
import numpy as np
from formtests import Buffer

UNITS = {"f16": 2.0**-10, "f32": 2.0**-22, "f64": 2.0**-52}
"""Error of one addition, relative to the sum: of .f32 twice that of a rounding, since partial sums may be cut off."""


def within(test: Any, executed: Callable[..., bytes], expected: bytes, got: bytes) -> bool:
    """Whether a product is as near to the GPU's as the order of accumulation allows."""
    types = list(re.findall(r"\.(f16|f32|f64|s32)(?=[. ])", test.name.partition(" ")[0]))
    if not types or types[0] == "s32":
        return False
    kind = types[0]
    depth = int(re.search(r"k(\d+)", test.name)[1])  # type: ignore[index]
    changed = [
        attrs.evolve(one, fill="magnitudes") if isinstance(one, Buffer) and one.fill == "fragments" else one for one in test.arguments
    ]
    name = re.sub(r"-1(?=[,;])", "1", test.name)
    sums = executed(
        attrs.evolve(
            test, name=name, text=test.text.replace(test.name.partition(" //")[0], name.partition(" //")[0]), arguments=tuple(changed)
        ),
        True,
    )
    dtype = {"f16": np.float16, "f32": np.float32, "f64": np.float64}[kind]
    count = min(len(expected), len(got)) // np.dtype(dtype).itemsize
    old, new, total = (np.frombuffer(data, dtype, count).astype(np.longdouble) for data in (expected, got, sums))
    with np.errstate(all="ignore"):
        bound = (depth + 2) * UNITS[kind] * np.abs(total) + 2.0**-126
        same = (old == new) | (np.isnan(old) & np.isnan(new)) | (np.abs(old - new) <= bound) | ~np.isfinite(total)
    return bool(same.all())
