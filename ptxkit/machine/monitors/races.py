"""Data races: unordered accesses to the same bytes that are not morally strong, at least one of them a write (ISA 8.7.1).

`ordering` tracks happens-before, `comparing` the earlier accesses of each byte, `asynchronous` operations in flight, and `proxies` fences
between proxies. Covers S003, S009, and races in global memory.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from ptxkit.machine.groups import Lanes
from ptxkit.machine.matrices.tensor_memory import CELL, COLUMNS, LANES
from ptxkit.machine.matrices.tensor_memory import SPACE as TENSOR
from ptxkit.machine.monitors.asynchronous import InFlight
from ptxkit.machine.monitors.clocks import GPU
from ptxkit.machine.monitors.comparing import Comparison, Pairs
from ptxkit.machine.monitors.kinds import Kind
from ptxkit.machine.monitors.naming import Names, Side
from ptxkit.machine.monitors.ordering import Ordering
from ptxkit.machine.monitors.pieces import distinct, expanded
from ptxkit.machine.monitors.proxies import AFTER_SYNCHRONIZATION, RULES, Fences, fenced_proxy
from ptxkit.machine.monitors.queues import Flying, after
from ptxkit.machine.monitors.reports import Race, reported
from ptxkit.machine.monitors.shadow import bytes_of, repeated
from ptxkit.machine.monitors.tensor_waits import TensorWaits, waits_for

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ptxkit.machine.asynchronous import Flight
    from ptxkit.machine.findings import Finding
    from ptxkit.machine.interfaces import Launch, Residents
    from ptxkit.machine.memory import Access

Array = np.ndarray[Any, Any]
FAMILIES = ("races", "async", "proxies")
"""Families of findings: races of all accesses, races of operations in flight among them, and races between proxies."""
SHOWN = 16
"""Maximum number of bytes whose value is in a witness."""


class Races(Ordering):
    """Monitors global, shared and tensor memory. `races` has the races found, by pair of instructions.

    `families` selects the findings to report. `by_the_letter` also reports reads that an asynchronous operation overwrites without a proxy
    fence. `by_collectives` is that of `Ordering`. `lines` restricts races between weak accesses to these lines; None: all. No races are
    looked for in the state spaces `left_out`; what accesses there order is tracked all the same.
    """

    def __init__(
        self,
        families: Sequence[str] = FAMILIES,
        by_the_letter: bool = False,
        by_collectives: bool = False,
        lines: frozenset[int] | None = None,
        left_out: frozenset[str] = frozenset(),
    ) -> None:
        super().__init__(by_collectives, lines)
        self.left_out = left_out
        self.families = frozenset(families)
        self.by_the_letter = by_the_letter
        self.races: dict[tuple[int, int, bool], Race] = {}
        self.conflicts = 0
        """How often an operation in flight, or a completed one, was found to race."""
        self.unchecked = 0
        """Number of pairs of accesses to the same bytes that were too many to compare."""

    def begin(self, launch: Launch) -> None:
        super().begin(launch)
        self.names = Names(launch)
        self.comparison = Comparison(self)
        self.flying = InFlight(self)
        self.fences = Fences(self, self.by_the_letter)
        self.waits = TensorWaits(self)

    def resident(self, residents: Residents) -> None:
        has_grown = self.has_grown(residents)
        super().resident(residents)
        if has_grown:
            return
        self.comparison.reset()
        self.flying.reset()
        self.fences.reset()
        self.waits.reset()

    def vacant(self, residents: Residents) -> None:
        self.flying.reset()

    def end(self, launch: Launch) -> None:
        # findings may be kept without the shadow memory
        self.comparison.shadows = {}

    def exit(self, lanes: Lanes) -> None:
        self.flying.exited(lanes)

    def started(self, flight: Flight) -> None:
        self.flying.started(flight)

    def committed(self, lanes: Lanes, queue: str) -> None:
        self.flying.committed_(lanes, queue)

    def awaited(self, lanes: Lanes, queue: str, limit: Array, reading: bool) -> None:
        self.flying.awaited(lanes, queue, limit, reading)

    def landing(self, flight: Flight, positions: Array) -> None:
        self.flying.landing(flight, positions)

    # --- accesses

    def access(self, access: Access) -> None:
        is_map = access.proxy == "tensormap"
        if not is_map and access.space != TENSOR:
            super().access(access)
            return
        site = getattr(access.lanes, "site", None)
        kind = self.kind(site) if site is not None else None
        if kind is None or not kind.is_asked:
            return
        if is_map:
            self.fences.map_read(access, ".shared" if access.space.startswith(".shared") else access.space, kind)
            return
        self._access(access, TENSOR, kind)
        self.fences.after_synchronization(access, kind)

    def _access(self, access: Access, space: str, kind: Kind) -> None:
        lanes, at = access.lanes, access.at
        at = np.asarray(at, np.int64) if getattr(at, "ndim", 0) else repeated(int(at), lanes.count)
        if kind.is_asked and space not in self.left_out and not self.comparison.is_news(access, space, kind, at):
            return
        if kind.is_object:
            for one, where in zip(lanes.place.tolist(), at.tolist(), strict=True) if not kind.strength else ():
                self.made.setdefault(one, []).append(where)
        elif kind.strength or self.chains:
            self._order(space, lanes, at, access.size, kind, access.kind != "write", access.kind != "read")

    # --- what synchronizes

    def instruction(self, lanes: Any, arguments: tuple[Any, ...]) -> None:
        bound = lanes.site.bound
        if "fence" in bound.effects:
            super().instruction(lanes, arguments)
        elif fenced_proxy(bound):
            self.fences.executed(lanes, bound, arguments)
        elif AFTER_SYNCHRONIZATION in bound.effects:
            self.fences.synchronized(lanes)
        elif queue := waits_for(bound):
            self.waits.waited(lanes, queue)
        else:
            super().instruction(lanes, arguments)

    def has_published(self, made: Array) -> None:
        shadow = self.comparison.shadows.get(".shared")
        if shadow is not None:
            shadow.strengthen(expanded(made, np.full(len(made), 8), shadow.origin, shadow.grain)[0], GPU)

    # --- findings

    @property
    def findings(self) -> list[Finding]:
        """The races, one for each pair of instructions."""
        return [reported(race, self.launch) for race in self.races.values() if self.families & race.families]

    @property
    def kinds(self) -> Iterable[Kind]:
        """The accesses of all instructions that were executed."""
        return self._kinds.values()

    def kind_at(self, number: int) -> Kind:
        """The accesses of an instruction, by its number."""
        return self._kinds[id(self._sites[number])]

    def are(self, holds: Callable[[Kind], bool], numbers: Array) -> Array:
        """Evaluates a predicate for instructions given by number, once for each instruction."""
        first, which = distinct(numbers)
        return np.array([holds(self.kind_at(number)) for number in numbers[first].tolist()], bool)[which]

    def conflict(
        self, space: str, start: int, end: int, threads: tuple[int, int], kinds: tuple[Kind, Kind], does: tuple[str, str], count: int,
        rule: str, why: str = "",
    ) -> None:  # fmt: skip
        """Records a race of an operation in flight, or of a completed one, with another access. `threads` may be agents."""
        self.conflicts += 1
        key = (kinds[0].number, kinds[1].number, rule in RULES)
        known = self.races.get(key)
        if known is not None:
            known.count += count
            return
        variable, offset = self.names.variable(space, start) if space != TENSOR else _cell_named(start)
        named = [self.names.thread(self.flying.issuer(thread)) for thread in threads]
        held = self.names.bytes_at(space, start, end) if space != TENSOR and end - start <= SHOWN else None
        # an operation in flight has not written yet, so a read returns the current bytes
        values = [held if done == "read" else None for done in does]
        sides = [Side(*name, kind.line, done, value) for name, kind, done, value in zip(named, kinds, does, values, strict=True)]
        sites = (self._sites[kinds[0].number], self._sites[kinds[1].number])
        race = Race(space, variable, offset, end - start, (sides[0], sides[1]), sites, False, count, rule)
        self.races[key] = attrs.evolve(race, why=why) if why else race
        self.launch.found()

    def unawaited(self, one: Flying, row: int, count: int, rule: str, why: str) -> None:
        """Reports threads that exit while their copies may still read shared memory."""
        footprint = one.footprint
        start, thread = int(footprint.at[row]), int(one.place[row]) + self.knowledge.first
        end = start + int(footprint.size[row])
        why = f"its thread ends without waiting for it{': ' + why if why else ''}; the memory may then belong to another CTA"
        done = ("read", "exit")
        self.conflict(footprint.space, start, end, (thread, thread), (one.kind, one.kind), done, count, rule, why)

    def note(self, pairs: Pairs) -> None:
        """Reports races, separately for equal values."""
        before, rows = pairs.before, pairs.rows
        for equal in (False, True):
            chosen = np.flatnonzero(pairs.same == equal)
            # prefer pairs of different warps
            chosen = chosen[np.argsort(self._warp_of(before.thread[chosen]) == self._warp_of(rows.thread[chosen]), kind="stable")]
            _, first, counts = np.unique(before.site[chosen], return_index=True, return_counts=True)
            for i, count in zip(chosen[first].tolist(), counts.tolist(), strict=True):
                self._found(pairs, i, count)

    def _found(self, pairs: Pairs, i: int, count: int) -> None:
        """Records the race of a pair of accesses; for each pair of instructions, the first is shown."""
        rows, before, shadow, space, same = pairs.rows, pairs.before, pairs.shadow, pairs.space, bool(pairs.same[i])
        key = (int(before.site[i]), rows.kind.number, False)
        known = self.races.get(key)
        if known is not None:
            across = known.is_of_a_warp(self.launch) and self._warp_of(before.thread[i]) != self._warp_of(rows.thread[i])
            if (same and not known.same_value) or (same == known.same_value and not across):
                known.count += count
                return
            count += known.count
        piece = int(rows.piece[i]) * shadow.grain + shadow.origin
        (size, offset), (earlier_size, earlier_offset) = bytes_of(int(rows.code[i])), bytes_of(int(before.code[i]))
        start = max(piece - offset, piece - earlier_offset)
        end = min(piece - offset + size, piece - earlier_offset + earlier_size)
        earlier_kind = self._kinds[id(self._sites[int(before.site[i])])]
        value: str | None = self.names.bytes_at(space, start, end) if space != TENSOR else None
        earlier_value = None if earlier_kind.strength or earlier_kind.group else value
        if pairs.how == "write":
            value = self.comparison.written(int(rows.thread[i]), start - (piece - offset), end - start)
        if pairs.collide:
            earlier_value = self.comparison.written(int(before.thread[i]), start - (piece - earlier_offset), end - start)
        variable, offset = self.names.variable(space, start) if space != TENSOR else _cell_named(start)
        first = Side(*self.names.thread(self.flying.issuer(int(before.thread[i]))), earlier_kind.line, pairs.what, earlier_value)
        second = Side(*self.names.thread(int(rows.thread[i])), rows.kind.line, pairs.how, value)
        if pairs.collide:
            first, second = second, first
        sites = (self._sites[earlier_kind.number], self._sites[rows.kind.number])
        rule = after(earlier_kind, pairs.what, rows.kind, pairs.how)
        self.races[key] = Race(space, variable, offset, end - start, (first, second), sites, same, count, rule)
        self.launch.found()

    def _warp_of(self, thread: Any) -> Any:
        """The warps of threads given by their index in the launch."""
        threads = self.launch.threads
        return thread // threads * -(-threads // 32) + thread % threads // 32


def _cell_named(at: int) -> tuple[str, int]:
    """A cell of tensor memory, by lane and column."""
    lane, column = divmod(at // CELL, COLUMNS)
    return f"lane {lane % LANES}, column {column} of tensor memory", 0
