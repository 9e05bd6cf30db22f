"""Reads of registers that nothing wrote before.

A read is undefined on all ways, or on some. A way is only told of if no two branches and guards on it contradict each other: those on
one value of a predicate hold together or not at all, be it that the register is written and read under one guard, or in two branches.
"""

from __future__ import annotations

import attrs

from ptxkit.analyses.cfg import Via, control_flow
from ptxkit.analyses.reaching import ENTRY, reaching
from ptxkit.analyses.registers import CARRY, registers
from ptxkit.analyses.routine import Routine, fact
from ptxkit.analyses.ssa import Origin, ssa

STATES = 4000
"""How many states a search for a way may see before it gives up and tells of none."""

Assumptions = frozenset[tuple[int, bool]]
"""Values of predicates, and whether they hold."""


@attrs.frozen
class UndefinedRead:
    """The first read of a register that may see nothing."""

    instruction: int
    register: int
    always: bool
    """Whether no way to it writes the register."""
    way: tuple[int, ...]
    """The blocks of a way from the entry to the read on which nothing writes it; only its own block if that is so on all."""
    writes: tuple[int, ...]
    """The instructions that write it on other ways."""


@fact
def undefined_reads(routine: Routine) -> tuple[UndefinedRead, ...]:
    """For each register that a reachable instruction may read before it is written, the first such read, in document order."""
    named, values = registers(routine), ssa(routine)
    chains = reaching(routine)
    found = []
    for register, entry in values.entry.items():
        if named.given >> register & 1 or not _is_declared(routine, register):
            continue
        readers = [i for i in chains.readers(entry) if i not in named.unknown]
        read = _always(routine, register, readers) or _sometimes(routine, register, readers)
        if read is not None:
            found.append(read)
    return tuple(sorted(found, key=lambda read: read.instruction))


def _is_declared(routine: Routine, register: int) -> bool:
    described = registers(routine).table[register]
    return described.symbol is not None or described.name == CARRY


def _always(routine: Routine, register: int, readers: list[int]) -> UndefinedRead | None:
    chains = reaching(routine)
    for i in readers:
        if chains.definitions(i, register) == (ENTRY,):
            return UndefinedRead(i, register, True, (control_flow(routine).block_of[i],), ())
    return None


def _sometimes(routine: Routine, register: int, readers: list[int]) -> UndefinedRead | None:
    search = _Search(routine, register)
    for i in readers:
        way = search.way_to(i)
        if way is not None:
            writes = [write for write in reaching(routine).definitions(i, register) if write != ENTRY]
            return UndefinedRead(i, register, False, way, tuple(writes))
        if search.exhausted:
            return None
    return None


class _Search:
    """Looks for a way from the entry to a read that passes no write of a register, walking back from the read."""

    def __init__(self, routine: Routine, register: int) -> None:
        self.routine = routine
        self.flow = control_flow(routine)
        self.named = registers(routine)
        self.values = ssa(routine)
        self.left = STATES
        self.writes: dict[int, list[int]] = {}
        for i, written in enumerate(self.named.writes):
            if register in written:
                self.writes.setdefault(self.flow.block_of[i], []).append(i)

    @property
    def exhausted(self) -> bool:
        return self.left <= 0

    def way_to(self, i: int) -> tuple[int, ...] | None:
        """The blocks of a way, from the entry on; None if there is none, or none was found in time."""
        start: Assumptions | None = self._guard(frozenset(), i, True) if self._is_guarded(i) else frozenset()
        block = self.flow.block_of[i]
        assert start is not None
        begin = self._through(block, i, start)
        if begin is None:
            return None
        if block == 0:
            return (0,)
        origin: dict[tuple[int, Assumptions], tuple[int, Assumptions] | None] = {(block, begin): None}
        work = [(block, begin)]
        while work and self.left > 0:
            state = work.pop()
            for before in self._before(*state):
                if before in origin:
                    continue
                self.left -= 1
                origin[before] = state
                if before[0] == 0:
                    return self._way(before, origin)
                work.append(before)
        return None

    def _way(self, state: tuple[int, Assumptions], origin: dict[tuple[int, Assumptions], tuple[int, Assumptions] | None]) -> tuple[int, ...]:
        way = []
        at: tuple[int, Assumptions] | None = state
        while at is not None:
            way.append(at[0])
            at = origin[at]
        return tuple(way)

    def _before(self, block: int, assumed: Assumptions) -> list[tuple[int, Assumptions]]:
        """The states at the start of the blocks before, as far as they contradict nothing."""
        found = []
        for place, predecessor in enumerate(self.flow.blocks[block].predecessors):
            if predecessor not in self.flow.reachable:
                continue
            carried = self._carried(block, place, assumed)
            taken = None if carried is None else self._along(predecessor, block, carried)
            through = None if taken is None else self._through(predecessor, self.flow.blocks[predecessor].end, taken)
            if through is not None:
                found.append((predecessor, through))
        return found

    def _carried(self, block: int, place: int, assumed: Assumptions) -> Assumptions | None:
        """What the assumptions at the start of a block mean at the end of its predecessor; about values made in the block: nothing."""
        result: Assumptions | None = frozenset()
        for value, holds in assumed:
            of = self.values.values[value]
            if of.block != block or of.origin is Origin.ENTRY:
                result = self._assume(result, value, holds)
            elif of.origin is Origin.PHI:
                result = self._assume(result, of.operands[place], holds)
            if result is None:
                return None
        return result

    def _along(self, block: int, successor: int, assumed: Assumptions) -> Assumptions | None:
        """With what the branch at the end of a block says if control goes to that successor."""
        ways = {edge.via for edge in self.flow.blocks[block].edges if edge.target == successor}
        last = self.flow.blocks[block].end - 1
        if len(ways) != 1 or not self._is_guarded(last):
            return assumed
        via = ways.pop()
        return self._guard(assumed, last, via is not Via.NOT_TAKEN)

    def _through(self, block: int, end: int, assumed: Assumptions) -> Assumptions | None:
        """From before instruction `end` back to the start of its block: guarded writes did not happen; None if there is a sure write."""
        result: Assumptions | None = assumed
        for i in reversed(self.writes.get(block, [])):
            if i >= end or result is None:
                continue
            if i not in self.named.weak or i in self.named.unknown or not self._is_guarded(i):
                return None
            result = self._guard(result, i, False)
        return result

    def _is_guarded(self, i: int) -> bool:
        return self.routine.instructions[i].guard is not None

    def _guard(self, assumed: Assumptions | None, i: int, holds: bool) -> Assumptions | None:
        """With the guard of an instruction holding or not."""
        guard = self.routine.instructions[i].guard
        assert guard is not None
        uses = self.values.uses[i]
        return self._assume(assumed, uses[0], holds != guard.negated) if uses else assumed

    def _assume(self, assumed: Assumptions | None, value: int, holds: bool) -> Assumptions | None:
        if assumed is None or (value, not holds) in assumed:
            return None
        if value < 0 or len(self.values.users[value]) < 2:
            # nothing else can contradict it
            return assumed
        return assumed | {(value, holds)}
