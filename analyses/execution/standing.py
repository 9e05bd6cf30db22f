"""CTAs that stand for others: of shared memory it is enough to watch one of those that do the same.

CTAs do the same in shared memory if each accesses the same bytes of its own, and synchronizes, with the same threads by the same
instructions in the same order. Whether they do is compared at every access and barrier, as the run goes on: what all of them do, monitors
see of the first one only, and what they make of it holds for all, as only threads of a CTA access its shared memory. CTAs that do something
else are watched themselves: the launch begins again then.
"""

from __future__ import annotations

from typing import Any

import attrs
import numpy as np

from ptxkit.machine.fault import Stop

Array = np.ndarray[Any, Any]
APART = "apart"
"""The kind of the fault by which a run ends, to begin again with more CTAs watched."""
MOST = 8
"""So many CTAs are watched by themselves at most, else all are."""
MOST_GROUPS = 64
"""So many groups of lanes are remembered."""


class StandIns:
    """Which CTAs of a launch stand for others. `own` are the numbers of those that do something else, and are watched for themselves."""

    def __init__(self, launch: Any, own: frozenset[int]) -> None:
        self.launch = launch
        self.own = own
        self.apart: frozenset[int] = frozenset()
        """Those that turned out to do something else."""
        self.residents: Any = None
        self._first_cta = -1
        self._done: list[tuple[int, bytes]] = []
        """What the first CTA has done: the instruction, and who accessed what."""
        self._next = 0

    def resident(self, residents: Any) -> None:
        """CTAs become resident: from the second time on they are to do what the first ones did."""
        self._grew = self.residents is residents and self._first_cta == residents.first_cta
        self.residents, self._first_cta = residents, residents.first_cta
        self._next = 0
        self._is_own = np.isin(residents.first_cta + np.arange(residents.ctas), list(self.own))
        self._others = int(np.count_nonzero(~self._is_own))
        self._groups: dict[int, _Group] = {}

    @property
    def count(self) -> int:
        """For how many CTAs one other stands."""
        return max(0, int(self.launch.ctas) - len(self.own) - 1)

    def seen(self, access: Any) -> Any:
        """What monitors are to see of an access of shared memory; None: nothing. Raises Stop where a CTA does something else."""
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
        """Lanes come to an instruction that synchronizes. Raises Stop where a CTA does something else."""
        group = self._known(lanes)
        if not group.first:
            return
        bound = lanes.site.bound
        # which barrier, how many threads, which lanes: not what is exchanged
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
        """The CTAs of lanes. Raises Stop if those that are to do the same are not all there, with the same threads."""
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
        """Raises Stop unless all of them do the same, with the same numbers, and what the first ones have done."""
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
    """Lanes that execute together: which of them are of CTAs that are to do the same (None: all), how many of the first one."""

    lanes: Array
    others: Array | None
    first: int
    base: Array
    """Where the shared memory of the CTA of each of these begins."""
    threads: bytes
    watched: Array
    """Those that monitors see."""


def _digest(data: bytes) -> bytes:
    import hashlib

    return hashlib.blake2b(data, digest_size=16).digest()


def _part(access: Any, positions: Array) -> Any:
    """An access by some of its lanes."""
    count = access.lanes.count
    if len(positions) == count:
        return access
    at = access.at[positions] if getattr(access.at, "ndim", 0) else access.at
    values = access.values
    if values is not None:
        values = tuple([value[positions] if getattr(value, "ndim", 0) else value for value in values])
    return attrs.evolve(access, lanes=access.lanes.at(positions), at=at, values=values)
