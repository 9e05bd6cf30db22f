"""Special registers (ISA 10): for each, a function of the lanes, and a dtype."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

U32, U64, BOOL = np.dtype(np.uint32), np.dtype(np.uint64), np.dtype(np.bool_)
Value = tuple[Callable[[Any], Any], np.dtype[Any]]

SYSTEM_SHARED = 1024
"""Shared memory of each CTA that is reserved for the system, in bytes (ISA 10.29)."""
ALLOCATION_UNIT = 128
"""Allocation unit of shared memory in bytes, from sm_80 on (ISA 10.30)."""


def _resident(name: str) -> Callable[[Any], Any]:
    """A register that differs between threads: a column of the resident threads."""
    return lambda lanes: lanes.special(name)


def _of_launch(get: Callable[[Any], int], dtype: np.dtype[Any] = U32) -> Callable[[Any], Any]:
    """A register that is the same for the whole launch."""
    return lambda lanes: dtype.type(get(lanes.launch))


def _clock(shift: int, dtype: np.dtype[Any]) -> Callable[[Any], Any]:
    mask = (1 << dtype.itemsize * 8) - 1
    return lambda lanes: dtype.type(lanes.launch.clock() >> shift & mask)


def _timer(shift: int, dtype: np.dtype[Any]) -> Callable[[Any], Any]:
    mask = (1 << dtype.itemsize * 8) - 1
    return lambda lanes: dtype.type(lanes.launch.nanoseconds() >> shift & mask)


_DIMENSIONS: dict[str, Callable[[Any], tuple[int, int, int]]] = {
    "%ntid": lambda launch: launch.block,
    "%nctaid": lambda launch: launch.grid,
    "%nclusterid": lambda launch: launch.clusters,
    "%cluster_nctaid": lambda launch: launch.cluster,
}

_COLUMNS = frozenset(("%tid", "%ctaid", "%clusterid", "%cluster_ctaid"))

_OTHER: dict[str, Value] = {
    "%laneid": (_resident("laneid"), U32),
    "%warpid": (_resident("warpid"), U32),
    "%cluster_ctarank": (_resident("cluster_ctarank"), U32),
    "%lanemask_eq": (_resident("lanemask_eq"), U32),
    "%lanemask_le": (_resident("lanemask_le"), U32),
    "%lanemask_lt": (_resident("lanemask_lt"), U32),
    "%lanemask_ge": (_resident("lanemask_ge"), U32),
    "%lanemask_gt": (_resident("lanemask_gt"), U32),
    "%smid": (_resident("smid"), U32),
    "%nsmid": (_of_launch(lambda launch: launch.multiprocessors), U32),
    "%nwarpid": (_of_launch(lambda launch: 64), U32),
    "%gridid": (_of_launch(lambda launch: launch.number, U64), U64),
    "%is_explicit_cluster": (_of_launch(lambda launch: launch.is_cluster, BOOL), BOOL),
    "%cluster_nctarank": (_of_launch(lambda launch: launch.cluster_size), U32),
    "%clock": (_clock(0, U32), U32),
    "%clock_hi": (_clock(32, U32), U32),
    "%clock64": (_clock(0, U64), U64),
    "%globaltimer": (_timer(0, U64), U64),
    "%globaltimer_lo": (_timer(0, U32), U32),
    "%globaltimer_hi": (_timer(32, U32), U32),
    "%reserved_smem_offset_begin": (_of_launch(lambda launch: 0), U32),
    "%reserved_smem_offset_end": (_of_launch(lambda launch: SYSTEM_SHARED), U32),
    "%reserved_smem_offset_cap": (_of_launch(lambda launch: SYSTEM_SHARED), U32),
    "%reserved_smem_offset_0": (_of_launch(lambda launch: 0), U32),
    "%reserved_smem_offset_1": (_of_launch(lambda launch: 0), U32),
    "%total_smem_size": (_of_launch(lambda launch: _allocated(launch.shared_bytes)), U32),
    "%aggr_smem_size": (_of_launch(lambda launch: _allocated(launch.shared_bytes) + SYSTEM_SHARED), U32),
    "%dynamic_smem_size": (_of_launch(lambda launch: launch.dynamic_shared), U32),
    "%current_graph_exec": (_of_launch(lambda launch: 0, U64), U64),
    "WARP_SZ": (_of_launch(lambda launch: 32), U32),
}


def _allocated(size: int) -> int:
    """Shared memory rounded up to allocation units."""
    return -(-size // ALLOCATION_UNIT) * ALLOCATION_UNIT


_WORKSPACE = {"%envreg1": 32, "%envreg2": 0}
"""Registers in which drivers pass the address of the memory for grid-wide synchronization of cooperative launches (0 otherwise), in two
halves."""


@cache
def special_value(name: str) -> Value | None:
    """The function and dtype of a special register (`%tid.x`; without a component, the first one); None if it does not exist."""
    stem, _, component = name.partition(".")
    at = "xyzw".find(component) if component else 0
    if at < 0:
        at = "rgba".find(component)
    if stem in _COLUMNS:
        return (_resident(f"{stem[1:]}.{'xyzw'[at]}") if at < 3 else _of_launch(lambda launch: 0)), U32
    if stem in _DIMENSIONS:
        get = _DIMENSIONS[stem]
        return _of_launch((lambda launch: get(launch)[at]) if at < 3 else (lambda launch: 0)), U32
    if stem in _OTHER:
        return _OTHER[stem]
    if stem.startswith("%pm"):
        dtype = U64 if stem.endswith("_64") else U32
        return _of_launch(lambda launch: 0, dtype), dtype
    if stem in _WORKSPACE:
        shift = _WORKSPACE[stem]
        return _of_launch(lambda launch: launch.workspace >> shift & 0xFFFFFFFF), U32
    if stem.startswith("%envreg"):
        return _of_launch(lambda launch: 0), U32
    return None
