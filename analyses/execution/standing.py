"""Representative CTAs: if several CTAs do the same in shared memory, monitors need to watch only one of them.

CTAs do the same if the same threads access the same bytes of their own shared memory, and synchronize, by the same instructions in the same
order. This is compared at every access and barrier during the run. Monitors see only the representative; what they find holds for all, as
only threads of a CTA access its shared memory. If a CTA deviates, the launch is restarted with that CTA watched individually.
"""

from __future__ import annotations

from typing import Any

import attrs
import numpy as np

from ptxkit.machine.fault import Stop

Array = np.ndarray[Any, Any]
APART = "apart"
"""Kind of the fault that ends a run so that it is restarted with more CTAs watched."""
MOST = 8
"""Maximum number of CTAs that are watched individually; if more deviate, all are watched."""
MOST_GROUPS = 64
"""Maximum number of cached groups of lanes."""


class StandIns:
    """Decides which CTAs of a launch are represented by another. `own` are the numbers of the CTAs that deviate and are watched
    individually."""

    def __init__(self, launch: Any, own: frozenset[int]) -> None:
        self.launch = launch
        self.own = own
        self.apart: frozenset[int] = frozenset()
        """CTAs that turned out to deviate."""
        self.residents: Any = None
        self._first_cta = -1
        self._done: list[tuple[int, bytes]] = []
        """What the first CTAs have done: the instruction, and a digest of the threads and addresses."""
        self._next = 0

    def resident(self, residents: Any) -> None:
        """Called when CTAs become resident. From the second wave on, they have to repeat what the first ones did."""
        self._grew = self.residents is residents and self._first_cta == residents.first_cta
        self.residents, self._first_cta = residents, residents.first_cta
        self._next = 0
        self._is_own = np.isin(residents.first_cta + np.arange(residents.ctas), list(self.own))
        self._others = int(np.count_nonzero(~self._is_own))
        self._groups: dict[int, _Group] = {}

    @property
    def count(self) -> int:
        """How many CTAs are represented by another one."""
        return max(0, int(self.launch.ctas) - len(self.own) - 1)

    def seen(self, access: Any) -> Any:
        """The part of a shared memory access that monitors are to see; None if nothing. Raises Stop if a CTA deviates."""
        if self._grew:
            self._stop(np.arange(self.residents.ctas))
        lanes = access.lanes
        group = self._known(lanes)
        if group.first:
            at = np.broadcast_to(np.asarray(access.at, np.int64), lanes.count)
            offset = (at if group.others is None else at[group.others]) - group.base
            self._compare(group, offset, lanes.site, access.kind)
        return _part(access, group.watched) if len(group.watched) else None

    def synchronized(self, lanes: Any, arguments: tuple[Any, ...]) -> None:
        """Compares lanes at an instruction that synchronizes. Raises Stop if a CTA deviates."""
        group = self._known(lanes)
        if not group.first:
            return
        bound = lanes.site.bound
        # compare which barrier, how many threads and which lanes, not the data that is exchanged
        decides = bool(bound.barrier) or not bound.writes
        given = [one for one in arguments if decides and getattr(one, "ndim", 0) == 1 and len(one) == lanes.count]
        for one in given or [np.zeros(lanes.count, np.int64)]:
            self._compare(group, one if group.others is None else one[group.others], lanes.site, "sync")

    def _known(self, lanes: Any) -> _Group:
        group = self._groups.get(id(lanes.place))
        if group is None:
            if len(self._groups) > MOST_GROUPS:
                self._groups.clear()
            group = self._groups[id(lanes.place)] = self._group(lanes)
        return group

    def _group(self, lanes: Any) -> _Group:
        """The lanes by CTA. Raises Stop unless all represented CTAs are present with the same threads."""
        own = self._is_own[lanes.cta]
        others = np.flatnonzero(~own) if own.any() else None
        cta, thread = (lanes.cta, lanes.thread) if others is None else (lanes.cta[others], lanes.thread[others])
        if not len(cta):
            return _Group(lanes.place, others, 0, cta, b"", np.flatnonzero(own))
        first = int(np.searchsorted(cta, cta[0], "right"))
        counts = np.bincount(cta, minlength=self.residents.ctas)
        wrong = (counts != first) & ~self._is_own
        if not wrong.any():
            rows = thread.reshape(self._others, first)
            wrong[np.flatnonzero(~self._is_own)] = ~(rows == rows[0]).all(axis=1)
        if wrong.any():
            usual = np.bincount(counts[~self._is_own]).argmax()
            self._stop(np.flatnonzero(counts != usual) if first != usual else np.flatnonzero(wrong))
        standing = np.arange(first) if others is None else others[:first]
        watched = np.union1d(np.flatnonzero(own), standing) if self._first_cta == 0 else np.flatnonzero(own)
        base = cta.astype(np.int64) * self.launch.machine.memory.shared_stride
        return _Group(lanes.place, others, first, base, thread[:first].tobytes(), watched)

    def _compare(self, group: _Group, given: Array, site: Any, kind: str) -> None:
        """Raises Stop unless all represented CTAs do the same, and what the first wave did."""
        rows = given.reshape(self._others, group.first)
        same = (rows == rows[0]).all(axis=1)
        if not same.all():
            self._stop(np.flatnonzero(~self._is_own)[~same])
        if self.residents.ctas == self.launch.ctas:
            return
        done = id(site), _digest(kind.encode() + rows[0].tobytes() + group.threads)
        if self._first_cta == 0:
            self._done.append(done)
        elif self._next >= len(self._done) or self._done[self._next] != done:
            self._stop(np.arange(self.residents.ctas))
        self._next += 1

    def _stop(self, ctas: Array) -> None:
        self.apart = frozenset((self._first_cta + ctas).tolist())
        raise Stop(APART, "CTAs that do something else in shared memory")


@attrs.frozen(eq=False)
class _Group:
    """Lanes that execute together: the positions of those in represented CTAs (None: all), and how many of them are in the first such
    CTA."""

    lanes: Array
    others: Array | None
    first: int
    base: Array
    """Start of shared memory of each lane's CTA."""
    threads: bytes
    watched: Array
    """Positions of the lanes that monitors see."""


def _digest(data: bytes) -> bytes:
    import hashlib

    return hashlib.blake2b(data, digest_size=16).digest()


def _part(access: Any, positions: Array) -> Any:
    """The access restricted to some of its lanes."""
    count = access.lanes.count
    if len(positions) == count:
        return access
    at = access.at[positions] if getattr(access.at, "ndim", 0) else access.at
    values = access.values
    if values is not None:
        values = tuple([value[positions] if getattr(value, "ndim", 0) else value for value in values])
    return attrs.evolve(access, lanes=access.lanes.at(positions), at=at, values=values)
