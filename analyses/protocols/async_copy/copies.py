"""Errors of asynchronous copies on some path (9.7.10.24): premature reads and overwrites, and missing waits.

Every finding is based on a path that the in-flight queue has followed, on inputs that take it, on bytes that both sides access, and on what
lies between them on the path. `Finding.kind` identifies the error.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence

from ptxkit.analyses.cfg.dominators import dominators
from ptxkit.analyses.cfg.graph import control_flow
from ptxkit.analyses.cfg.reachability import closure
from ptxkit.analyses.events.descriptors import matrices
from ptxkit.analyses.events.effects import Action, Reach, effects, syncs
from ptxkit.analyses.events.steps import LEAST_BYTES
from ptxkit.analyses.framework.bindings import bindings
from ptxkit.analyses.framework.finding import Finding
from ptxkit.analyses.framework.routine import Routine, fact
from ptxkit.analyses.launch.launch import WARP
from ptxkit.analyses.memory.accesses import Access, accesses
from ptxkit.analyses.memory.regions import Region, Regions, regions
from ptxkit.analyses.protocols.async_copy.hazards import Hazard, instructions, notes_of, report
from ptxkit.analyses.protocols.async_copy.kinds import BULK, COPY, CopyFault
from ptxkit.analyses.registers.ssa import ssa
from ptxkit.analyses.symbolic.environment import settler
from ptxkit.analyses.symbolic.terms import Term
from ptxkit.analyses.symex.async_groups import Operation, Trail
from ptxkit.analyses.symex.async_queue import Coverage, explore
from ptxkit.analyses.symex.moments import Moment, Observer
from ptxkit.analyses.symex.path_condition import Choices
from ptxkit.analyses.uniformity.uniformity import uniformity
from ptxkit.frozen import frozen
from ptxkit.isa.binding import Bound

QUEUES = (COPY, BULK)
SHARED = ".shared"
MOST_FAILURES = 8
"""Once this many paths had no inputs, the function is no longer searched for inputs."""


@frozen
class Copies:
    """Findings about the asynchronous copies of a function."""

    findings: tuple[Finding, ...]
    coverage: Coverage
    blind: frozenset[str]
    """Why the absence of findings is not a proof: `paths` that were not followed to the end, `addresses` that could not be compared, a
    `shape` of the CTA that is unspecified. Empty if it is a proof."""


@frozen(eq=False)
class _Reads:
    """Reads since the last barrier, as a list with the latest first."""

    instruction: int
    region: Region
    condition: Term | None
    """The predicate of the read, if it is not known to hold."""
    before: _Reads | None
    mark: int


@frozen(eq=False)
class _Memory:
    """The observer's state on a path."""

    waited: tuple[tuple[Operation, bool], ...] = ()
    """Operations that their thread has waited for, with no barrier for other threads since; and whether there was one for the warp."""
    latest: tuple[Operation, ...] = ()
    """The operations that the last wait completed."""
    reads: _Reads | None = None

    def _key(self) -> Hashable:
        return (tuple([(operation.signature, signalled) for operation, signalled in self.waited]), self.reads.mark if self.reads else 0)

    def __hash__(self) -> int:
        return hash(self._key())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Memory) and self._key() == other._key()


@fact
def copies(routine: Routine) -> Copies:
    """The findings about the asynchronous copies of a function; empty if it has none."""
    starts = [i for i, own in effects(routine).items() if any(e.queue in QUEUES and e.action is Action.OPEN for e in own)]
    if not starts:
        return Copies((), Coverage(True, 0, {}), frozenset())
    watch = _Watch(routine)
    coverage = explore(routine, QUEUES, watch.terms, watch)
    if not coverage.complete and all(watch.targets.values()):
        # on its own, a queue has fewer states
        explore(routine, (BULK,), watch.terms_of_bulk(), watch)
    blind = {
        # tensor cores read through descriptors, which are not tracked
        "matrices": bool(watch.targets[COPY]) and bool(matrices(routine)),
        "paths": not coverage.complete,
        "addresses": watch.is_unclear or watch.failures > 0,
        "shape": watch.regions.thread_block.is_assumed and watch.regions.thread_block.size <= WARP,
    }
    found = report(routine, watch.regions.thread_block, tuple(watch.hazards.values()), watch.ends, watch.found)
    return Copies(tuple(found), coverage, frozenset([word for word, holds in blind.items() if holds]))


