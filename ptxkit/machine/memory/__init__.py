"""Memory: state spaces, allocations, generic windows, loads, stores and atomics (ISA 5.1, 9.7.10, 9.7.14.5)."""

from ptxkit.machine.memory.allocations import Allocation, Allocations
from ptxkit.machine.memory.memory import Access, Memory
from ptxkit.machine.memory.windows import (
    CONST,
    LOCAL,
    PARAM,
    PARAM_FRAME,
    SHARED,
    cluster_address,
    cluster_offset,
    cluster_rank,
    to_generic,
)

__all__ = [
    "CONST",
    "LOCAL",
    "PARAM",
    "PARAM_FRAME",
    "SHARED",
    "Access",
    "Allocation",
    "Allocations",
    "Memory",
    "cluster_address",
    "cluster_offset",
    "cluster_rank",
    "to_generic",
]
