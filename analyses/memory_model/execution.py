"""Chapter 8 as in the manual: the relations of a candidate execution, and the axioms that it must satisfy.

Each relation and axiom has the manual's name and its section. Where the manual is ambiguous, it is interpreted as follows.

* W0 (8.2.6) precedes every operation in base causality: it is executed before any thread starts.
* Operations on aliases overlap if their bytes do. 8.2.1 mentions virtual addresses, which would leave nothing for an alias fence to order;
  8.7 is taken literally: only operations on the same virtual address are morally strong.
* A `red` is an atomic operation, so observation order passes through it, but it is not a read operation (Table 19), so it does not acquire.
* An atomic operation is a read followed by a write: an observer of its write follows that write, but not the write that it read
  (8.9.5, rule 2).
* 8.9.4 lets a barrier synchronize with every operation "on the same barrier"; here, with those of the same phase.
* 8.9.5 defines causality order for memory operations; between fences, which have no address, it is base causality order (8.10.2).
* Fences between the generic proxy and another (9.7.14.4) order an operation by that proxy and operations by the generic one if the fence
  is executed in the CTA of the former, and comes between the two in base causality order. 8.9.5 mentions only alias fences.
* Coherence order is the smallest transitive order that satisfies the definition and the axioms: racing writes are unordered unless other
  writes order them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property

import attrs

from ptxkit.analyses.memory_model.expressions import value_of
from ptxkit.analyses.memory_model.program import AsyncCopy, ProxyFence
from ptxkit.analyses.memory_model.relations import Relation, as_set, members
from ptxkit.analyses.memory_model.skeleton import FINAL, INITIAL, Event, Skeleton, includes


@attrs.frozen(eq=False, slots=False)
class Execution:
    """A candidate execution: the write that each read takes each cell from, and the order of morally strong writes and of `fence.sc`."""

    skeleton: Skeleton
    sources: Mapping[tuple[int, int], int]
    """The write that a read takes a cell from, by read and cell."""
    chosen_coherence: Relation
    """Each pair of overlapping, morally strong writes, in one order."""
    fence_sc: Relation
    """Fence-SC order (8.9.3): each pair of morally strong `fence.sc`, in one order."""

    @property
    def events(self) -> tuple[Event, ...]:
        """The operations."""
        return self.skeleton.events

    def _set(self, condition: Callable[[Event], bool]) -> int:
        return as_set(one.index for one in self.events if condition(one))

    def _relation(self, rows: list[int]) -> Relation:
        return Relation(tuple(rows))

    @cached_property
    def writes(self) -> int:
        """8.4: write operations."""
        return self._set(lambda one: one.is_write)

    @cached_property
    def program_order(self) -> Relation:
        """8.9.1: the order in which a thread executes its operations."""
        return self._relation(self.skeleton.program_order)

    @cached_property
    def dependency(self) -> Relation:
        """8.10.4: from a read to a write whose value, address or execution depends on it."""
        return self._relation(self.skeleton.depends)

    @cached_property
    def overlap(self) -> Relation:
        """8.2.1: memory operations that have bytes in common."""
        return self._relation(self.skeleton.overlap)

    @cached_property
    def morally_strong(self) -> Relation:
        """8.7: in program order, or strong with scopes that include each other; same proxy; complete overlap of memory operations."""
        return self._relation(self.skeleton.morally_strong)

    @cached_property
    def reads_from(self) -> Relation:
        """From a write to a read that returns the value of a byte of it."""
        return Relation.of(len(self.events), ((write, read) for (read, _), write in self.sources.items()))

    @cached_property
    def observation_order(self) -> Relation:
        """8.9.2: from a write to a read that is morally strong with it and reads its value, also through atomic operations."""
        n = len(self.events)
        whole = [(write, read) for write, read in self.reads_from if all(self.sources[read, c] == write for c in self.events[read].cells)]
        step = Relation.of(n, whole) & self.morally_strong
        through = Relation.identity(n, self._set(lambda one: one.is_atomic)) >> step
        return step >> through.plus().optional()

    @cached_property
    def release_patterns(self) -> Relation:
        """8.8: from the first operation of a release pattern to its write."""
        return self._relation(self.skeleton.release_patterns)

    @cached_property
    def acquire_patterns(self) -> Relation:
        """8.8: from the read of an acquire pattern to its last operation."""
        return self._relation(self.skeleton.acquire_patterns)

    @cached_property
    def synchronizes(self) -> Relation:
        """8.9.4: fences in Fence-SC order, barriers, and patterns of which one observes the other."""
        patterns = self.release_patterns >> self.observation_order >> self.acquire_patterns
        return self.fence_sc | self._relation(self.skeleton.barriers) | (patterns & self.morally_strong)

    @cached_property
    def base_causality(self) -> Relation:
        """8.9.5: program order and synchronization, transitively; asynchronous operations as 8.9.1.1 orders them."""
        n = len(self.events)
        initial, final = self.skeleton.initial, self.skeleton.final
        ends = Relation.product(n, initial, ~initial) | Relation.product(n, ~final, final)
        edges = self.program_order | self._relation(self.skeleton.asynchronous) | self.synchronizes
        everything = (1 << n) - 1
        return (edges.plus() | ends).within(everything, everything)

    @cached_property
    def proxy_preserved(self) -> Relation:
        """8.9.5: base causality between operations on one address by one proxy, or with the proxy fences that the others need between."""
        n = len(self.events)
        base = self.base_causality
        events = self.events
        generic = Relation.identity(n, self._set(lambda one: one.is_memory and one.proxy == "generic"))
        ends = self.skeleton.initial | self.skeleton.final
        same_proxy = Relation.of(
            n,
            (
                (i, j)
                for i, j in self._relation(self.skeleton.same_address)
                if events[i].proxy == events[j].proxy and self._same_cta(events[i], events[j])
            ),
        )
        fences = [one for one in events if isinstance(one.operation, ProxyFence)]
        sided = [
            (one.index, fence.index)
            for one in events
            if one.is_memory and one.proxy != "generic"
            for fence in fences
            if fence.proxy == one.proxy and self._same_cta(fence, one) and self._covers(fence, one)
        ]
        sided += self.skeleton.implicit_fences
        leave = generic | (Relation.of(n, sided) & base)
        enter = generic | (Relation.of(n, ((b, a) for a, b in sided)) & base)
        alias = Relation.identity(n, as_set(one.index for one in fences if one.proxy == "alias"))
        same = self._relation(self.skeleton.same_address)
        through_proxies = (leave >> base >> enter) & same
        through_alias = (leave >> base >> alias >> base >> enter) & self.overlap
        with_ends = self.overlap & (Relation.product(n, ends, -1) | Relation.product(n, -1, ends))
        return (same_proxy & base) | through_proxies | through_alias | (with_ends & base)

    def _same_cta(self, a: Event, b: Event) -> bool:
        if a.thread < 0 or b.thread < 0:
            return False
        threads = self.skeleton.program.threads
        return includes("cta", threads[a.thread], threads[b.thread])

    def _covers(self, fence: Event, operation: Event) -> bool:
        spaces = fence.operation.spaces if isinstance(fence.operation, ProxyFence) else ()
        space = next(one.space for one in self.skeleton.program.variables if one.name == operation.location)
        return not spaces or space in spaces

    @cached_property
    def causality(self) -> Relation:
        """8.9.5: proxy-preserved base causality, also after an observation; between fences, base causality (8.10.2)."""
        n = len(self.events)
        fences = self._set(lambda one: one.is_fence)
        updates = Relation.identity(n, self._set(lambda one: one.is_read and one.is_write))
        return (
            self.proxy_preserved | (self.observation_order >> (self.proxy_preserved | updates)) | self.base_causality.within(fences, fences)
        )

    @cached_property
    def coherence_order(self) -> Relation:
        """8.9.6: writes that overlap and are morally strong or related in causality order, transitively."""
        causal = self.causality.within(self.writes, self.writes) & self.overlap
        return (self.chosen_coherence | causal).plus()

    @cached_property
    def from_reads(self) -> Relation:
        """8.9.7, rule 3: from a read to a write that follows, in coherence order, the one that it took a common byte from."""
        found = []
        for (read, cell), source in self.sources.items():
            for write in members(self.coherence_order.rows[source]):
                if write != read and cell in self.events[write].cells:
                    found.append((read, write))
        return Relation.of(len(self.events), found)

    @cached_property
    def communication_order(self) -> Relation:
        """8.9.7: reads-from, coherence order and from-reads."""
        return self.reads_from | (self.coherence_order & self.overlap) | self.from_reads

    @cached_property
    def data_races(self) -> tuple[tuple[int, int], ...]:
        """8.7.1: pairs of operations that conflict, are not related in causality order and not morally strong."""
        related = self.causality | ~self.causality | self.morally_strong
        real = self._set(lambda one: one.thread >= 0)
        return tuple(
            (i, j)
            for i, j in (self.overlap - related).within(real, real)
            if i < j and (self.events[i].is_write or self.events[j].is_write) and not self._one_copy(i, j)
        )

    def _one_copy(self, i: int, j: int) -> bool:
        a, b = self.events[i], self.events[j]
        return a.operation is b.operation and a.thread == b.thread and isinstance(a.operation, AsyncCopy)

    def value(self, event: int) -> int | None:
        """The value that a read returns, or a write writes; None for values in a dependency cycle (8.10.4)."""
        return Values(self.skeleton, self.sources).of(event)

    @cached_property
    def is_consistent(self) -> bool:
        """Whether it satisfies all axioms."""
        return not any(broken(self) for broken in AXIOMS.values())


class Values:
    """The values that the reads of an execution return, as far as their sources are chosen."""

    def __init__(self, skeleton: Skeleton, sources: Mapping[tuple[int, int], int]) -> None:
        self._skeleton = skeleton
        self._sources = sources
        self._known: dict[int, int | None] = {}
        self._read: dict[int, int | None] = {}

    def of(self, event: int) -> int | None:
        """The value of a read (what it returns) or of a plain write (what it writes)."""
        return self.read(event) if self._skeleton.events[event].is_read else self.written(event)

    def in_thread(self, thread: int) -> Callable[[int], int | None]:
        """The values that the steps of a thread return, by step number."""
        events = self._skeleton.threads[thread]

        def value(step: int) -> int | None:
            if step >= len(events):
                return None
            return self.read(events[step]) if self._skeleton.events[events[step]].is_memory else self._reduction(events[step])

        return value

    def written(self, event: int) -> int | None:
        """The value that a write writes."""
        one = self._skeleton.events[event]
        if isinstance(one.value, int):
            return one.value
        if event not in self._known:
            self._known[event] = None  # a value that depends on itself is unknown
            self._known[event] = value_of(one.value, self.in_thread(one.thread))
        return self._known[event]

    def read(self, event: int) -> int | None:
        """The value that a read returns."""
        if event in self._read:
            return self._read[event]
        one = self._skeleton.events[event]
        self._read[event] = None
        value = 0
        for number in one.cells:
            source = self._sources.get((event, number))
            written = None if source is None else self.written(source)
            if written is None or source is None:
                return None
            cell = self._skeleton.cells[number]
            shift = 8 * (cell.start - self._skeleton.events[source].offset)
            value |= ((written >> shift) & ((1 << 8 * (cell.end - cell.start)) - 1)) << 8 * (cell.start - one.offset)
        self._read[event] = value
        return value

    def _reduction(self, event: int) -> int | None:
        """The result of a `bar.red` (9.7.14.1), from the predicates of the threads of its phase."""
        from ptxkit.analyses.memory_model.program import Barrier

        skeleton = self._skeleton
        operation = skeleton.events[event].operation
        together = [event, *members(skeleton.barriers[event])]
        predicates = []
        for one in together:
            value = self.written(one)
            if value is None or not isinstance(operation, Barrier):
                return None
            predicates.append(value != 0)
        if not isinstance(operation, Barrier):
            return None
        if operation.operator == "popc":
            return sum(predicates)
        return int(all(predicates) if operation.operator == "and" else any(predicates))


def coherence(execution: Execution) -> tuple[int, ...]:
    """8.10.1: a write that precedes an overlapping write in causality order precedes it in coherence order. Gives a cycle if not."""
    causal = execution.causality.within(execution.writes, execution.writes) & execution.overlap
    return (execution.chosen_coherence | causal).cycle()


def fence_sc(execution: Execution) -> tuple[int, ...]:
    """8.10.2: Fence-SC order is a partial order and does not contradict causality order."""
    fences = as_set(one.index for one in execution.events if one.is_fence and one.sem == "sc")
    causal = execution.base_causality.within(fences, fences) & execution.morally_strong
    if not execution.fence_sc.is_acyclic():
        return execution.fence_sc.cycle()
    for a, b in execution.fence_sc:
        if (b, a) in causal:
            return (a, b)
    return ()


def atomicity(execution: Execution) -> tuple[int, ...]:
    """8.10.3: reads and read-modify-writes are atomic with respect to morally strong writes; mixed sizes of atomics as in 8.7.2."""
    order = execution.coherence_order
    for read, write in execution.from_reads:
        if write == read:
            continue
        a, b = execution.events[read], execution.events[write]
        if (read, write) in execution.morally_strong and (write, read) in execution.reads_from:
            return (read, write)
        is_atomic_pair = a.is_atomic and b.is_atomic and _scopes_include(execution.skeleton, a, b)
        if a.is_atomic and a.is_write and ((read, write) in execution.morally_strong or is_atomic_pair):
            if (write, read) in order:
                return (read, write)
    return ()


def _scopes_include(skeleton: Skeleton, a: Event, b: Event) -> bool:
    threads = skeleton.program.threads
    return includes(a.scope, threads[a.thread], threads[b.thread]) and includes(b.scope, threads[b.thread], threads[a.thread])


def no_thin_air(execution: Execution) -> tuple[int, ...]:
    """8.10.4: no value is its own cause: reads-from and dependencies are not circular."""
    return (execution.reads_from >> execution.dependency).cycle()


def sequential_consistency(execution: Execution) -> tuple[int, ...]:
    """8.10.5: among overlapping operations that are pairwise morally strong, communication order does not contradict program order."""
    strong = execution.morally_strong & execution.overlap
    edges = (execution.program_order | execution.communication_order) & strong
    for clique in cliques(strong.rows):
        cycle = edges.within(clique, clique).cycle()
        if cycle:
            return cycle
    return ()


def causality(execution: Execution) -> tuple[int, ...]:
    """8.10.6: a read does not read from a write that it precedes in causality order, nor past one that precedes it."""
    for write, read in execution.reads_from:
        if (read, write) in execution.proxy_preserved:
            return (write, read)
    for read, write in execution.from_reads:
        if (write, read) in execution.causality:
            return (read, write)
    return ()


AXIOMS: dict[str, Callable[[Execution], tuple[int, ...]]] = {
    "coherence": coherence,
    "fence-sc": fence_sc,
    "atomicity": atomicity,
    "no-thin-air": no_thin_air,
    "sc-per-location": sequential_consistency,
    "causality": causality,
}
"""The axioms of 8.10 by name. Each returns the events of a contradicting cycle; empty if it holds."""

SECTIONS = {
    "coherence": "8.10.1",
    "fence-sc": "8.10.2",
    "atomicity": "8.10.3",
    "no-thin-air": "8.10.4",
    "sc-per-location": "8.10.5",
    "causality": "8.10.6",
}


def cliques(rows: tuple[int, ...] | list[int]) -> list[int]:
    """The maximal cliques of a symmetric relation (Bron and Kerbosch, with pivots)."""
    found: list[int] = []
    pending = [(0, as_set(i for i, row in enumerate(rows) if row), 0)]
    while pending:
        chosen, open_, closed = pending.pop()
        if not open_:
            if not closed and chosen:
                found.append(chosen)
            continue
        pivot = max(members(open_ | closed), key=lambda i: (rows[i] & open_).bit_count())
        for i in members(open_ & ~rows[pivot]):
            pending.append((chosen | 1 << i, open_ & rows[i], closed & rows[i]))
            open_ &= ~(1 << i)
            closed |= 1 << i
    return found


__all__ = ["AXIOMS", "FINAL", "INITIAL", "SECTIONS", "Execution", "Values", "cliques"]
