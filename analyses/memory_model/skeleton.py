"""Events, and the parts of an execution that are fixed once the path of every thread and the meeting of barriers are chosen.

What remains open is what each read reads from and how writes and fences are ordered: `enumerator` explores that, `execution` judges it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise, product

import attrs

from ptxkit.analyses.memory_model.barriers import Arrival, Meeting, meetings
from ptxkit.analyses.memory_model.expressions import Expression
from ptxkit.analyses.memory_model.paths import Path, Step
from ptxkit.analyses.memory_model.program import (
    STRONG,
    Address,
    AsyncCopy,
    AsyncWait,
    Atomic,
    Barrier,
    Fence,
    Load,
    Operation,
    Program,
    ProxyFence,
    Store,
    Thread,
    Variable,
)
from ptxkit.analyses.memory_model.relations import as_set, members
from ptxkit.analyses.memory_model.text import written
from ptxkit.frozen import frozen

INITIAL = -1
"""The thread of W0, the hypothetical write before any thread (8.2.6)."""
FINAL = -2
"""The thread of the reads that observe memory after all threads have ended."""


@frozen(eq=False)
class Event:
    """An operation of an execution. A read-modify-write is one event that reads and writes."""

    index: int
    thread: int
    step: int
    operation: Operation | None
    is_read: bool = False
    is_write: bool = False
    is_atomic: bool = False
    """`atom` or `red` (8.4)."""
    returns: bool = False
    """Whether it is a read operation: a `red` reads, but is not one (8.4, Table 19)."""
    is_fence: bool = False
    """A memory fence operation; `fence.sc` has `sem` sc."""
    sem: str = ""
    scope: str | None = None
    proxy: str = "generic"
    variable: str = ""
    """The virtual address: the variable that the address names, with other proxies of it identified."""
    location: str = ""
    """The physical location: the variable of which this is an alias."""
    offset: int = 0
    size: int = 0
    value: Expression = 0
    cells: tuple[int, ...] = ()
    line: int = 0
    is_async: bool = False
    """Whether program order does not relate it: its thread continues before it takes effect."""

    @property
    def is_memory(self) -> bool:
        """Whether it is a memory operation, in the sense of 8.4 or by another proxy."""
        return self.is_read or self.is_write

    @property
    def is_strong(self) -> bool:
        """8.4: a memory fence, or a memory operation that is not weak."""
        return self.is_fence or (self.is_memory and self.sem in STRONG)

    @property
    def acquires(self) -> bool:
        """8.4: an acquire operation."""
        return self.is_memory and self.sem in ("acquire", "acq_rel")

    @property
    def releases(self) -> bool:
        """8.4: a release operation."""
        return self.is_memory and self.sem in ("release", "acq_rel")


@frozen
class Cell:
    """Bytes that all operations of the program treat alike: a read takes them from one write."""

    location: str
    start: int
    end: int


@frozen
class Observed:
    """Bytes of memory whose final value is requested."""

    variable: str
    offset: int = 0
    size: int = 0
    """0: the rest of the variable."""


@frozen(eq=False)
class Skeleton:
    """Events with everything that does not depend on the values read. Relations are given as rows (see `relations`)."""

    program: Program
    paths: tuple[Path, ...]
    meeting: Meeting
    events: tuple[Event, ...]
    cells: tuple[Cell, ...]
    finals: dict[Observed, int]
    threads: tuple[tuple[int, ...], ...]
    """The events of each thread, by step number."""
    initial: int
    """The events of thread INITIAL."""
    final: int
    program_order: list[int]
    asynchronous: list[int]
    """The order of asynchronous operations with those of their thread (8.9.1.1), which is not program order."""
    implicit_fences: tuple[tuple[int, int], ...]
    """Copies by the async proxy, with the waits that act as a proxy fence for them."""
    depends: list[int]
    """From reads to writes: by data, address or control."""
    morally_strong: list[int]
    same_address: list[int]
    overlap: list[int]
    barriers: list[int]
    """8.9.4: synchronization by barriers."""
    release_patterns: list[int]
    acquire_patterns: list[int]
    stuck: dict[int, int]
    """Threads that wait at a barrier forever, with the step."""
    is_ended: bool
    """Whether every such thread waits at a barrier that others have completed."""

    def describe(self, event: Event) -> str:
        """A short description of an event: its thread and its text in PTX."""
        if event.thread == INITIAL:
            return f"initial write of {event.variable}"
        if event.thread == FINAL:
            return f"value of {event.variable} at the end"
        return f"{self.program.threads[event.thread].name}: {self.text(event)}"

    def text(self, event: Event) -> str:
        """The operation of an event in PTX, with the variable that its address resolved to."""
        operation = event.operation
        if isinstance(operation, Load | Store | Atomic) and (operation.address.index is not None or not operation.address.variable):
            operation = attrs.evolve(operation, address=Address(event.variable, event.offset))
        return "" if operation is None else written(operation)


def skeletons(program: Program, chosen: Sequence[Path], observed: Sequence[Observed] = ()) -> Iterator[Skeleton]:
    """The skeletons for given paths of the threads: one for each meeting of barriers."""
    numbers: list[list[int]] = []
    n = 0
    for path in chosen:
        numbers.append(list(range(n, n + len(path.steps))))
        n += len(path.steps)
    for meeting in _all_meetings(program, chosen, numbers):
        yield _skeleton(program, tuple(chosen), meeting, observed, numbers)


def _cta(thread: Thread) -> tuple[int, int]:
    return thread.gpu, thread.cta


def _cluster(thread: Thread) -> tuple[int, int, int]:
    return (thread.gpu, 0, thread.cta) if thread.cluster is None else (thread.gpu, 1, thread.cluster)


def _all_meetings(program: Program, chosen: Sequence[Path], numbers: list[list[int]]) -> Iterator[Meeting]:
    ctas: dict[tuple[int, int], list[int]] = {}
    for t, thread in enumerate(program.threads):
        ctas.setdefault(_cta(thread), []).append(t)
    choices = []
    for threads_of_cta in ctas.values():
        arrivals = [list(_arrivals(chosen[t], numbers[t])) for t in threads_of_cta]
        them = meetings(arrivals, program.awaits_all)
        choices.append([Meeting(one.phases, tuple((threads_of_cta[t], event) for t, event in one.stuck)) for one in them])
    for combination in product(*choices):
        phases = tuple(phase for one in combination for phase in one.phases)
        yield Meeting(phases, tuple(sorted(pair for one in combination for pair in one.stuck)))


def _arrivals(path: Path, numbers: list[int]) -> Iterator[Arrival]:
    for k, step in enumerate(path.steps):
        operation = step.operation
        if isinstance(operation, Barrier) and not operation.cluster:
            yield Arrival(numbers[k], step.barrier, operation.action != "arrive", step.threads)


def includes(scope: str | None, thread: Thread, other: Thread) -> bool:
    """Whether the scope of an operation of one thread includes the other (8.5)."""
    if scope == "sys":
        return True
    if scope == "gpu":
        return thread.gpu == other.gpu
    if scope == "cluster":
        return _cluster(thread) == _cluster(other)
    return _cta(thread) == _cta(other)


def _skeleton(
    program: Program, chosen: tuple[Path, ...], meeting: Meeting, observed: Sequence[Observed], numbers: list[list[int]]
) -> Skeleton:
    variables = {one.name: one for one in program.variables}
    stuck_at = dict(meeting.stuck)
    steps: list[tuple[int, int, Step]] = []
    renumbered: dict[int, int] = {}
    stuck: dict[int, int] = {}
    for t, path in enumerate(chosen):
        for k, step in enumerate(path.steps):
            renumbered[numbers[t][k]] = len(steps)
            steps.append((t, k, step))
            if stuck_at.get(t) == numbers[t][k]:
                stuck[t] = k
                break
    events = [_event(i, t, k, step, variables) for i, (t, k, step) in enumerate(steps)]
    locations = dict.fromkeys(one.location for one in events if one.is_memory)
    locations.update(dict.fromkeys(_base(variables, one.variable) for one in observed))
    for location in locations:
        size = variables[location].size
        value = variables[location].value
        events.append(Event(len(events), INITIAL, 0, None, is_write=True, variable=location, location=location, size=size, value=value))
    finals = {}
    for one in observed:
        base = _base(variables, one.variable)
        finals[one] = len(events)
        size = one.size or variables[base].size - one.offset
        events.append(Event(len(events), FINAL, 0, None, True, returns=True, variable=base, location=base, offset=one.offset, size=size))
    cells = _cells(events)
    by_location: dict[str, list[int]] = {}
    for number, cell in enumerate(cells):
        by_location.setdefault(cell.location, []).append(number)
    events = [
        attrs.evolve(
            event,
            cells=tuple(
                c for c in by_location[event.location] if cells[c].start >= event.offset and cells[c].end <= event.offset + event.size
            ),
        )
        if event.is_memory
        else event
        for event in events
    ]
    return _related(program, chosen, meeting, events, cells, finals, steps, renumbered, stuck)


def _base(variables: dict[str, Variable], name: str) -> str:
    seen = set()
    while variables[name].alias_of is not None and name not in seen:
        seen.add(name)
        name = variables[name].alias_of or name
    return name


def _address(variables: dict[str, Variable], name: str) -> str:
    """The virtual address: other proxies of a variable share it."""
    seen = set()
    while variables[name].is_same_address and name not in seen:
        seen.add(name)
        name = variables[name].alias_of or name
    return name


def _event(index: int, thread: int, number: int, step: Step, variables: dict[str, Variable]) -> Event:
    operation = step.operation
    if isinstance(operation, Load | Store | Atomic | AsyncCopy):
        sem, scope = ("weak", None) if isinstance(operation, AsyncCopy) else (operation.sem, operation.scope)
        return Event(
            index,
            thread,
            number,
            operation,
            step.is_read,
            step.is_write,
            isinstance(operation, Atomic),
            step.is_read and not (isinstance(operation, Atomic) and operation.register is None),
            False,
            sem,
            scope,
            operation.proxy,
            _address(variables, step.variable),
            _base(variables, step.variable),
            step.offset,
            step.size,
            step.value,
            line=operation.line,
            is_async=step.is_async,
        )
    if isinstance(operation, Fence):
        return Event(index, thread, number, operation, is_fence=True, sem=operation.sem, scope=operation.scope, line=operation.line)
    if isinstance(operation, ProxyFence):
        return Event(index, thread, number, operation, sem="proxy", proxy=operation.kind, line=operation.line)
    return Event(index, thread, number, operation, value=step.value, line=operation.line)


def _cells(events: list[Event]) -> tuple[Cell, ...]:
    bounds: dict[str, set[int]] = {}
    for event in events:
        if event.is_memory:
            bounds.setdefault(event.location, set()).update((event.offset, event.offset + event.size))
    cells = []
    for location, them in bounds.items():
        ordered = sorted(them)
        cells += [Cell(location, a, b) for a, b in pairwise(ordered)]
    return tuple(cells)


def _overlap(a: Event, b: Event) -> bool:
    return a.location == b.location and a.offset < b.offset + b.size and b.offset < a.offset + a.size


def _related(
    program: Program,
    chosen: tuple[Path, ...],
    meeting: Meeting,
    events: list[Event],
    cells: tuple[Cell, ...],
    finals: dict[Observed, int],
    steps: list[tuple[int, int, Step]],
    renumbered: dict[int, int],
    stuck: dict[int, int],
) -> Skeleton:
    n = len(events)
    by_thread: list[list[int]] = [[] for _ in program.threads]
    for i, (t, _, _) in enumerate(steps):
        by_thread[t].append(i)
    order, asynchronous, depends = _thread_orders(n, steps, by_thread)
    strong, address, overlap = _pairs(events, order, program.threads)
    barriers = _barrier_synchronization(program, chosen, meeting, steps, renumbered, n)
    release, acquire = _patterns(events, by_thread, order)
    initial = as_set(one.index for one in events if one.thread == INITIAL)
    final = as_set(one.index for one in events if one.thread == FINAL)
    completed = {phase.barrier for phase in meeting.phases}
    is_ended = all(
        steps[by_thread[t][k]][2].threads is not None and steps[by_thread[t][k]][2].barrier in completed for t, k in stuck.items()
    )
    return Skeleton(
        program,
        chosen,
        meeting,
        tuple(events),
        cells,
        finals,
        tuple(tuple(one) for one in by_thread),
        initial,
        final,
        order,
        asynchronous,
        tuple(
            (i, j)
            for i, row in enumerate(asynchronous)
            for j in members(row)
            if events[i].proxy == "async" and events[i].is_memory and _follows_completion(events[j])
        ),
        depends,
        strong,
        address,
        overlap,
        barriers,
        release,
        acquire,
        stuck,
        is_ended,
    )


def _thread_orders(n: int, steps: list[tuple[int, int, Step]], by_thread: list[list[int]]) -> tuple[list[int], list[int], list[int]]:
    """For each event, as bits, the later events of its thread in program order, in asynchronous order, and those that depend on it."""
    order, asynchronous, depends = [0] * n, [0] * n, [0] * n
    for them in by_thread:
        for k, i in enumerate(them):
            step = steps[i][2]
            for j in members(step.depends):
                depends[them[j]] |= 1 << i
            for j in step.waits_for:
                asynchronous[them[j]] |= 1 << i
            for j in them[k + 1 :]:
                later = steps[j][2]
                if step.is_async:
                    if later.is_async and later.group == step.group:
                        asynchronous[i] |= 1 << j
                elif later.is_async:
                    asynchronous[i] |= 1 << j
                elif step.group < 0 or step.group != later.group:
                    order[i] |= 1 << j
    return order, asynchronous, depends


def _pairs(events: list[Event], order: list[int], threads: Sequence[Thread]) -> tuple[list[int], list[int], list[int]]:
    """For each event, as bits, the events that are morally strong with it (8.7), access its variable, and overlap with its bytes."""
    n = len(events)
    strong, address, overlap = [0] * n, [0] * n, [0] * n
    for i, a in enumerate(events):
        for j in range(i + 1, n):
            b = events[j]
            if a.is_memory and b.is_memory:
                if not _overlap(a, b):
                    continue
                _relate(overlap, i, j)
                if a.variable == b.variable or a.thread < 0 or b.thread < 0:
                    _relate(address, i, j)
                if a.proxy != b.proxy or a.variable != b.variable or (a.offset, a.size) != (b.offset, b.size):
                    continue
            if a.thread < 0 or b.thread < 0:
                continue
            if order[i] >> j & 1 or (a.is_strong and b.is_strong and _include_each_other(a, b, threads)):
                _relate(strong, i, j)
    return strong, address, overlap


def _relate(relation: list[int], i: int, j: int) -> None:
    relation[i] |= 1 << j
    relation[j] |= 1 << i


def _include_each_other(a: Event, b: Event, threads: Sequence[Thread]) -> bool:
    """Whether the scope of each event includes the thread of the other."""
    one, other = threads[a.thread], threads[b.thread]
    return includes(a.scope, one, other) and includes(b.scope, other, one)


def _follows_completion(event: Event) -> bool:
    """Whether the event follows the completion of asynchronous operations: a wait, or an mbarrier's count of their bytes."""
    return isinstance(event.operation, AsyncWait) or (event.is_atomic and event.is_async)


