"""Levels of uniformity: the vocabulary of the analysis.

Threads form nested groups: a warp of 32 threads, a warpgroup of four warps, a CTA, a cluster, the grid. The *level* of a value states that
all threads of any one such group hold the same value; the level of a branch states that they take the same path. It concerns those of them
that reach it, each time that they do.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from functools import cached_property

import attrs

from ptxkit.analyses.launch.launch import WARP
from ptxkit.analyses.threads.lanes import Thread
from ptxkit.frozen import frozen


class Level(enum.IntEnum):
    """The largest group of threads that is certainly uniform; THREAD: nothing is proved."""

    THREAD = 0
    WARP = 1
    WARPGROUP = 2
    CTA = 3
    CLUSTER = 4
    GRID = 5

    def __str__(self) -> str:
        return self.name.lower()

    @property
    def word(self) -> str:
        """The level in prose."""
        return "CTA" if self is Level.CTA else str(self)

    @property
    def threads(self) -> int | None:
        """The number of consecutive threads of a CTA that form such a group; None from CTA up, which has as many as are launched."""
        return _SIZES.get(self)


_SIZES = {Level.THREAD: 1, Level.WARP: WARP, Level.WARPGROUP: 4 * WARP}


@frozen
class Divergence:
    """The proof that threads diverge: two threads of one group that take different paths the first time that both arrive."""

    scope: Level
    """The smallest group that contains both threads, WARP or larger: every larger group diverges as well."""
    one: Thread
    """The thread for which the guard holds; for a point, the one that executes it."""
    other: Thread
    branch: int
    """The instruction at which they diverge: a branch, or a guarded instruction."""
    why: str
    """What differs, as text: "`%p1` holds for thread 0, not for thread 16"."""
    given: str = ""
    """If divergence depends on launch inputs, an example such as "n = 17, %ctaid.x = 0". Empty if it occurs in every launch."""
    assumption: str = ""
    """What is assumed about the launch, as text; may be empty."""


@frozen(eq=False)
class Verdict:
    """What is known about a branch, a guard or a point.

    `level` is proved; `refuted` proves that groups of its scope or larger are not uniform. In between, nothing is known.
    """

    level: Level
    assumption: str = ""
    """What `level` assumes about the launch, as text; may be empty."""
    _refute: Callable[[], Divergence | None] = attrs.field(default=lambda: None, repr=False)

    @cached_property
    def refuted(self) -> Divergence | None:
        """Two threads that differ; they are searched for when they are first asked for."""
        return self._refute()

    def holds(self, level: Level) -> bool:
        """Whether the threads of each such group are certainly uniform."""
        return self.level >= level

    def fails(self, level: Level) -> Divergence | None:
        """The proof that the threads of some such group differ in every launch; None if there is none."""
        found = self.refuted
        return found if found is not None and found.scope <= level and not found.given else None


@frozen
class ThreadSet:
    """Threads of a CTA, numbered as in hardware: x first, then y, then z."""

    mask: int
    """Bit t represents thread t."""
    total: int
    """The number of threads considered: those of the CTA, or the most that it may have."""
    is_certain: bool
    """Whether a CTA has exactly `total` threads; otherwise it may have fewer, and the set contains those of its threads that exist."""
    one_per_warp: bool = False
    """Not the whole set, but exactly one unknown thread in each warp that has threads in the set (elect.sync)."""
    assumption: str = ""

    def __contains__(self, thread: int) -> bool:
        return bool(self.mask >> thread & 1)

    def __len__(self) -> int:
        return sum(map(bool, self.warps)) if self.one_per_warp else self.mask.bit_count()

    @property
    def warps(self) -> tuple[int, ...]:
        """By warp, the mask of its lanes that are in the set."""
        return tuple([self.mask >> first & ((1 << WARP) - 1) for first in range(0, self.total, WARP)])

    @property
    def is_all(self) -> bool:
        """Whether the set contains all threads of the CTA."""
        return self.mask == (1 << self.total) - 1 and not self.one_per_warp


@frozen
class Step:
    """A link in the chain from a source of divergence to a branch."""

    instruction: int
    """-1 for a function's input."""
    register: str
    """The register that holds the divergent value; empty for a branch that sends threads on different paths."""
    level: Level
    """Its level."""
    why: str
    """The role of the instruction, as text."""
