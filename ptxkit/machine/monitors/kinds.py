"""What the instruction table says of the accesses of an instruction, as monitors need it."""

from __future__ import annotations

import attrs


@attrs.frozen(eq=False)
class Kind:
    """The accesses of one instruction; `number` is that of its site."""

    number: int
    line: int
    order: str
    strength: int
    """The scope of a strong access; 0: weak."""
    is_watched: bool
    is_asked: bool
    """Whether it matters with whom it races: what it orders is followed in any case."""
    updates: bool
    group: str
    """The groups that it starts something in, or `mbarrier`; empty if it is not asynchronous."""
    proxy: str
    is_collective: bool
    """Whether a warpgroup executes it as one."""
    is_warps: bool
    """Whether a warp makes its accesses as one."""
    is_object: bool
    """Whether it is an operation on an mbarrier."""
