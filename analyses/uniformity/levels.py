"""How uniform threads are: the words in which uniformity speaks.

Threads come in groups, each of groups of the one before: a warp of 32 threads, a warpgroup of four warps, a CTA, a cluster, the grid. A
*level* says of a value that all threads of any one such group hold the same, and of a branch that they take the same path: those of them
that come there, each time that they come there.
"""

from __future__ import annotations

import enum

from ptxkit.analyses.launch.launch import WARP
from ptxkit.analyses.threads.lanes import Thread
from ptxkit.frozen import frozen


class Level(enum.IntEnum):
    """The largest group of threads that are uniform for certain; THREAD: nothing is proved."""

    THREAD = 0
    WARP = 1
    WARPGROUP = 2
    CTA = 3
    CLUSTER = 4
    GRID = 5

    def __str__(self) -> str:
        return self.name.lower()

    @property
    def threads(self) -> int | None:
        """How many neighbours in the order of a CTA are such a group; None from the CTA on, which has as many as it is launched with."""
        return _SIZES.get(self)


_SIZES = {Level.THREAD: 1, Level.WARP: WARP, Level.WARPGROUP: 4 * WARP}


@frozen
class Divergence:
    """The proof that threads diverge: two of one group, of which one takes another path than the other, the first time that both come
    there."""

    scope: Level
    """The smallest group that both threads are in, from WARP on: what holds in it, holds in none that is larger."""
    one: Thread
    """Goes where the guard holds; of a point, executes it."""
    other: Thread
    branch: int
    """The instruction at which they diverge: a branch, or one under a guard."""
    why: str
    """What differs, for people: "`%p1` holds for thread 0, not for thread 16"."""
    given: str = ""
    """If it depends on what the kernel is launched with: an example, as "n = 17, %ctaid.x = 0". Empty: on every launch."""
    assumption: str = ""
    """What is taken for granted of the launch, for people; empty: nothing."""


@frozen
class Verdict:
    """What is known of a branch, a guard or a point.

    `level` is proved; `refuted` proves that no group of its scope or larger is uniform. Between the two nothing is known.
    """

    level: Level
    refuted: Divergence | None = None
    assumption: str = ""
    """What `level` takes for granted of the launch, for people; empty: nothing."""

    def holds(self, level: Level) -> bool:
        """Whether the threads of each such group are uniform, for certain."""
        return self.level >= level

    def fails(self, level: Level) -> Divergence | None:
        """The proof that the threads of some such group differ, on every launch; None if there is none."""
        found = self.refuted
        return found if found is not None and found.scope <= level and not found.given else None

    def may_fail(self, level: Level) -> Divergence | None:
        """The same, for some launch at least."""
        found = self.refuted
        return found if found is not None and found.scope <= level else None


@frozen
class ThreadSet:
    """Threads of a CTA, counted as the hardware does: x first, then y, then z."""

    mask: int
    """Bit t stands for thread t."""
    total: int
    """How many threads were looked at: those of the CTA, or the most that it may have."""
    is_certain: bool
    """Whether a CTA has exactly `total` threads; else it may have fewer, and those of the set that are there count."""
    one_per_warp: bool = False
    """Not all of them, but exactly one in each warp of which any is in the set; which one is not known (elect.sync)."""
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
        """Whether all threads of the CTA are in it."""
        return self.mask == (1 << self.total) - 1 and not self.one_per_warp


@frozen
class Step:
    """A link in the chain from where threads begin to differ to a branch."""

    instruction: int
    """-1 for what a function is given."""
    register: str
    """The register that holds what differs; empty for a branch by which threads come on different paths."""
    level: Level
    """How uniform threads are in it."""
    why: str
    """What the instruction does about it, for people."""
