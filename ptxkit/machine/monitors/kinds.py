"""Properties of an instruction's accesses, from the instruction table, as monitors need them."""

from __future__ import annotations

from ptxkit.frozen import frozen


@frozen(eq=False)
class Kind:
    """The accesses of one instruction; `number` is the number of its site."""

    number: int
    line: int
    order: str
    strength: int
    """The scope of a strong access; 0 for a weak one."""
    is_watched: bool
    is_asked: bool
    """Whether its races are reported. What it orders is tracked in any case."""
    updates: bool
    group: str
    """The queue in which it starts an operation, or `mbarrier`; empty if it is not asynchronous."""
    proxy: str
    is_collective: bool
    """Whether a warpgroup executes it as a unit."""
    is_warps: bool
    """Whether a warp performs its accesses as a unit."""
    is_object: bool
    """Whether it is an mbarrier operation."""
    is_exchange: bool
    """Whether the lanes of a warp exchange rows of matrices: four of them hold the words of a row whose address one of them gives."""
    is_readonly: bool
    """Whether it reads through the read-only path, which is not coherent with stores (8.1, 9.7.10.9)."""
