"""Representative CTAs: if several CTAs do the same in shared memory, monitors need to watch only one of them.

CTAs do the same if the same threads access the same bytes of their own shared memory, and synchronize, by the same instructions in the same
order. This is compared at every access and barrier during the run. Monitors see only the representative; what they find holds for all, as
only threads of a CTA access its shared memory. If some CTAs deviate from the representative, they get one of their own, and the launch is
restarted: CTAs of even and odd numbers may sort in different directions.
"""

from __future__ import annotations

from typing import Any

import attrs
import numpy as np

from ptxkit.frozen import frozen
from ptxkit.machine.fault import Stop

Array = np.ndarray[Any, Any]
APART = "apart"
"""Kind of the fault that ends a run so that it is restarted with more CTAs watched."""
MOST = 8
"""Maximum number of classes of CTAs that deviate; if there are more, all CTAs are watched."""
PER_CLASS = 4
"""Least number of CTAs of the grid for each such class."""
MOST_GROUPS = 64
"""Maximum number of cached groups of lanes."""


Classes = tuple[frozenset[int], ...]
"""The numbers of the CTAs that deviate from most others; those of one set may do the same."""


class Representatives:
    """Decides which CTAs of a launch are represented by another: in each of the `classes`, and among all other CTAs, by the first."""

    def __init__(self, launch: Any, classes: Classes) -> None:
        self.launch = launch
        self.classes = classes
        self.apart: frozenset[int] = frozenset()
        """CTAs of one class that turned out to deviate from its representative; empty if all CTAs have to be watched."""
        deviating = frozenset().union(*classes)
        self._first = [next((n for n in range(launch.ctas) if n not in deviating), launch.ctas), *map(min, classes)]
        """The representatives."""
        self.residents: Any = None
        self._first_cta = -1
        self._done: list[list[tuple[int, bytes]]] = [[] for _ in self._first]
        """What each representative has done: the instruction, and a digest of the threads and addresses."""

    def resident(self, residents: Any) -> None:
        """Called when CTAs become resident. They must repeat what the representatives of earlier waves did."""
        self._grew = self.residents is residents and self._first_cta == residents.first_cta
        self.residents, self._first_cta = residents, residents.first_cta
        self._next = [0 for _ in self._first]
        numbers = residents.first_cta + np.arange(residents.ctas)
        self._class = np.zeros(residents.ctas, np.int64)
        for number, members in enumerate(self.classes, 1):
            self._class[np.isin(numbers, list(members))] = number
        self._members = [np.flatnonzero(self._class == number) for number in range(len(self._first))]
        self._groups: dict[int, _Group] = {}

    @property
    def count(self) -> int:
        """How many CTAs are represented by another one."""
        return max(0, int(self.launch.ctas) - len(self._first))

    def seen(self, access: Any) -> Any:
        """The part of a shared memory access that monitors are to see; None if nothing. Raises Stop if a CTA deviates."""
        if self._grew:
            self._stop(np.zeros(0, np.int64))
        lanes = access.lanes
        group = self._known(lanes)
        at = np.broadcast_to(np.asarray(access.at, np.int64), lanes.count)
        for one in group.classes:
            self._compare(one, one.of(at) - one.base, lanes.site, access.kind)
        return _part(access, group.watched) if len(group.watched) else None

    def synchronized(self, lanes: Any, arguments: tuple[Any, ...]) -> None:
        """Compares lanes at an instruction that synchronizes. Raises Stop if a CTA deviates."""
        bound = lanes.site.bound
        # compare which barrier, how many threads and which lanes, not the data that is exchanged
        decides = bool(bound.barrier) or not bound.writes
        given = [one for one in arguments if decides and getattr(one, "ndim", 0) == 1 and len(one) == lanes.count]
        for one in self._known(lanes).classes:
            for values in given or [np.zeros(lanes.count, np.int64)]:
                self._compare(one, one.of(values), lanes.site, "sync")

    def _known(self, lanes: Any) -> _Group:
        group = self._groups.get(id(lanes.place))
        if group is None:
            if len(self._groups) > MOST_GROUPS:
                self._groups.clear()
            numbers = self._class[lanes.cta]
            classes = tuple([self._of_class(lanes, numbers, number) for number in np.flatnonzero(np.bincount(numbers)).tolist()])
            watched = [one.positions(one.first) for one in classes if one.is_first]
            every = np.sort(np.concatenate(watched)) if watched else np.zeros(0, np.int64)
            group = self._groups[id(lanes.place)] = _Group(lanes.place, classes, every)
        return group

    def _of_class(self, lanes: Any, numbers: Array, number: int) -> _Class:
        """The lanes of the CTAs of a class. Raises Stop unless all its CTAs are present with the same threads."""
        mine = np.flatnonzero(numbers == number)
        others = mine if len(mine) < lanes.count else None
        cta, thread = lanes.cta[mine], lanes.thread[mine]
        members = self._members[number]
        first = int(np.searchsorted(cta, cta[0], "right"))
        counts = np.bincount(cta, minlength=self.residents.ctas)[members]
        if (counts != first).any():
            usual = np.bincount(counts).argmax()
            self._stop(members[counts != usual])
        rows = thread.reshape(len(members), first)
        same = (rows == rows[0]).all(axis=1)
        if not same.all():
            self._stop(members[~same])
        base = cta.astype(np.int64) * self.launch.machine.memory.shared_stride
        is_first = self._first_cta + int(members[0]) == self._first[number]
        return _Class(number, others, first, len(members), base, thread[:first].tobytes(), is_first)

    def _compare(self, one: _Class, given: Array, site: Any, kind: str) -> None:
        """Raises Stop unless all CTAs of a class do the same, and what its representative has done in a wave before."""
        rows = given.reshape(one.ctas, one.first)
        same = (rows == rows[0]).all(axis=1)
        if not same.all():
            self._stop(self._members[one.number][~same])
        if self.residents.ctas == self.launch.ctas:
            return
        done = id(site), _digest(kind.encode() + rows[0].tobytes() + one.threads)
        before, at = self._done[one.number], self._next[one.number]
        if one.is_first:
            before.append(done)
        elif at >= len(before) or before[at] != done:
            self._stop(self._members[one.number])
        self._next[one.number] += 1

    def _stop(self, ctas: Array) -> None:
        """Ends the run, as these CTAs of a class deviate. Those of later waves are expected to deviate likewise."""
        self.apart = frozenset((self._first_cta + ctas).tolist())
        if len(ctas):
            number = int(self._class[ctas[0]])
            members = self._members[number]
            period = _period(members, np.isin(members, ctas))
            rest = range(self._first_cta + self.residents.ctas, self.launch.ctas if period else 0)
            usual = {int(one) % period for one in self._first_cta + ctas} if period else set()
            mine = self.classes[number - 1] if number else set(rest).difference(*self.classes)
            self.apart |= {one for one in rest if one % period in usual and one in mine}
        raise Stop(APART, "CTAs that do something else in shared memory")


