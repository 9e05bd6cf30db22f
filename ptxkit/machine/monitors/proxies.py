"""Proxies: what the generic proxy wrote and the async proxy reads or overwrites, with no proxy fence between (ISA 8.6, 8.9.5, 9.7.14.4).

A fence between the generic proxy and another one orders accesses if it is executed in the CTA of the operation by the other proxy, and
lies between the two in base causality order. So for each fence is kept what its thread knew. The reverse, from an asynchronous
operation to the generic proxy, needs no fence: a completion that was waited for or observed is one (9.7.10.24.2). Operations by the async
proxy need none between them, not even in different CTAs, once one is known to be complete: that is how multicasts work, though 8.9.5 speaks
of one CTA.

What the generic proxy has only read and a copy overwrites needs a fence by the letter (P004). Hardly a program has it: it is a note, and
only looked for with `by_the_letter`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from ptxkit.isa.binding import Bound
from ptxkit.machine.monitors.clocks import NOTHING
from ptxkit.machine.monitors.shadow import Entries, Shadow

if TYPE_CHECKING:
    from ptxkit.machine.monitors.asynchronous import Flying
    from ptxkit.machine.monitors.races import Races, _Kind

Array = np.ndarray[Any, Any]
EFFECT = "proxy-fence-"
RULES = {
    "P001": "generic-write-async-read",
    "P002": "generic-write-tensorcore-read",
    "P003": "proxy-fence-wrong-side",
    "P004": "generic-read-async-overwrite",
    "P005": "tensormap-proxy",
}


def fenced_proxy(bound: Bound) -> str:
    """Which proxy an instruction is a fence to; empty if it is none."""
    return next((effect.removeprefix(EFFECT) for effect in bound.effects if effect.startswith(EFFECT)), "")


@attrs.define(eq=False)
class _Fence:
    """A fence of the threads of a CTA, and what they knew: together, and each."""

    proxy: str
    space: str
    places: Array
    stamp: int
    together: int
    floor_cta: Array
    floor_warp: Array
    extra: Array


class Fences:
    """The proxy fences of one launch."""

    def __init__(self, races: Races, by_the_letter: bool) -> None:
        self.races = races
        self.by_the_letter = by_the_letter
        self.reset()

    def reset(self) -> None:
        """Other CTAs are resident."""
        self.of: dict[int, list[_Fence]] = {}

    def executed(self, lanes: Any, bound: Bound) -> None:
        """Threads execute a fence to another proxy."""
        knowledge = self.races.knowledge
        proxy = fenced_proxy(bound)
        space = next((word for word in bound.modifiers if word.startswith((".global", ".shared"))), "").split("::")[0]
        for cta in np.unique(lanes.cta).tolist():
            places = lanes.place[lanes.cta == cta]
            fence = _Fence(
                proxy, space, places, knowledge.stamp, knowledge.together(places), knowledge.floor_cta[places].copy(),
                knowledge.floor_warp[places].copy(), knowledge.extra[places].copy(),
            )  # fmt: skip
            self.of.setdefault(cta, []).append(fence)
        knowledge.tick()

    def concerns(self, kind: _Kind) -> bool:
        """Whether accesses are made through another proxy than the generic one."""
        return kind.proxy not in ("", "generic")

    def check(self, one: Flying, shadow: Shadow, row: Array, place: Array, before: Entries, rows: Array, what: str) -> None:
        """Accesses that happen before an operation that begins, through another proxy: is there a fence between?"""
        if what == "read" and not self.by_the_letter:
            return
        generic = np.array([self.races.kind_at(number).proxy in ("", "generic") for number in before.site[rows].tolist()], bool)
        rows = rows[generic]
        if not len(rows):
            return
        for number in np.unique(place[rows]).tolist():
            mine = rows[place[rows] == number]
            left = self.unfenced(number, before.thread[mine], before.stamp[mine], one.touched.space, one.kind)
            self._notes(one, shadow, row, before, mine[left], what)

    def unfenced(self, place: int, thread: Array, stamp: Array, space: str, kind: _Kind) -> Array:
        """Which accesses no fence comes after that happens before what a thread does now."""
        knowledge, flying = self.races.knowledge, self.races.flying
        left = np.ones(len(thread), bool)
        for fence in reversed(self.of.get(place // knowledge.threads, [])):
            if fence.proxy != kind.proxy or (fence.space and fence.space != space):
                continue
            threads = fence.places + knowledge.first
            known = flying.happens_before(kind, np.full(len(threads), place), threads, np.full(len(threads), fence.stamp))
            if not known.any():
                continue
            rows = np.flatnonzero(left)
            left[rows] = ~self._knew(fence, known, thread[rows], stamp[rows])
            if not left.any():
                break
        return left

    def _knew(self, fence: _Fence, chosen: Array, thread: Array, stamp: Array) -> Array:
        """Whether accesses happen before a fence of some of its threads."""
        knowledge = self.races.knowledge
        threads = fence.places[chosen] + knowledge.first
        found: Array = np.isin(thread, threads) & (stamp <= fence.stamp)
        found |= (thread // knowledge.threads == threads[0] // knowledge.threads) & (stamp <= fence.floor_cta[chosen].max())
        warps, at = np.unique(knowledge.warp_of(threads), return_inverse=True)
        floors = np.full(len(warps), -1)
        np.maximum.at(floors, at.reshape(-1), fence.floor_warp[chosen])
        index = np.searchsorted(warps, knowledge.warp_of(thread))
        index = np.minimum(index, len(warps) - 1)
        found |= (warps[index] == knowledge.warp_of(thread)) & (stamp <= floors[index])
        clock = knowledge.clocks.join_all(np.unique(fence.extra[chosen]).tolist())
        rows = np.flatnonzero(~found)
        if clock != NOTHING and len(rows):
            one = knowledge.clocks[clock]
            pairs, which = np.unique(thread[rows], return_inverse=True)
            until = np.array([one.of(t, int(knowledge.warp_of(t)), t // knowledge.threads) for t in pairs.tolist()])
            found[rows] = stamp[rows] <= until[which.reshape(-1)]
        return found

    def _notes(self, one: Flying, shadow: Shadow, row: Array, before: Entries, rows: Array, what: str) -> None:
        races = self.races
        _, first, counts = np.unique(before.site[rows], return_index=True, return_counts=True)
        for i, count in zip(rows[first].tolist(), counts.tolist(), strict=True):
            start = int(before.piece[i]) * shadow.grain + shadow.origin
            threads = int(before.thread[i]), int(one.place[row[i]]) + races.knowledge.first
            rule = "P004" if what == "read" else "P002" if one.kind.group in ("wgmma", "tcgen05") else "P001"
            races.conflict(
                one.touched.space, start, start + shadow.grain, threads, (races.kind_at(int(before.site[i])), one.kind),
                (what, one.touched.kind), count, rule, f"no fence.proxy.{one.kind.proxy} lies between",
            )  # fmt: skip


__all__ = ["RULES", "Fences", "fenced_proxy"]
