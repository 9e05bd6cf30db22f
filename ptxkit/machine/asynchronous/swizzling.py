"""The layout of swizzled tiles in shared memory (ISA 5.5.6).

A swizzle XORs some bits of an address with higher bits, so it is its own inverse.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ptxkit.machine.operation import Unsupported

_BITS = {
    ("32B", "16B"): (4, 1, 7),
    ("64B", "16B"): (4, 2, 7),
    ("128B", "16B"): (4, 3, 7),
    ("128B", "32B"): (5, 2, 7),
    ("128B", "64B"): (6, 1, 7),
}
"""By swizzle and atomicity: the first bit that changes, the number of bits, and the first of the higher bits."""


def swizzled(address: Any, swizzle: str, atomicity: str = "16B") -> Any:
    """The shared memory address of a byte whose address without swizzle is `address`. Raises `Unsupported`."""
    if swizzle == "none":
        return address
    if (swizzle, atomicity) not in _BITS:
        raise Unsupported(f"the {swizzle} swizzle with an atomicity of {atomicity} is not executed: the manual at hand has no table of it")
    to, count, of = _BITS[swizzle, atomicity]
    return address ^ ((address >> of & (1 << count) - 1) << to)


def pieces(at: int, size: int, swizzle: str, atomicity: str = "16B") -> Any:
    """For each 16-byte chunk of a tile at an address, in order, the number of the chunk in shared memory that holds it."""
    return swizzled(at + np.arange(0, size, 16, dtype=np.int64), swizzle, atomicity) >> 4