def _matrix_reads(routine: Routine) -> Iterator[Access]:
    """The bytes that tensor cores certainly read."""
    for matrix in matrices(routine):
        for row in matrix.rows:
            i, memory, lanes_ = matrix.instruction, matrix.memory, matrix.lanes
            yield Access(i, 0, memory, SHARED, SHARED, row, None, LEAST_BYTES, LEAST_BYTES, lanes_, None, None)


class _Watch(Observer):
    """Checks the accesses of shared memory on a path."""

    start = _Memory()

    def __init__(self, routine: Routine) -> None:
        self.routine = routine
        self.regions: Regions = regions(routine)
        self.tensor_reads = {(matrix.instruction, matrix.memory) for matrix in matrices(routine) if not matrix.is_divided}
        self.targets: dict[str, set[object]] = {COPY: set(), BULK: set()}
        """By queue, the relevant variables: destinations of copies, and sources of bulk copies."""
        self.own_accesses: dict[int, tuple[Access, ...]] = {}
        for access in self._concerned():
            self.own_accesses[access.instruction] = (*self.own_accesses.get(access.instruction, ()), access)
        self.terms: dict[int, tuple[Term, ...]] = {
            i: tuple([access.address for access in own if access.address is not None]) for i, own in self.own_accesses.items()
        }
        self.is_unclear = self._has_unknown()
        self.failures = 0
        self.possible: dict[Choices, bool] = {}
        """For the branch choices of paths on which an access could not be proved, whether inputs for the choices exist."""
        self.hazards: dict[tuple[int, int, str], Hazard] = {}
        self.ends: list[tuple[Moment, Operation]] = []
        self.seen: set[tuple[object, ...]] = set()
        self.used: set[Hashable] = set()
        self.found: dict[tuple[str, int], Finding] = {}
        self.of_operation: dict[Operation, tuple[Region | None, Region | None]] = {}
        self.orderings: dict[Trail, int] = {}

    def _concerned(self) -> list[Access]:
        """The relevant accesses of shared memory: to destinations of copies, and writes to sources of bulk copies."""
        started = {i: e.queue for i, own in effects(self.routine).items() for e in own if e.queue in QUEUES and e.action is Action.OPEN}
        hits: list[tuple[Access, frozenset[object]]] = []
        bounds = bindings(self.routine)
        for access in accesses(self.routine):
            bound = bounds[access.instruction]
            # an mbarrier operand is not data
            if access.space == SHARED and access.address is not None and access.least and not (isinstance(bound, Bound) and bound.barrier):
                hits.append((access, self._variables(access.address)))
        hits += [(access, self._variables(access.address)) for access in _matrix_reads(self.routine) if access.address is not None]
        for access, variables in hits:
            queue = started.get(access.instruction)
            if (queue == COPY and access.writes) or (queue == BULK and access.reads):
                self.targets[queue] |= variables
        return [
            access
            for access, variables in hits
            if access.instruction in started or variables & self.targets[COPY] or (access.writes and variables & self.targets[BULK])
        ]

    def _variables(self, address: Term) -> frozenset[object]:
        """The variables that an address may derive from, including its value before the loops that update it."""
        settle = settler(self.routine).term
        known, numbering = self.regions.values, ssa(self.routine)

        def made_of(at: Term) -> Sequence[Term]:
            if at.operator != "phi" or at.ssa_value is None:
                return at.inner
            return [settle(known.of(number)) for number in numbering.values[at.ssa_value].operands if number >= 0]

        symbols = [known.symbol(at) for at in closure([settle(address)], made_of) if at.operator == "address"]
        return frozenset([(symbol.name, symbol.path) for symbol in symbols if symbol is not None])

    def _has_unknown(self) -> bool:
        """Whether an operation or access may refer to any address.

        Generic addresses can only refer to shared memory if some address of it is converted; if none is, they are not counted.
        """
        started = {i for i, own in effects(self.routine).items() for e in own if e.queue in QUEUES and e.action is Action.OPEN}
        known = {(access.instruction, access.child) for own in self.own_accesses.values() for access in own}
        everything = accesses(self.routine)
        converts = any(access.space == SHARED and not access.declared for access in everything)
        for access in everything:
            if access.space == SHARED or (converts and not access.space):
                unknown = access.instruction in started or access.address is None or not access.space
                if unknown and (access.instruction, access.child) not in known:
                    return True
        return False

    def terms_of_bulk(self) -> dict[int, tuple[Term, ...]]:
        """The terms at the instructions that matter to bulk copies."""
        started = instructions(self.routine, BULK, Action.OPEN)
        writes = {i for i, own in self.own_accesses.items() if any(access.writes for access in own)}
        return {i: own for i, own in self.terms.items() if i in started | writes}

    # --- on the path

    def rests(self, memory: Hashable) -> bool:
        assert isinstance(memory, _Memory)
        return not memory.waited

    def meet(self, moment: Moment, memory: Hashable) -> Hashable:
        assert isinstance(memory, _Memory)
        if moment.instruction in self.own_accesses:
            memory = self._accessed_by(moment, memory)
        for effect in moment.effects:
            if effect.action is Action.WAIT:
                memory = self._wait(moment, effect.queue, memory)
        if moment.sync is not None and (moment.sync.reach is not Reach.WARP or self.regions.thread_block.size <= WARP):
            # an arrival signals the threads that wait
            memory = _Memory((), memory.latest)
        elif moment.sync is not None:
            memory = _Memory(tuple([(operation, True) for operation, _ in memory.waited]), memory.latest)
        if moment.leaves:
            self._leave(moment)
        return memory

    def _ranges(self, operation: Operation) -> tuple[Region | None, Region | None]:
        """The regions of shared memory that an operation reads and writes, for the threads that start it."""
        found = self.of_operation.get(operation)
        if found is None:
            read = write = None
            for access, address in zip(self.own_accesses.get(operation.instruction, ()), operation.terms, strict=True):
                region = self.regions.region(address, access.least, operation.threads)
                if access.reads:
                    read = region
                if access.writes:
                    write = region
            found = self.of_operation[operation] = read, write
        return found

    def _accessed_by(self, moment: Moment, memory: _Memory) -> _Memory:
        started = moment.started
        for access, address in zip(self.own_accesses[moment.instruction], moment.terms, strict=True):
            region = self.regions.region(address, access.least, moment.crowd, access.lanes)
            if region is None:
                continue
            if access.reads:
                self._read(moment, access, region, memory)
                if not access.memory.is_async and region.base[0] in self.targets[COPY]:
                    memory = _seen(memory, moment, region)
            if access.writes:
                self._write(moment, access, region, memory, started)
        return memory

    def _read(self, moment: Moment, access: Access, region: Region, memory: _Memory) -> None:
        for operation in moment.pending(COPY):
            if self._collide(moment, access, region, operation, 1, None, memory, "pending"):
                self.used.add(operation.signature)
        for operation in memory.latest:
            target = self._ranges(operation)[1]
            if target is not None and operation.signature not in self.used and self.regions.overlap(region, target) is not None:
                self.used.add(operation.signature)
        by_tensor_core = (access.instruction, access.memory) in self.tensor_reads
        for operation, signalled in memory.waited if by_tensor_core or not access.memory.is_async else ():
            if operation.queue == COPY:
                # a warp reaches its tensor core operation together
                signalled = signalled or by_tensor_core
                self._collide(moment, access, region, operation, 1, True, memory, "signalled" if signalled else "waited")

    def _write(self, moment: Moment, access: Access, region: Region, memory: _Memory, started: Operation | None) -> None:
        for operation in moment.queue(BULK).unread:
            self._collide(moment, access, region, operation, 0, None, memory, "pending")
        for operation, signalled in memory.waited:
            if operation.queue == BULK:
                self._collide(moment, access, region, operation, 0, True, memory, "signalled" if signalled else "waited")
        if not access.memory.is_async:
            for operation in moment.pending(COPY):
                self._collide(moment, access, region, operation, 1, None, memory, "pending")
            for operation, signalled in memory.waited:
                if operation.queue == COPY:
                    self._collide(moment, access, region, operation, 1, True, memory, "signalled" if signalled else "waited")
        if started is None or started.queue != COPY:
            return
        for operation in moment.queue(COPY).open:
            self._collide(moment, access, region, operation, 1, False, memory, "overlap")
        at = memory.reads
        while at is not None:
            self._refill(moment, access, region, at)
            at = at.before

    def _is_one_lane(self, moment: Moment, operation: Operation) -> bool:
        """Whether both are executed only by the elected lane of each warp, which is then the same lane (9.7.14.8)."""
        reach, flow = uniformity(self.routine).reach, control_flow(self.routine)
        tree = dominators(self.routine).tree

        def is_elected(i: int) -> bool:
            # a later condition either excludes that lane or does not
            block = flow.block_of[i]
            return reach.instruction(i).one or any(reach.block(at).one for at in flow.reachable if tree.dominates(at, block))

        return is_elected(operation.instruction) and is_elected(moment.instruction)

    def _collide(
        self,
        moment: Moment,
        access: Access,
        region: Region,
        operation: Operation,
        side: int,
        others: bool | None,
        memory: _Memory,
        kind: str,
    ) -> bool:
        """Records an access that conflicts with what an operation reads (side 0) or writes (side 1). Returns whether they conflict."""
        own = self._ranges(operation)[side]
        key = (moment.instruction, operation.instruction, kind)
        if own is None or own.base[0] != region.base[0]:
            return False
        self.is_unclear = self.is_unclear or own.base != region.base or not own.is_common
        starters = operation.threads & moment.threads
        if own.base != region.base or not starters or self.regions.are_apart(own, region):
            return False
        mine, accessing = own.by(starters), region.threads
        if kind == "pending" and self._is_ordered(moment, operation):
            # threads ordered by such barriers need not be here while the operation is in flight; only those of its warp are
            accessing &= _warps_of(starters)
        if not accessing:
            return False
        region = region.by(accessing)
        between_warps = kind == "signalled" or (others and self._is_one_lane(moment, operation))
        threads = self.regions.meet_between_warps(region, mine) if between_warps else self.regions.overlap(region, mine, others)
        if threads is None:
            return False
        if operation.idle is not None and operation.idle.constant and access.reads:
            # zero fill has no source; no known program needs to wait for it before reading
            return True
        tried = (key, operation.signature, moment.threads, moment.choices.shape)
        if key in self.hazards or tried in self.seen:
            return True
        self.seen.add(tried)
        if operation.queue == BULK and moment.hinges(operation) and moment.skipped(operation):
            # a wait that is not on the path may be executed whenever the copy is
            return True
        if self._gives_up(moment):
            return True
        model = moment.model(operation, thread=threads[1], others=threads[:1], idle=None if access.writes else False)
        if model is None:
            self._fail(moment)
        # no other path from the copy to the write has a commit or wait that this one lacks
        is_on_all_paths = operation.queue == BULK and kind == "pending" and not moment.skipped(operation)
        if model is not None or is_on_all_paths:
            were_used = any(one.signature in self.used for one in memory.latest)
            self.hazards[key] = Hazard(kind, moment, operation, access, threads, memory.latest, were_used, model)
        return True

    def _gives_up(self, moment: Moment) -> bool:
        """Whether the search for inputs is over, for the function or for paths with these choices, which have none."""
        return self.failures >= MOST_FAILURES or not self.possible.get(moment.choices, True)

    def _fail(self, moment: Moment) -> None:
        """Records that no inputs were found, and whether there are none for the path independently of the access."""
        self.failures += 1
        if moment.choices not in self.possible:
            self.possible[moment.choices] = moment.is_possible()

    def _is_ordered(self, moment: Moment, operation: Operation) -> bool:
        """Whether a barrier for part of the CTA was passed since the operation started."""
        return self._ordering(moment.trail) > self._ordering(operation.trail)

    def _ordering(self, trail: Trail) -> int:
        """The number of barriers for part of the CTA on a path."""
        met = syncs(self.routine)
        steps = []
        at: Trail | None = trail
        while at is not None and at not in self.orderings:
            steps.append(at)
            at = at.before
        count = self.orderings[at] if at is not None else 0
        for step in reversed(steps):
            count += step.instruction in met and self._is_partial(step.instruction)
            self.orderings[step] = count
        return count

    def _is_partial(self, i: int) -> bool:
        sync = syncs(self.routine)[i]
        bound = bindings(self.routine)[i]
        return sync.reach is not Reach.WARP and (sync.reach is not Reach.CTA or not isinstance(bound, Bound) or bound.threads is not None)

    def _refill(self, moment: Moment, access: Access, region: Region, read: _Reads) -> None:
        key = (CopyFault.SLOT_REFILL_WITHOUT_BARRIER, moment.instruction)
        if key in self.found or read.region.base[0] != region.base[0]:
            return
        threads = self.regions.overlap(read.region, region, True)
        if threads is None or self._gives_up(moment):
            return
        also = [(read.condition, True)] if read.condition is not None else []
        if moment.model(*([moment.started] if moment.started else []), thread=threads[1], others=threads[:1], also=also) is None:
            self._fail(moment)
            return
        one, other = (self.regions.thread_block.name(thread) for thread in threads)
        self.found[key] = Finding(
            moment.instruction,
            f"{other} refills what {one} may still be reading: no barrier separates this from the read",
            ((read.instruction, f"{one} reads it here"),),
            notes=notes_of(self.regions.thread_block, moment),
            kind=CopyFault.SLOT_REFILL_WITHOUT_BARRIER,
            child=access.child,
        )

    def _wait(self, moment: Moment, queue: str, memory: _Memory) -> _Memory:
        done = moment.completed(queue) if queue == COPY else moment.read(queue)
        if queue != COPY:
            return _Memory((*memory.waited, *[(one, False) for one in done]), memory.latest, memory.reads) if done else memory
        return _Memory((*memory.waited, *[(one, False) for one in done]), tuple(done), memory.reads)

    def _leave(self, moment: Moment) -> None:
        for operation in moment.pending(COPY):
            key = (CopyFault.COMMITTED_NEVER_WAITED, operation.instruction)
            if key not in self.found:
                self.found[key] = Finding(
                    operation.instruction,
                    "on some path to the end, no wait covers the copy",
                    ((moment.instruction, "the thread ends here"),),
                    kind=CopyFault.COMMITTED_NEVER_WAITED,
                )
        for operation in moment.queue(BULK).unread:
            if self._ranges(operation)[0] is None or not self.routine.function.header.is_entry:
                # for a function that is called, the caller may wait
                continue
            tried = ("leave", operation.instruction, moment.instruction)
            if tried in self.seen:
                continue
            others = instructions(self.routine, BULK, Action.WAIT) - {step.instruction for step in moment.since(operation)}
            if (others and moment.hinges(operation)) or moment.model(operation) is None:
                # a wait that is not on the path may be executed whenever the copy is
                continue
            self.seen.add(tried)
            self.ends.append((moment, operation))


def _warps_of(threads: int) -> int:
    """All threads in the warps of some threads."""
    any_ = threads
    for shift in (16, 8, 4, 2, 1):
        # afterwards, the first bit of each warp says whether any of its bits is set
        any_ |= any_ >> shift
    lanes_ = (1 << WARP) - 1
    warps = -(-threads.bit_length() // WARP)
    firsts = ((1 << WARP * warps) - 1) // lanes_
    return (any_ & firsts) * lanes_


def _seen(memory: _Memory, moment: Moment, region: Region) -> _Memory:
    before = memory.reads
    mark = hash((before.mark if before else 0, moment.instruction, region.key))
    return _Memory(memory.waited, memory.latest, _Reads(moment.instruction, region, moment.condition, before, mark))
