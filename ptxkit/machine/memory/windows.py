"""Where the state spaces lie among the generic addresses, and how an address in shared memory names the CTA (ISA 9.7.10.19, 9.7.10.22).

A generic address is that of global memory, unless its upper 16 bits name a window. The windows begin at multiples of 2**32, so that the
lower half of a generic address in shared memory is the address in `.shared`, as programs expect that truncate one.

An address in `.shared` has the rank of the CTA in its cluster in bits 24 and up, and the offset below, as on the hardware: so an address
of the own CTA is one in `.shared::cluster` too, and clearing a bit of the rank gives the address in the other CTA of a pair.
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
"""Where the rank of a CTA begins in an address in shared memory."""

OFFSET_MASK = (1 << RANK_BITS) - 1

PARAM_FRAME = 1 << 20
"""From here on, an address in `.param` is one in the thread's local memory: parameters of device functions lie in its stack."""

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
    """The rank of the CTA that an address in shared memory (or a generic one of it) names (`getctarank`)."""
    return (np.asarray(address).astype(np.uint64)[()] & np.uint64(0xFFFFFFFF)) >> np.uint64(RANK_BITS)


def cluster_offset(address: Any) -> Any:
    """The offset in the CTA's shared memory of an address in shared memory."""
    return np.asarray(address).astype(np.uint64)[()] & np.uint64(OFFSET_MASK)


def cluster_address(address: Any, rank: Any) -> Any:
    """The address in the CTA of a rank that corresponds to an address in shared memory; a generic one stays generic (`mapa`)."""
    address = np.asarray(address).astype(np.uint64)[()]
    keep = np.uint64(0xFFFFFFFF_00000000 | OFFSET_MASK)
    return (address & keep) | (np.asarray(rank).astype(np.uint64)[()] << np.uint64(RANK_BITS))
