"""Errors of asynchronous copies on some path (9.7.10.24): premature reads and overwrites, and missing waits.

Every finding is based on a path that the in-flight queue has followed, on inputs that take it, on bytes that both sides access, and on what
lies between them on the path. `Finding.kind` identifies the error.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from itertools import pairwise

from ptxkit.analyses.cfg.dominators import dominators
from ptxkit.analyses.cfg.graph import control_flow
from ptxkit.analyses.cfg.loops import Loop, loops
from ptxkit.analyses.cfg.paths import comes_to
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
from ptxkit.analyses.protocols.async_copy.kinds import CopyFault
from ptxkit.analyses.registers.ssa import ssa
from ptxkit.analyses.symbolic.environment import settler
from ptxkit.analyses.symbolic.terms import Term
from ptxkit.analyses.symex.async_groups import ITERATION, Operation, Trail
from ptxkit.analyses.symex.async_queue import Coverage, Moment, Observer, explore
from ptxkit.analyses.symex.path_condition import Choices, Model
from ptxkit.analyses.threads.lanes import lanes
from ptxkit.analyses.uniformity.uniformity import uniformity
from ptxkit.frozen import frozen
from ptxkit.isa.binding import Bound

COPY, BULK = "cp.async", "bulk"
QUEUES = (COPY, BULK)
SHARED = ".shared"
MOST_FAILURES = 8
"""Once this many paths had no inputs, the function is not searched for inputs any more."""


@frozen
class Copies:
    """Findings about the asynchronous copies of a function."""

    findings: tuple[Finding, ...]
    coverage: Coverage
    blind: frozenset[str]
    """Why the absence of findings is no proof: `paths` that were not followed to the end, `addresses` that could not be compared, a
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


