"""Operations in flight, the groups of them that threads have committed and waited for, and which rule an early use violates.

Operations start in a queue (`cp.async`, `bulk`, `wgmma`, `tcgen05`, …), in which their threads commit and wait for groups, or signal an
mbarrier (ISA 9.7.10.24, 9.7.14.15, 9.7.15, 9.7.16).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from ptxkit.frozen import define

if TYPE_CHECKING:
    from ptxkit.isa.binding import Bound
    from ptxkit.machine.asynchronous import Flight
    from ptxkit.machine.asynchronous.agents import Footprint
    from ptxkit.machine.interfaces import Races
    from ptxkit.machine.monitors.kinds import Kind

Array = np.ndarray[Any, Any]
SIGNALLED = "mbarrier"
"""The group of operations whose completion an mbarrier signals."""

RULES = {
    "A001": "cpasync-read-before-wait",
    "A002": "wait-before-commit",
    "A003": "wait-group-too-weak",
    "A005": "cpasync-missing-barrier-after-wait",
    "A006": "cpasync-overlap-in-group",
    "A010": "slot-refill-without-barrier",
    "A011": "bulk-source-overwritten",
    "A012": "bulk-store-not-committed",
    "A013": "bulk-wait-by-non-issuer",
    "A014": "bulk-store-not-waited-before-exit",
    "A015": "wrong-async-group-kind",
    "M018": "slot-released-before-last-read",
    "M019": "async-data-read-without-wait",
    "T004": "tmem-dealloc-before-readers",
    "T005": "tcgen05-mma-not-committed",
    "T006": "tcgen05-missing-thread-fence",
    "W007": "wgmma-operand-slot-released",
}


def group_of(bound: Bound) -> str:
    """The queue in which an instruction starts an operation, or `mbarrier`; empty if it is not asynchronous."""
    opened = next((one.group for one in bound.asynchronous if one.action == "open"), "")
    return opened or (SIGNALLED if any(memory.is_async for memory in bound.memory) else "")


@define(eq=False)
class Flying:
    """The accesses of an operation in flight, one row each. `left` marks the rows whose completion is not yet known."""

    flight: Flight
    kind: Kind
    footprint: Footprint
    place: Array
    left: Array
    waits: Array
    """For each row, how often its thread had waited in any queue when the operation started."""
    start: int = attrs.field(init=False)
    end: int = attrs.field(init=False)
    """The bytes from the first to the last of all rows."""

    def __attrs_post_init__(self) -> None:
        self.start, self.end = extent(self.footprint.at, self.footprint.size)


class Queues:
    """What the resident threads have committed and waited for, in each queue."""

    def __init__(self, races: Races) -> None:
        self._races = races
        self._committed: dict[str, Array] = {}
        self._waited: dict[str, Array] = {}
        """How often each thread has waited in a queue."""

    def commit(self, place: Array, queue: str) -> None:
        """Called when threads commit a group."""
        self._counts(self._committed, queue)[place] += 1

    def wait(self, place: Array, queue: str) -> None:
        """Called when threads have waited for groups."""
        self._counts(self._waited, queue)[place] += 1

    def waits(self, place: Array) -> Array:
        """How often threads have waited, in all queues together."""
        return sum([self._counts(self._waited, queue)[place] for queue in self._waited], 0 * place)

    def _counts(self, by: dict[str, Array], queue: str) -> Array:
        """The counters of all resident threads for a queue."""
        found, count = by.get(queue), self._races.knowledge.count
        if found is None or len(found) < count:
            known = found if found is not None else np.zeros(0, np.int64)
            found = by[queue] = np.concatenate([known, np.zeros(count - len(known), np.int64)])
        return found

    def early(self, one: Flying, row: int, how: str, kind: Kind, place: int) -> tuple[str, str]:
        """What is missing between an operation in flight and an access: the rule, and the reason in words."""
        queue, issuer = one.flight.queue, int(one.place[row])
        source = one.footprint.kind == "read"
        if not queue:
            return ("A011" if source else "M019"), "no thread has observed its completion"
        if queue not in ("cp.async", "bulk"):
            return ("T005" if queue == "tcgen05" else "W007"), "the operation is still in flight"
        if kind.group == queue and issuer == place and how == "write" == one.footprint.kind:
            return "A006", "both are in flight"
        rule, why = self.lacking(one, row)
        return rule or ("A011" if source else "A001"), why or "nothing has waited for it"

    def lacking(self, one: Flying, row: int) -> tuple[str, str]:
        """What is wrong with the waits for an operation of a group; empty if there are none."""
        queue, issuer = one.flight.queue, int(one.place[row])
        waited = self._counts(self._waited, queue)
        everywhere = int(self.waits(np.array([issuer]))[0]) > one.waits[row]
        is_open = bool(one.flight.group[one.footprint.lane[row]] >= self._counts(self._committed, queue)[issuer])
        if everywhere and not waited[issuer]:
            return "A015", "the wait between them is for groups of another kind"
        if is_open and (everywhere or queue == "bulk"):
            return ("A012" if queue == "bulk" else "A002"), "the copy is in no group that was waited for: it has not been committed"
        if everywhere:
            return ("A011" if one.footprint.kind == "read" else "A003"), "the wait between them leaves its group in flight"
        threads = self._races.knowledge.threads
        if any(place != issuer and place // threads == issuer // threads for place in np.flatnonzero(waited).tolist()):
            return ("A013" if queue == "bulk" else "A005"), "a thread waits only for its own groups"
        return "", ""


def extent(at: Array, size: Array) -> tuple[int, int]:
    """The start of the first and the end of the last of some ranges of bytes; there is at least one."""
    return int(at.min()), int((at + size).max())


def after(earlier: Kind, what: str, later: Kind, how: str) -> str:
    """The rule for a race with an asynchronous side; empty if it is the same as for other races."""
    if earlier.group in ("wgmma", "tcgen05") and what == "read":
        return "W007"
    if earlier.group == SIGNALLED and what != "read":
        return "M019"
    if earlier.group == "bulk":
        return "A013"
    if earlier.group == "cp.async":
        return "A005" if what != "read" else "A010"
    if what == "read" and how != "read":
        return {"cp.async": "A010", SIGNALLED: "M018"}.get(later.group, "")
    return ""


__all__ = ["RULES", "Flying", "Queues", "after", "extent", "group_of"]
