"""What a thread knows to have happened before: compact vector clocks (ISA 8.9.5, causality order).

A stamp is a number that increases with every synchronization; each access has one. A clock says up to which stamp the accesses of a thread,
of all threads of a warp, or of all threads of a CTA happen before. Clocks are immutable and numbered; clock 0 knows nothing.

A clock has its own entries and refers to clocks below it, so that joining two clocks takes constant time. A query searches these, the
latest first; if there are many, their contents are merged into one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import attrs

from ptxkit.frozen import define

NOTHING = 0
CTA, CLUSTER, GPU = 1, 2, 3
"""Scopes. That of the system equals that of the GPU, as there is only one."""
NEAR = 4
"""Number of nearby clocks that are searched to find out whether a join is redundant."""
DEEP = 48
"""A clock is flattened once a query visits more clocks than this."""


class Clock(NamedTuple):
    """Stamps by thread, warp and CTA of the launch, in addition to those of the clocks `below`."""

    threads: Mapping[int, int] = {}
    warps: Mapping[int, int] = {}
    ctas: Mapping[int, int] = {}
    below: tuple[int, ...] = ()

    def knows(self, stamp: int, thread: int, warp: int, cta: int) -> bool:
        """Whether an access of a thread with this stamp happens before, according to the clock's own entries."""
        return self.threads.get(thread, -1) >= stamp or self.warps.get(warp, -1) >= stamp or self.ctas.get(cta, -1) >= stamp


class Clocks:
    """The clocks of a launch by number. A clock only refers to lower numbers."""

    def __init__(self) -> None:
        self.all = [Clock()]
        self._joined: dict[tuple[int, int], int] = {}

    def add(self, clock: Clock) -> int:
        self.all.append(clock)
        return len(self.all) - 1

    def join(self, one: int, other: int) -> int:
        """A clock that knows what either of two clocks knows."""
        if one == other or other == NOTHING:
            return one
        if one == NOTHING:
            return other
        key = (one, other) if one > other else (other, one)
        found = self._joined.get(key)
        if found is None:
            found = self._joined[key] = key[0] if self._is_below(*key) else self.add(Clock(below=key))
        return found

    def join_all(self, numbers: Iterable[int]) -> int:
        found = NOTHING
        for number in numbers:
            found = self.join(found, number)
        return found

    def _is_below(self, number: int, other: int) -> bool:
        """Whether a clock is among the nearest below another, so that joining them is redundant."""
        clocks = self.all
        near = [number]
        for one in near:
            below = clocks[one].below
            if other in below:
                return True
            if len(near) < NEAR:
                near += [lower for lower in below if lower > other]
        return False

    def knows(self, number: int, stamp: int, thread: int, warp: int, cta: int) -> bool:
        """Whether an access of a thread with this stamp happens before, according to the clock."""
        clocks = self.all
        near = [number]
        seen = {number}
        for one in near:
            clock = clocks[one]
            if clock.knows(stamp, thread, warp, cta):
                return True
            for below in clock.below:
                if below not in seen:
                    seen.add(below)
                    near.append(below)
            if len(near) > DEEP:
                self._flatten(number)
                return clocks[number].knows(stamp, thread, warp, cta)
        return False

    def _flatten(self, number: int) -> None:
        """Merges the entries of all clocks below a clock into it."""
        clocks = self.all
        found: tuple[dict[int, int], dict[int, int], dict[int, int]] = ({}, {}, {})
        left = [number]
        seen = {number}
        while left:
            clock = clocks[left.pop()]
            for mine, theirs in zip(found, clock[:3], strict=True):
                if not mine:
                    mine.update(theirs)
                    continue
                for key, stamp in theirs.items():
                    if mine.get(key, -1) < stamp:
                        mine[key] = stamp
            for below in clock.below:
                if below not in seen:
                    seen.add(below)
                    left.append(below)
        clocks[number] = Clock(found[0], found[1], found[2])


@define(eq=False)
class Releases:
    """Released clocks by scope and position of the release. An acquire obtains those that are morally strong with it (8.7).

    `wide` is for releases at GPU scope, `clusters` for releases of a cluster at cluster scope or wider, `ctas` for all releases of a CTA.
    """

    wide: int = NOTHING
    clusters: dict[int, int] = attrs.field(factory=dict)
    ctas: dict[int, int] = attrs.field(factory=dict)

    def add(self, clocks: Clocks, scope: int, cluster: int, cta: int, clock: int) -> None:
        """Adds a release by a thread of a CTA."""
        self.ctas[cta] = clocks.join(self.ctas.get(cta, NOTHING), clock)
        if scope >= CLUSTER:
            self.clusters[cluster] = clocks.join(self.clusters.get(cluster, NOTHING), clock)
        if scope >= GPU:
            self.wide = clocks.join(self.wide, clock)

    def merge(self, clocks: Clocks, other: Releases) -> None:
        self.wide = clocks.join(self.wide, other.wide)
        for mine, theirs in ((self.clusters, other.clusters), (self.ctas, other.ctas)):
            for key, clock in theirs.items():
                mine[key] = clocks.join(mine.get(key, NOTHING), clock)

    def copy(self) -> Releases:
        return Releases(self.wide, dict(self.clusters), dict(self.ctas))

    def acquired(self, clocks: Clocks, scope: int, cluster: int, cta: int) -> int:
        """What a thread of a CTA acquires at a scope."""
        found = self.ctas.get(cta, NOTHING)
        if scope >= CLUSTER:
            found = clocks.join(found, self.clusters.get(cluster, NOTHING))
        if scope >= GPU:
            found = clocks.join(found, self.wide)
        return found

    def __bool__(self) -> bool:
        return bool(self.wide or self.ctas)