def _barrier_synchronization(
    program: Program,
    chosen: tuple[Path, ...],
    meeting: Meeting,
    steps: list[tuple[int, int, Step]],
    renumbered: dict[int, int],
    n: int,
) -> list[int]:
    """8.9.4, rules 2 and 3: within a phase of a barrier, arriving synchronizes with waiting."""
    rows = [0] * n
    for phase in meeting.phases:
        them = [renumbered[event] for event in phase.events if event in renumbered]
        waiting = as_set(i for i in them if _waits(steps[i][2]))
        for i in them:
            rows[i] |= waiting & ~(1 << i)
    phases: dict[tuple[object, int, str], list[int]] = {}
    for t in range(len(chosen)):
        counts = {"arrive": 0, "wait": 0}
        for i, (thread, _, step) in enumerate(steps):
            operation = step.operation
            if thread == t and isinstance(operation, Barrier) and operation.cluster:
                phases.setdefault((_cluster(program.threads[t]), counts[operation.action], operation.action), []).append(i)
                counts[operation.action] += 1
    for (cluster, number, action), them in phases.items():
        if action != "arrive":
            continue
        waiting = as_set(i for i in phases.get((cluster, number, "wait"), ()) if not _is_relaxed(steps[i][2]))
        for i in them:
            if not _is_relaxed(steps[i][2]):
                rows[i] |= waiting
    return rows


def _waits(step: Step) -> bool:
    return isinstance(step.operation, Barrier) and step.operation.action != "arrive"


def _is_relaxed(step: Step) -> bool:
    return isinstance(step.operation, Barrier) and step.operation.is_relaxed


def _patterns(events: list[Event], by_thread: list[list[int]], order: list[int]) -> tuple[list[int], list[int]]:
    """8.8: first operation and strong write of each release pattern; strong read and last operation of each acquire pattern."""
    release, acquire = [0] * len(events), [0] * len(events)
    for them in by_thread:
        for i in them:
            a = events[i]
            if a.releases and a.is_write:
                release[i] |= 1 << i
            if a.acquires and a.returns:
                acquire[i] |= 1 << i
            for j in them:
                b = events[j]
                if not order[i] >> j & 1:
                    continue
                on_same = a.is_memory and b.is_memory and (a.variable, a.offset, a.size) == (b.variable, b.offset, b.size)
                if b.is_write and b.is_strong and ((a.is_fence and a.sem != "acquire") or (a.releases and on_same)):
                    release[i] |= 1 << j
                if a.returns and a.is_strong and ((b.is_fence and b.sem != "release") or (b.acquires and on_same)):
                    acquire[i] |= 1 << j
    return release, acquire
