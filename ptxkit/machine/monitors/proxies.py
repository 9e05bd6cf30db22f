"""Missing proxy fences between writes of the generic proxy and accesses of the async proxy (ISA 8.6, 8.9.5, 9.7.14.4).

A fence between the generic proxy and another one orders accesses if it is executed in the CTA of the operation through the other proxy, and
lies between the two in base causality order. For each fence, the monitor therefore records what its thread knew. The reverse direction,
from an asynchronous operation to the generic proxy, needs no fence: a completion that was waited for or observed acts as one (9.7.10.24.2).
Operations through the async proxy need none between each other, even in different CTAs, once the first is known to be complete: multicast
relies on this, although 8.9.5 speaks of one CTA.

By the letter, data that the generic proxy has only read and a copy overwrites needs a fence too (P004). Hardly any program has it, so this
is a note, and only checked with `by_the_letter`. A fence that is executed not by the writing thread but by another one of its CTA, after a
barrier, satisfies the letter. It has been seen to fail where an operation reads what was written (P003), so that is a warning. Nothing is
reported if all threads execute it after the barrier, or if the operation only overwrites.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import numpy as np

from ptxkit.frozen import define
from ptxkit.isa.binding import Bound
from ptxkit.machine.interfaces import Races
from ptxkit.machine.matrices.tensor_memory import CELL
from ptxkit.machine.matrices.tensor_memory import SPACE as TENSOR
from ptxkit.machine.monitors.clocks import NOTHING
from ptxkit.machine.monitors.pieces import distinct, expanded
from ptxkit.machine.monitors.shadow import Entries, Shadow, repeated
from ptxkit.machine.values.distinct import are_among, distinct_numbers

if TYPE_CHECKING:
    from ptxkit.machine.monitors.comparing import Rows
    from ptxkit.machine.monitors.kinds import Kind
    from ptxkit.machine.monitors.knowledge import Knowledge
    from ptxkit.machine.monitors.queues import Flying

Array = np.ndarray[Any, Any]
EFFECT = "proxy-fence-"
MAPS = "tensormap"
AFTER_SYNCHRONIZATION = "tcgen05-after-thread-sync"
RULES = {
    "P001": "generic-write-async-read",
    "P002": "generic-write-tensorcore-read",
    "P003": "proxy-fence-wrong-side",
    "P004": "generic-read-async-overwrite",
    "P005": "tensormap-proxy",
    "S007": "nc-load-of-written-memory",
}


def fenced_proxy(bound: Bound) -> str:
    """The proxy that an instruction is a fence to; empty if it is none."""
    return next((effect.removeprefix(EFFECT) for effect in bound.effects if effect.startswith(EFFECT)), "")


@define(eq=False)
class _Fence:
    """A fence by threads of a CTA, and what they knew, together and individually."""

    proxy: str
    space: str
    at: int
    """The tensor map that it is for; 0 for all of memory."""
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
        """Called when other CTAs become resident."""
        self.of: dict[int, list[_Fence]] = {}
        self.synced: Knowledge | None = None
        """What threads knew at their latest `tcgen05.fence::after_thread_sync`."""

    def executed(self, lanes: Any, bound: Bound, arguments: tuple[Any, ...]) -> None:
        """Threads execute a fence to another proxy."""
        knowledge = self.races.knowledge
        proxy = fenced_proxy(bound)
        if proxy == MAPS and not bound.has(".acquire"):
            return  # what a release publishes still has to be acquired
        space = next((word for word in bound.modifiers if word.startswith((".global", ".shared"))), "").split("::")[0]
        where = self.races.located(lanes, bound, arguments, "a") if proxy == MAPS else np.zeros(lanes.count, np.int64)
        for cta, at in sorted(set(zip(lanes.cta.tolist(), where.tolist(), strict=True))):
            places = lanes.place[(lanes.cta == cta) & (where == at)]
            fence = _Fence(
                proxy, space, at, places, knowledge.stamp, knowledge.together(places), knowledge.floor_cta[places].copy(),
                knowledge.floor_warp[places].copy(), knowledge.extra[places].copy(),
            )  # fmt: skip
            self.of.setdefault(cta, []).append(fence)
        knowledge.tick()

    def concerns(self, kind: Kind, space: str) -> bool:
        """Whether accesses are made through a proxy other than the generic one."""
        return kind.proxy not in ("", "generic") and space != TENSOR

    def map_read(self, access: Any, space: str, kind: Kind) -> None:
        """Tensor maps are read through a proxy of their own: after writes to them, a `fence.proxy.tensormap` is required."""
        races, lanes = self.races, access.lanes
        at = np.broadcast_to(np.asarray(access.at, np.int64), lanes.count)
        size = np.full(lanes.count, access.size)
        shadow = races.comparison.shadow(space, at, size)
        piece, row = expanded(at, size, shadow.origin, shadow.grain)
        shadow.use(piece)
        there = np.flatnonzero(shadow.writer[piece])
        if not len(there):
            return
        place, before = lanes.place[row[there]], shadow.last_writes(piece[there])
        known = races.flying.happens_before(kind, place, before.thread, before.stamp)
        for i in np.unique(place, return_index=True)[1].tolist():
            mine = np.flatnonzero(place == place[i])
            late = mine[~known[mine]]
            where = int(at[row[there[i]]])
            bad = mine[self.unfenced(int(place[i]), before.thread[mine], before.stamp[mine], space, kind, MAPS, where)[0]]
            for rows, rule, why in ((late, "", ""), (bad, "P005", "no fence.proxy.tensormap::generic.acquire follows")):
                if len(rows):
                    start = int(before.piece[rows[0]]) * shadow.grain + shadow.origin
                    threads = int(before.thread[rows[0]]), int(place[i]) + races.knowledge.first
                    earlier = races.kind_at(int(before.site[rows[0]]))
                    races.conflict(space, start, start + shadow.grain, threads, (earlier, kind), ("write", "read"), len(rows), rule, why)
                    break

    def read_only(self, shadow: Shadow, space: str, rows: Rows) -> None:
        """Loads through the read-only path need not see what was written in this launch, in any order, and no fence helps (8.1)."""
        races = self.races
        there = np.flatnonzero(shadow.writer[rows.piece])
        if not len(there):
            return
        rows, before = rows.at(there), shadow.last_writes(rows.piece[there])
        # without an order, they race in any case
        late = (before.thread == rows.thread) | races.knowledge.known(rows.place, before.thread, before.stamp)
        chosen = np.flatnonzero(late)
        _, first, counts = np.unique(before.site[chosen], return_index=True, return_counts=True)
        for i, count in zip(chosen[first].tolist(), counts.tolist(), strict=True):
            start = int(before.piece[i]) * shadow.grain + shadow.origin
            races.conflict(
                space, start, start + shadow.grain, (int(before.thread[i]), int(rows.thread[i])),
                (races.kind_at(int(before.site[i])), rows.kind), ("write", "read"), count, "S007",
                "read-only loads are not coherent with stores",
            )  # fmt: skip

    # --- tcgen05.fence::after_thread_sync (9.1: 9.7.16.11)

    def synchronized(self, lanes: Any) -> None:
        """Updates what threads may rely on regarding tensor memory."""
        knowledge = self.races.knowledge
        if self.synced is None or self.synced.count < knowledge.count:
            synced = copy.copy(knowledge)
            for name in ("floor_cta", "floor_warp", "extra"):
                column = np.full(knowledge.count, NOTHING if name == "extra" else -1)
                if self.synced is not None:
                    column[: self.synced.count] = getattr(self.synced, name)
                setattr(synced, name, column)
            self.synced = synced
        for name in ("floor_cta", "floor_warp", "extra"):
            getattr(self.synced, name)[lanes.place] = getattr(knowledge, name)[lanes.place]

    def after_synchronization(self, access: Any, kind: Kind) -> None:
        """Checks accesses of threads to tensor memory for a fence since they synchronized with the writer."""
        races, lanes = self.races, access.lanes
        shadow = races.comparison.shadows[TENSOR]
        piece = access.at // shadow.grain
        if access.kind == "write":
            if "dealloc" in lanes.site.bound.effects:
                races.comparison.forget(TENSOR, piece)
            return
        there = np.flatnonzero(shadow.writer[piece])
        if len(there):
            before = shadow.last_writes(piece[there])
            races.waits.check(lanes.place[there], before, kind, access.kind, repeated(1, len(there)))
            self._without_fence(lanes.place[there], before, kind, access.kind)

    def _without_fence(self, place: Array, before: Entries, kind: Kind, how: str) -> None:
        """Reports accesses to tensor memory that are ordered after those of other warps, but without a fence."""
        races = self.races
        knowledge, flying = races.knowledge, races.flying
        known = knowledge.known(place, before.thread, before.stamp)
        issuers = flying.issuers_of(before.thread)
        known &= knowledge.warp_of(issuers) != knowledge.warp_of(place + knowledge.first)
        if self.synced is not None:
            known &= ~self.synced.known(place, before.thread, before.stamp)
        if known.any():
            i = int(np.flatnonzero(known)[0])
            start = int(before.piece[i]) * CELL
            threads = int(before.thread[i]), int(place[i]) + knowledge.first
            earlier = races.kind_at(int(before.site[i]))
            why = "no tcgen05.fence::after_thread_sync follows the synchronization in between"
            races.conflict(TENSOR, start, start + CELL, threads, (earlier, kind), ("write", how), int(known.sum()), "T006", why)

    def check(self, one: Flying, shadow: Shadow, row: Array, place: Array, before: Entries, rows: Array, times: Array, what: str) -> None:
        """Checks for a fence between earlier accesses, each to a number of pieces, and an operation through another proxy that starts."""
        if what == "read" and not self.by_the_letter:
            return
        generic = self.races.are(lambda kind: kind.proxy in ("", "generic"), before.site[rows])
        rows = rows[generic]
        if not len(rows):
            return
        # among many accesses, there are few distinct threads and stamps
        first, which = distinct(place[rows], before.thread[rows], before.stamp[rows])
        asked, by = before.at(rows[first]), place[rows[first]]
        left, own = np.ones((2, len(first)), bool)
        for number in distinct_numbers(by).tolist():
            mine = np.flatnonzero(by == number)
            left[mine], own[mine] = self.unfenced(
                number, asked.thread[mine], asked.stamp[mine], one.footprint.space, one.kind, one.kind.proxy
            )
        bare = rows[left[which]]
        self._notes(one, shadow, row, before, np.repeat(bare, times[bare]), what)
        if what == "write" and one.footprint.kind != "write":
            late = rows[(own & ~left)[which]]
            # no operation reads the state of an mbarrier: what it reads there has been written since
            data = late[~self.races.are(lambda kind: kind.is_object, before.site[late])]
            self._notes(one, shadow, row, before, np.repeat(data, times[data]), what, "P003")

    def unfenced(self, place: int, thread: Array, stamp: Array, space: str, kind: Kind, proxy: str, at: int = 0) -> tuple[Array, Array]:
        """Which accesses have no fence after them that happens before what a thread does now, and which have none by the accessing
        thread itself."""
        knowledge, flying = self.races.knowledge, self.races.flying
        left, own = np.ones((2, len(thread)), bool)
        earliest = int(stamp.min(initial=np.iinfo(np.int64).max))
        for fence in reversed(self.of.get(place // knowledge.threads, [])):
            if fence.stamp < earliest:
                # later accesses happen before none of the remaining ones
                break
            if fence.proxy != proxy or fence.at != at or (fence.space and fence.space != space):
                continue
            threads = fence.places + knowledge.first
            known = flying.happens_before(kind, np.full(len(threads), place), threads, np.full(len(threads), fence.stamp))
            if not known.any():
                continue
            earlier = stamp <= fence.stamp
            own &= ~(are_among(thread, threads) & earlier)
            mine = are_among(thread, threads[known]) & earlier
            rows = np.flatnonzero(left & ~mine)
            left &= ~mine
            if len(rows):
                left[rows] = ~self._knew(fence, known, thread[rows], stamp[rows])
            if not own.any():
                break
        return left, own

    def _knew(self, fence: _Fence, chosen: Array, thread: Array, stamp: Array) -> Array:
        """Whether accesses by other threads happen before a fence of the chosen threads."""
        knowledge = self.races.knowledge
        threads = fence.places[chosen] + knowledge.first
        found: Array = (thread // knowledge.threads == threads[0] // knowledge.threads) & (stamp <= fence.floor_cta[chosen].max())
        warps, at = np.unique(knowledge.warp_of(threads), return_inverse=True)
        floors = np.full(len(warps), -1)
        np.maximum.at(floors, at.reshape(-1), fence.floor_warp[chosen])
        index = np.searchsorted(warps, knowledge.warp_of(thread))
        index = np.minimum(index, len(warps) - 1)
        found |= (warps[index] == knowledge.warp_of(thread)) & (stamp <= floors[index])
        clock = knowledge.clocks.join_all(distinct_numbers(fence.extra[chosen]).tolist())
        rows = np.flatnonzero(~found)
        if clock != NOTHING and len(rows):
            found[rows] = knowledge.know_of(np.full(len(rows), clock), thread[rows], stamp[rows])
        return found

    def _notes(self, one: Flying, shadow: Shadow, row: Array, before: Entries, rows: Array, what: str, rule: str = "") -> None:
        races = self.races
        if not len(rows):
            return
        _, first, counts = np.unique(before.site[rows], return_index=True, return_counts=True)
        for i, count in zip(rows[first].tolist(), counts.tolist(), strict=True):
            start = int(before.piece[i]) * shadow.grain + shadow.origin
            threads = int(before.thread[i]), int(one.place[row[i]]) + races.knowledge.first
            named = rule or ("P004" if what == "read" else "P002" if one.kind.group in ("wgmma", "tcgen05") else "P001")
            who = "there is no" if not rule else "the writing thread executes no"
            only = "" if not rule else ", only another one does"
            races.conflict(
                one.footprint.space, start, start + shadow.grain, threads, (races.kind_at(int(before.site[i])), one.kind),
                (what, one.footprint.kind), count, named, f"{who} fence.proxy.{one.kind.proxy} in between{only}",
            )  # fmt: skip


__all__ = ["RULES", "Fences", "fenced_proxy"]
