"""The source lane of a shuffle (ISA 9.7.10.6)."""

from __future__ import annotations

from typing import Any

import numpy as np

_LANE = np.arange(32)


def sources(mode: str, lanes: Any, b: Any, c: Any) -> tuple[Any, Any]:
    """For each lane of a warp, the lane whose value it gets (its own if out of range), and whether that is in range.

    One row for all warps, or one for each.
    """
    b_rows = b & np.uint32(31) if not b.ndim else lanes.by_warp(b) & 31
    c_rows = c if not c.ndim else lanes.by_warp(c)
    limit = (c_rows & 31).astype(np.int64)
    segment = (c_rows >> 8 & 31).astype(np.int64)
    least = _LANE & segment
    most = least | (limit & ~segment)
    offset = b_rows.astype(np.int64)
    if mode == ".up":
        source = _LANE - offset
        inside = source >= most
    elif mode == ".down":
        source = _LANE + offset
        inside = source <= most
    elif mode == ".bfly":
        source = _LANE ^ offset
        inside = source <= most
    else:
        source = least | (offset & ~segment)
        inside = source <= most
    return np.where(inside, source, _LANE) & 31, inside
