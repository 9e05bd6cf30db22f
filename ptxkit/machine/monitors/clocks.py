"""What a thread knows to have happened before: vector clocks, kept small (ISA 8.9.5, causality order).

A stamp is a number that grows with every synchronization; each access has one. A clock says up to which stamp the accesses of a thread, of
all threads of a warp, or of all threads of a CTA happen before. Clocks never change and are numbered; 0 is the one that knows nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import attrs
import numpy as np

Array = np.ndarray[Any, Any]
NOTHING = 0
CTA, CLUSTER, GPU = 1, 2, 3
"""Scopes; that of the system is the GPU's, as there is one."""


@attrs.frozen(eq=False)
class Clock:
    """Stamps by thread, warp and CTA of the launch."""

    threads: Mapping[int, int] = attrs.field(factory=dict)
    warps: Mapping[int, int] = attrs.field(factory=dict)
    ctas: Mapping[int, int] = attrs.field(factory=dict)

    def of(self, thread: int, warp: int, cta: int) -> int:
        """Up to which stamp the accesses of a thread happen before; -1: none."""
        return max(self.threads.get(thread, -1), self.warps.get(warp, -1), self.ctas.get(cta, -1))


def _larger(one: Mapping[int, int], other: Mapping[int, int]) -> Mapping[int, int]:
    if not other or one is other:
        return one
    if not one:
        return other
    found = dict(one)
    for key, stamp in other.items():
        if found.get(key, -1) < stamp:
            found[key] = stamp
    return one if len(found) == len(one) and found == one else found


class Clocks:
    """The clocks of a launch, by number."""

    def __init__(self) -> None:
        self.all = [Clock()]
        self._joined: dict[tuple[int, int], int] = {}

    def __getitem__(self, number: int) -> Clock:
        return self.all[number]

    def add(self, clock: Clock) -> int:
        self.all.append(clock)
        return len(self.all) - 1

    def join(self, one: int, other: int) -> int:
        """What either knows."""
        if one == other or other == NOTHING:
            return one
        if one == NOTHING:
            return other
        key = (one, other) if one < other else (other, one)
        found = self._joined.get(key)
        if found is None:
            a, b = self.all[key[1]], self.all[key[0]]
            threads, warps, ctas = _larger(a.threads, b.threads), _larger(a.warps, b.warps), _larger(a.ctas, b.ctas)
            if threads is a.threads and warps is a.warps and ctas is a.ctas:
                found = key[1]
            else:
                found = self.add(Clock(threads, warps, ctas))
            self._joined[key] = found
        return found

    def join_all(self, numbers: Iterable[int]) -> int:
        found = NOTHING
        for number in numbers:
            found = self.join(found, number)
        return found


@attrs.define(eq=False)
class Releases:
    """What has been released, by the scope of the release and where it was: who acquires gets what is morally strong with it (8.7).

    `wide` is of releases at the scope of the GPU, `clusters` of those of a cluster at that scope or a wider one, `ctas` of any of a CTA.
    """

    wide: int = NOTHING
    clusters: dict[int, int] = attrs.field(factory=dict)
    ctas: dict[int, int] = attrs.field(factory=dict)

    def add(self, clocks: Clocks, scope: int, cluster: int, cta: int, clock: int) -> None:
        """A release by a thread of a CTA."""
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
