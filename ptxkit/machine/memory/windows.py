"""The windows of state spaces in generic addresses, and the CTA rank in shared memory addresses (ISA 9.7.10.19, 9.7.10.22).

A generic address is a global address unless its upper 16 bits select a window. Windows start at multiples of 2**32, so that the lower half
of a generic shared memory address is the address in `.shared`, as programs that truncate addresses expect.

As on hardware, an address in `.shared` has the rank of the CTA in its cluster in bits 24 and up, and the offset below. An address of the
own CTA is therefore also valid in `.shared::cluster`, and clearing a bit of the rank gives the address in the other CTA of a pair.
"""

from __future__ import annotations

from typing import Any

import numpy as np

SHARED = 1 << 48
LOCAL = 2 << 48
PARAM = 3 << 48
CONST = 4 << 48
WINDOW_BITS = 48

RANK_BITS = 24
"""Position of the CTA rank in a shared memory address."""

OFFSET_MASK = (1 << RANK_BITS) - 1

PARAM_FRAME = 1 << 20
"""Addresses in `.param` from here on refer to the thread's local memory: parameters of device functions are in its stack."""

WINDOWS = {
    ".global": 0,
    ".shared": SHARED,
    ".shared::cta": SHARED,
    ".shared::cluster": SHARED,
    ".local": LOCAL,
    ".param": PARAM,
    ".param::entry": PARAM,
    ".param::func": PARAM,
    ".const": CONST,
}
"""The first generic address of each state space."""

SPACE_OF_WINDOW = (".global", ".shared::cluster", ".local", ".param", ".const")
"""The state space by the upper 16 bits of a generic address."""


def to_generic(space: str, address: Any) -> Any:
    """The generic address of an address in a state space (`cvta`)."""
    return np.uint64(WINDOWS[space]) + np.asarray(address).astype(np.uint64)[()] if WINDOWS[space] else address


def cluster_rank(address: Any) -> Any:
    """The CTA rank in a shared memory address or a generic address of shared memory (`getctarank`)."""
    return (np.asarray(address).astype(np.uint64)[()] & np.uint64(0xFFFFFFFF)) >> np.uint64(RANK_BITS)


def cluster_offset(address: Any) -> Any:
    """The offset in the CTA's shared memory of a shared memory address."""
    return np.asarray(address).astype(np.uint64)[()] & np.uint64(OFFSET_MASK)


def cluster_address(address: Any, rank: Any) -> Any:
    """The corresponding shared memory address in the CTA with a given rank; a generic address stays generic (`mapa`)."""
    address = np.asarray(address).astype(np.uint64)[()]
    keep = np.uint64(0xFFFFFFFF_00000000 | OFFSET_MASK)
    return (address & keep) | (np.asarray(rank).astype(np.uint64)[()] << np.uint64(RANK_BITS))
