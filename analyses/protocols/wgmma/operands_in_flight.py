"""Matrices that wgmma operations may still be reading on a path: arrivals that release their stage, and writes to them (9.7.16).

The path of a thread is followed with its groups in flight and its loop indices, so the stage is known whichever counter selects it.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator

from ptxkit.analyses.cfg.graph import control_flow
from ptxkit.analyses.cfg.loops import loops
from ptxkit.analyses.events.descriptors import SHARED, Matrix, matrices
from ptxkit.analyses.events.effects import Reach
from ptxkit.analyses.events.mbarriers import guarded
from ptxkit.analyses.events.steps import LEAST_BYTES, Does
from ptxkit.analyses.framework.bindings import bindings
from ptxkit.analyses.framework.finding import Finding
from ptxkit.analyses.framework.routine import Routine
from ptxkit.analyses.memory.accesses import Access, accesses
from ptxkit.analyses.memory.address import Address
from ptxkit.analyses.memory.regions import Region, regions
from ptxkit.analyses.protocols.mbarrier.refills import refills
from ptxkit.analyses.protocols.mbarrier.usage import Location, address_parts, usage
from ptxkit.analyses.protocols.wgmma.register_fences import QUEUE, wgmma
from ptxkit.analyses.symbolic.environment import settler
from ptxkit.analyses.symbolic.terms import Term
from ptxkit.analyses.symex.async_groups import Operation
from ptxkit.analyses.symex.async_queue import explore
from ptxkit.analyses.symex.moments import Moment, Observer
from ptxkit.frozen import frozen
from ptxkit.isa.binding import Bound

_RELEASED = "this releases the stage that a wgmma may still read, with no wait for its group in between"
_NOT_WAITED_FOR = "this writes what a wgmma may still read, with no wait for its group in between"
_UNSIGNALLED = "this writes what a wgmma may still read: its warps have waited for it, but no barrier followed the wait"
MOST_FAILURES = 4
"""After this many paths without a feasible input, no further inputs are sought."""


def released(routine: Routine) -> Iterator[Finding]:
    """Arrivals and writes, on paths that some input takes, that release or overwrite a matrix that a wgmma may still read."""
    of = wgmma(routine)
    own: dict[int, list[Matrix]] = {}
    for matrix in matrices(routine):
        if matrix.rows and of is not None and any(step.instruction == matrix.instruction for block in of.steps for step in block):
            own.setdefault(matrix.instruction, []).append(matrix)
    if not own:
        return
    watch = _Reading(routine, own)
    if not watch.arrivals and not watch.writes:
        return
    explore(routine, (QUEUE,), watch.terms, watch)
    yield from watch.found.values()


@frozen(eq=False)
class _Waited:
    """Operations that their warp has waited for, with no barrier since that signals other warps."""

    operations: tuple[Operation, ...] = ()

    def _key(self) -> Hashable:
        return tuple([operation.signature for operation in self.operations])

    def __hash__(self) -> int:
        return hash(self._key())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Waited) and self._key() == other._key()


_NONE = _Waited()


class _Reading(Observer):
    """Observes the releases and writes of matrices that operations in flight read."""

    start = _NONE

    def __init__(self, routine: Routine, own: dict[int, list[Matrix]]) -> None:
        self.regions = regions(routine)
        self.rows = {i: [(row, matrix) for matrix in found for row in matrix.rows] for i, found in own.items()}
        self.arrivals = _arrivals(routine)
        self.remote = {use.instruction for use in usage(routine).of(Does.ARRIVE) if use.is_remote}
        self.writes = _writes(routine, own)
        self.refilled: dict[Location, list[Region]] = {}
        for refill in refills(routine):
            self.refilled.setdefault(refill.location, []).append(refill.region)
        self.terms: dict[int, tuple[Term, ...]] = {i: tuple([row for row, _ in rows]) for i, rows in self.rows.items()}
        self.terms |= {i: (index,) for i, (_, index) in self.arrivals.items()}
        self.terms |= {i: (access.address,) for i, access in self.writes.items() if access.address is not None}
        self.found: dict[int, Finding] = {}
        self.failures = 0

    def rests(self, memory: Hashable) -> bool:
        return memory == _NONE

    def meet(self, moment: Moment, memory: Hashable) -> Hashable:
        assert isinstance(memory, _Waited)
        i = moment.instruction
        if not self.found and self.failures < MOST_FAILURES:
            if i in self.arrivals:
                self._arrive(moment)
            elif i in self.writes:
                self._write(moment, memory)
        if moment.sync is not None and moment.sync.reach >= Reach.MBARRIER:
            return _NONE
        done = moment.completed(QUEUE)
        return _Waited((*memory.operations, *done)) if done else memory

    def _read(self, operation: Operation, threads: int, by_all: bool = False) -> Iterator[Region]:
        """The bytes that an operation certainly reads, for some of its threads; with `by_all`, only those that all of their warps read."""
        for (_, matrix), address in zip(self.rows[operation.instruction], operation.terms, strict=True):
            region = self.regions.region(address, LEAST_BYTES, threads, matrix.lanes)
            if region is not None and not (by_all and matrix.is_divided):
                yield region

    def _arrive(self, moment: Moment) -> None:
        (base, offset), _ = self.arrivals[moment.instruction]
        iteration = moment.terms[0].constant
        freed = self.refilled.get(Address(base, offset + iteration), ()) if iteration is not None else ()
        for operation in moment.pending(QUEUE) if freed else ():
            threads = operation.threads & moment.threads
            read = list(self._read(operation, threads)) if threads else []
            if any(one.is_common and self.regions.overlap(one, other) is not None for one in read for other in freed):
                self._add(moment, operation, _RELEASED, None)
                return

    def _write(self, moment: Moment, memory: _Waited) -> None:
        access = self.writes[moment.instruction]
        region = self.regions.region(moment.terms[0], access.least, moment.threads, access.lanes)
        if region is None:
            return
        for operations, is_done in ((moment.pending(QUEUE), False), (memory.operations, True)):
            for operation in operations:
                for read in self._read(operation, operation.threads & moment.threads, is_done):
                    threads = self.regions.meet_between_warps(read, region) if is_done else self.regions.overlap(read, region)
                    if threads is not None:
                        self._add(moment, operation, _UNSIGNALLED if is_done else _NOT_WAITED_FOR, threads)
                        return

    def _add(self, moment: Moment, operation: Operation, message: str, threads: tuple[int, int] | None) -> None:
        if moment.hinges(operation) and moment.skipped(operation):
            # what this path avoids may be unavoidable whenever the operation is started
            return
        model = moment.model(operation) if threads is None else moment.model(operation, thread=threads[1], others=threads[:1])
        if model is None:
            self.failures += 1
            return
        is_certain = moment.instruction not in self.remote
        self.found[moment.instruction] = Finding(moment.instruction, message, moment.witness(operation), is_certain)


def _arrivals(routine: Routine) -> dict[int, tuple[Location, Term]]:
    """The arrivals at mbarriers that a copy waits at, each with the parts of its address.

    A thread that copies into several CTAs waits for all of them: an arrival at another CTA's mbarrier belongs to such copies.
    """
    positions, shared = ({refill.location for refill in refills(routine) if refill.is_multicast or not wanted} for wanted in (False, True))
    found = {}
    for use in usage(routine).of(Does.ARRIVE):
        if use.step.address is not None and not use.step.is_multicast and (shared if use.is_remote else positions) & set(use.locations):
            found[use.instruction] = address_parts(routine, settler(routine).term(guarded(routine, use.instruction, use.step.address)))
    return found


def _writes(routine: Routine, own: dict[int, list[Matrix]]) -> dict[int, Access]:
    """The writes to shared memory that threads may reach after an operation."""
    flow, forest, bounds = control_flow(routine), loops(routine), bindings(routine)
    homes = {flow.block_of[i] for i in own}
    found = {}
    for access in accesses(routine):
        bound = bounds[access.instruction]
        if not access.writes or access.space != SHARED or access.address is None or not access.least:
            continue
        if not isinstance(bound, Bound) or bound.barrier or access.instruction in own:
            continue
        block = flow.block_of[access.instruction]
        if any(block > home or any(home in loop and block in loop for loop in forest.loops) for home in homes):
            found[access.instruction] = access
    return found