def _period(numbers: Array, deviates: Array) -> int:
    """The least period with which some of these CTAs deviate; 0 if there is none."""
    column = np.full(int(numbers[-1]) + 1, -1)
    column[numbers] = deviates
    for period in range(1, len(column) // 2 + 1):
        before, after = column[:-period], column[period:]
        if ((before == after) | (before < 0) | (after < 0)).all():
            return period
    return 0


def divided(classes: Classes, apart: frozenset[int], ctas: int) -> Classes | None:
    """The classes with the CTAs `apart` in one of their own; None if they are not part of a class, or there would be too many classes for a
    grid of `ctas` CTAs: watching all takes less than a restart for each class."""
    kept = tuple([members - apart for members in classes])
    found = (*kept, apart)
    return found if apart and all(found) and len(found) <= min(MOST, max(1, ctas // PER_CLASS)) else None


@frozen(eq=False)
class _Class:
    """The lanes of one class among lanes that execute together: their positions (None: all lanes), how many there are of each of `ctas`
    CTAs, and whether the first of these is the representative."""

    number: int
    others: Array | None
    first: int
    ctas: int
    base: Array
    """Start of shared memory of each lane's CTA."""
    threads: bytes
    is_first: bool

    def of(self, values: Array) -> Array:
        """The values of these lanes."""
        return values if self.others is None else values[self.others]

    def positions(self, count: int) -> Array:
        """The positions of the first of these lanes."""
        return np.arange(count) if self.others is None else self.others[:count]


@frozen(eq=False)
class _Group:
    """Lanes that execute together, by class."""

    lanes: Array
    classes: tuple[_Class, ...]
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