@frozen(eq=False)
class _Hazard:
    """An access that conflicts with an operation in flight."""

    moment: Moment
    operation: Operation
    access: Access
    threads: tuple[int, int]
    """The accessing thread, and the thread that started the operation."""
    latest: tuple[Operation, ...]
    were_used: bool
    """Whether any data of the last wait was read before."""
    model: Model | None
    """Inputs that take the path; None if none were found, and what lies between the two is the same on all paths."""


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
    return Copies(tuple(watch.findings()), coverage, frozenset([word for word, holds in blind.items() if holds]))


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
        self.hazards: dict[tuple[int, int, str], _Hazard] = {}
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
            if at.operator != "phi" or not isinstance(at.data[0], int):
                return at.inner
            return [settle(known.of(number)) for number in numbering.values[at.data[0]].operands if number >= 0]

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
        started = self._instructions(BULK, Action.OPEN)
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
                self._collide(moment, access, region, operation, 1, True, memory, "told" if signalled else "waited")

    def _write(self, moment: Moment, access: Access, region: Region, memory: _Memory, started: Operation | None) -> None:
        for operation in moment.queue(BULK).unread:
            self._collide(moment, access, region, operation, 0, None, memory, "pending")
        for operation, signalled in memory.waited:
            if operation.queue == BULK:
                self._collide(moment, access, region, operation, 0, True, memory, "told" if signalled else "waited")
        if not access.memory.is_async:
            for operation in moment.pending(COPY):
                self._collide(moment, access, region, operation, 1, None, memory, "pending")
            for operation, signalled in memory.waited:
                if operation.queue == COPY:
                    self._collide(moment, access, region, operation, 1, True, memory, "told" if signalled else "waited")
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
        between_warps = kind == "told" or (others and self._is_one_lane(moment, operation))
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
            self.hazards[key] = _Hazard(moment, operation, access, threads, memory.latest, were_used, model)
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
            notes=self._notes(moment),
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
            others = self._instructions(BULK, Action.WAIT) - {step.instruction for step in moment.since(operation)}
            if (others and moment.hinges(operation)) or moment.model(operation) is None:
                # a wait that is not on the path may be executed whenever the copy is
                continue
            self.seen.add(tried)
            self.ends.append((moment, operation))

    def _unfinished(self, moment: Moment, operation: Operation) -> None:
        """Reports a bulk copy that may still read shared memory when its thread exits."""
        waits = self._waits(moment, operation, BULK)
        foreign = self._waits(moment, operation, COPY)
        if waits and moment.queue(BULK).group_of(operation) is None:
            rule, at = CopyFault.BULK_STORE_NOT_COMMITTED, waits[-1].instruction
            message = "the bulk copy is not committed to a group, so this wait does not cover it"
        elif not waits and foreign:
            rule, at = CopyFault.WRONG_ASYNC_GROUP_KIND, foreign[-1].instruction
            message = "this wait covers groups of non-bulk copies only; the copy in flight is a bulk copy"
        else:
            rule, at = CopyFault.BULK_STORE_NOT_WAITED_BEFORE_EXIT, moment.instruction
            message = "the thread ends while a bulk copy that it started may still read shared memory"
        self._add(
            Finding(
                at,
                message,
                self._steps(moment, operation, at),
                rule == CopyFault.WRONG_ASYNC_GROUP_KIND,
                self._notes(moment, operation),
                kind=rule,
            )
        )

    # --- results

    def findings(self) -> Iterator[Finding]:
        """The findings in text order. For accesses with the same cause, the first on a path is reported."""
        early: dict[Hashable, list[tuple[str, int, _Hazard]]] = {}
        for (_, _, kind), hazard in self.hazards.items():
            if kind == "pending" and hazard.operation.queue == COPY:
                rule, at = self._why_early(hazard)
                early.setdefault(self._cause(hazard), []).append((rule, at, hazard))
        for found in early.values():
            found = [one for one in found if not self._is_ahead(one[2])] or [one for one in found if one[2].access.writes] or found
            self._early(*next((one for one in found if one[0] in _FIRST), found[0]))
        reported: set[Hashable] = {rule for rule, _ in self.found}
        for (_, _, kind), hazard in self.hazards.items():
            cause = (kind, self._cause(hazard))
            if kind == "overlap" and hazard.operation.instruction == hazard.moment.instruction and reported & _EARLY:
                continue
            if cause in reported or (kind == "pending" and hazard.operation.queue == COPY):
                continue
            reported.add(cause)
            if kind == "overlap":
                self._overlap(hazard)
            elif kind in ("waited", "told"):
                self._unpublished(hazard)
            else:
                self._overwritten(hazard)
        overwritten = {hazard.operation.instruction for hazard in self.hazards.values() if hazard.operation.queue == BULK}
        for moment, operation in self.ends:
            if operation.instruction not in overwritten:
                self._unfinished(moment, operation)
        yield from sorted(self.found.values(), key=lambda finding: (finding.instruction, finding.kind))

    def _cause(self, hazard: _Hazard) -> Hashable:
        """A key that is equal for hazards with the same cause: the last insufficient wait, or else the commit, or else the start."""
        steps = hazard.moment.since(hazard.operation)
        waits = self._instructions(hazard.operation.queue, Action.WAIT) | self._instructions(hazard.operation.queue, Action.COMMIT)
        last = [step.instruction for step in steps if step.instruction in waits]
        return last[-1] if last else hazard.operation.instruction

    def _add(self, finding: Finding) -> None:
        self.found.setdefault((finding.kind, finding.instruction), finding)

    def _overlap(self, hazard: _Hazard) -> None:
        who = self.regions.thread_block.name(hazard.threads[0])
        self._add(
            Finding(
                hazard.moment.instruction,
                f"two copies of one group write the same bytes: {who} starts both",
                ((hazard.operation.instruction, "the other is started here"),),
                notes=self._notes(hazard.moment, hazard.operation),
                kind=CopyFault.CPASYNC_OVERLAP_IN_GROUP,
                child=hazard.access.child,
            )
        )

    def _unpublished(self, hazard: _Hazard) -> None:
        moment, operation = hazard.moment, hazard.operation
        reader, owner = (self.regions.thread_block.name(thread) for thread in hazard.threads)
        if operation.queue == COPY:
            does = "reads" if hazard.access.reads else "overwrites"
            message = f"{reader} {does} what {owner} copied: {owner} has waited for it, but no barrier followed the wait"
            notes, steps_ = self._notes(moment, operation), self._steps(moment, operation)
            is_certain = hazard.access.reads or not self._is_ahead(hazard)
            self._add(
                Finding(
                    moment.instruction,
                    message,
                    steps_,
                    is_certain,
                    notes,
                    kind=CopyFault.CPASYNC_MISSING_BARRIER_AFTER_WAIT,
                    child=hazard.access.child,
                )
            )
            return
        waits = self._waits(moment, operation, BULK)
        at = waits[-1].instruction if waits else moment.instruction
        message = f"{owner} waits until its bulk copy has read the source, but {reader} overwrites it with no barrier in between"
        steps = [*self._steps(moment, operation, at), (moment.instruction, f"{reader} overwrites the source here")]
        self._add(Finding(at, message, tuple(steps), notes=self._notes(moment, operation), kind=CopyFault.BULK_WAIT_BY_NON_ISSUER))

    def _early(self, rule: str, at: int, hazard: _Hazard) -> None:
        """Reports a read of data that a copy may still be writing."""
        moment, operation = hazard.moment, hazard.operation
        reader, owner = (self.regions.thread_block.name(thread) for thread in hazard.threads)
        does = "reads" if hazard.access.reads else "overwrites"
        who = f"{reader} {does} {'its own copy' if reader == owner else f'what {owner} copies'}"
        steps = self._steps(moment, operation, at)
        if at == moment.instruction:
            message = f"{who} while the copy may be in flight"
            child: int | None = hazard.access.child
        else:
            message = _SAID[rule].format(accessed="read" if hazard.access.reads else "overwritten")
            child = None
            steps = (*steps, (moment.instruction, f"{who} here, while it may be in flight"))
        notes = self._notes(moment, operation)
        # a read needs the data; an overwrite loses it, though it may only be zeros that arrive late
        is_ahead = self._is_ahead(hazard)
        is_note = is_ahead and hazard.access.reads
        if is_note:
            notes = (*notes, "not a bug if copies for iterations that never execute have a size of 0")
        self._add(Finding(at, message, steps, not is_ahead, notes, kind=rule, child=child, is_note=is_note))

    def _is_ahead(self, hazard: _Hazard) -> bool:
        """Whether a loop, or code before it, started a copy that may be empty, and only code after the loop reads its destination.

        Such a loop prefetches, and its last copies are empty depending on sizes; which sizes are possible is unknown. If it iterates fewer
        times than it prefetches, these copies come from before the loop.
        """
        if hazard.operation.idle is None:
            return False
        flow = control_flow(self.routine)
        start, end = hazard.operation.instruction, hazard.moment.instruction
        starts = self._instructions(COPY, Action.OPEN)
        for loop in loops(self.routine).loops:
            own = [i for i in starts if flow.block_of[i] in loop]
            if own and flow.block_of[end] not in loop and all(comes_to(self.routine, i, end) for i in own):
                if start in own or all(comes_to(self.routine, start, i) for i in own):
                    return True
        return False

    def _why_early(self, hazard: _Hazard) -> tuple[str, int]:
        moment, operation = hazard.moment, hazard.operation
        waits = self._waits(moment, operation, COPY)
        if not waits:
            foreign = self._waits(moment, operation, BULK)
            return (
                (CopyFault.WRONG_ASYNC_GROUP_KIND, foreign[-1].instruction)
                if foreign
                else (CopyFault.CPASYNC_READ_BEFORE_WAIT, moment.instruction)
            )
        last = waits[-1]
        steps = moment.since(operation)
        before, after = steps[: steps.index(last)], steps[steps.index(last) + 1 :]
        starts, commits = self._instructions(COPY, Action.OPEN), self._instructions(COPY, Action.COMMIT)
        is_committed = any(step.instruction in commits for step in before)
        late = any(step.instruction in commits for step in after)
        if not is_committed:
            crossed = any(step.instruction <= ITERATION for step in before)
            return (
                CopyFault.WAIT_BEFORE_COMMIT if late or not crossed else CopyFault.GROUP_COUNT_UNBALANCED_OVER_BACK_EDGE
            ), last.instruction
        tail = before[max(position for position, step in enumerate(before) if step.instruction in commits) + 1 :]
        if late and any(step.instruction in starts for step in tail):
            return CopyFault.WAIT_BEFORE_COMMIT, last.instruction
        if self._skips_commit(before, last.instruction, commits):
            return CopyFault.GROUP_COUNT_UNBALANCED_OVER_BACK_EDGE, last.instruction
        if hazard.latest and not hazard.were_used:
            return CopyFault.CPASYNC_READ_BEFORE_WAIT, moment.instruction
        return CopyFault.WAIT_GROUP_TOO_WEAK, last.instruction

    def _skips_commit(self, steps: Sequence[Trail], wait: int, commits: set[int]) -> bool:
        """Whether the loop around the wait starts copies, and the path completed an iteration of it without a commit."""
        index = loops(self.routine).innermost[control_flow(self.routine).block_of[wait]]
        if index is None:
            return False
        loop = loops(self.routine).loops[index]
        flow = control_flow(self.routine)
        if not any(flow.block_of[i] in loop for i in self._instructions(COPY, Action.OPEN)):
            return False
        rounds = [position for position, step in enumerate(steps) if step.instruction == ITERATION - loop.header]
        if any(not any(step.instruction in commits for step in steps[start:end]) for start, end in pairwise(rounds)):
            return True
        # the iteration that contains the wait: no commit before it, though other paths have one
        if not rounds or any(step.instruction in commits for step in steps[rounds[-1] :]):
            return False
        return any(flow.block_of[commit] in loop and self._leads(commit, wait, loop) for commit in commits)

    def _leads(self, first: int, then: int, loop: Loop) -> bool:
        """Whether an instruction comes before another in one iteration of a loop."""
        flow = control_flow(self.routine)
        start, goal = flow.block_of[first], flow.block_of[then]
        if start == goal:
            return first < then
        before = closure([start], lambda at: [after for after in flow.successors(at) if after in loop and after != loop.header])
        return goal != loop.header and any(goal in flow.successors(at) for at in before)

    def _overwritten(self, hazard: _Hazard) -> None:
        """Reports a write to data that a bulk copy may still be reading."""
        moment, operation = hazard.moment, hazard.operation
        waits = self._waits(moment, operation, BULK)
        foreign = self._waits(moment, operation, COPY)
        stranger = self._stranger(operation)
        writer, owner = (self.regions.thread_block.name(thread) for thread in hazard.threads)
        wrong = (moment.instruction, f"{writer} overwrites the source here")
        if waits and moment.queue(BULK).group_of(operation) is None:
            rule, at, message = (
                CopyFault.BULK_STORE_NOT_COMMITTED,
                waits[-1].instruction,
                "the bulk copy is not committed to a group, so this wait does not cover it",
            )
        elif not waits and foreign:
            rule, at = CopyFault.WRONG_ASYNC_GROUP_KIND, foreign[-1].instruction
            message = "this wait covers groups of non-bulk copies only; the copy in flight is a bulk copy"
        elif not waits and stranger is not None:
            rule, at = CopyFault.BULK_WAIT_BY_NON_ISSUER, stranger
            message = f"{owner} started the bulk copy; waits by other threads do not cover it"
        else:
            rule, at, message = (
                CopyFault.BULK_SOURCE_OVERWRITTEN,
                moment.instruction,
                f"{writer} overwrites what a bulk copy of {owner} may still be reading",
            )
        steps = self._steps(moment, operation, at)
        child = hazard.access.child if rule == CopyFault.BULK_SOURCE_OVERWRITTEN else None
        self._add(
            Finding(
                at,
                message,
                steps if rule == CopyFault.BULK_SOURCE_OVERWRITTEN else (*steps, wrong),
                hazard.model is not None,
                notes=self._notes(moment, operation),
                kind=rule,
                child=child,
            )
        )

    def _stranger(self, operation: Operation) -> int | None:
        """A wait for bulk copies that no thread that started this one executes, although others may."""
        started = operation.threads
        for i in sorted(self._instructions(operation.queue, Action.WAIT)):
            runs = lanes(self.routine).execution(i)
            if started & runs.everyone and not started & runs.may:
                return i
        return None

    def _waits(self, moment: Moment, operation: Operation, queue: str) -> list[Trail]:
        waits = self._instructions(queue, Action.WAIT)
        return [step for step in moment.since(operation) if step.instruction in waits]

    def _instructions(self, queue: str, action: Action) -> set[int]:
        return {i for i, own in effects(self.routine).items() if any(e.queue == queue and e.action is action for e in own)}

    def _steps(self, moment: Moment, operation: Operation, at: int | None = None) -> tuple[tuple[int, str], ...]:
        return tuple(dict.fromkeys([step for step in moment.witness(operation) if step[0] != at]))

    def _notes(self, moment: Moment, *operations: Operation) -> tuple[str, ...]:
        """The inputs that take the path, as notes."""
        model = moment.model(*operations) or {}
        given = [f"{leaf} = {number}" for leaf, number in model.items() if leaf.operator in ("parameter", "special")]
        notes = ["this happens with " + ", ".join(sorted(given))] if given else []
        if self.regions.thread_block.is_assumed:
            notes.append(f"for a CTA of {'x'.join(map(str, self.regions.thread_block.shape))} threads")
        return tuple(notes)


_FIRST = (CopyFault.WRONG_ASYNC_GROUP_KIND, CopyFault.GROUP_COUNT_UNBALANCED_OVER_BACK_EDGE, CopyFault.WAIT_BEFORE_COMMIT)
"""Reported first if accesses have the same cause."""
_EARLY = {*_FIRST, CopyFault.WAIT_GROUP_TOO_WEAK, CopyFault.CPASYNC_READ_BEFORE_WAIT}

_SAID: dict[str, str] = {
    CopyFault.WAIT_BEFORE_COMMIT: "this wait does not cover copies that are committed to a group only after it",
    CopyFault.WAIT_GROUP_TOO_WEAK: "this wait may leave in flight the group whose bytes are {accessed} next: fewer may stay in flight",
    CopyFault.GROUP_COUNT_UNBALANCED_OVER_BACK_EDGE: (
        "this wait relies on one group per iteration, but on this path an iteration commits none"
    ),
    CopyFault.WRONG_ASYNC_GROUP_KIND: "this wait covers bulk groups only; the copy that is {accessed} next is not a bulk copy",
}


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
