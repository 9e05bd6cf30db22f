"""The missing order in a data race: the relation of chapter 8 that its operations lack, and changes that would establish it.

The relation follows from the execution. Changes are searched for: single changes of instructions (a wider scope, `relaxed` made `release`,
an added fence), then pairs of changes, one in each thread; a change counts if no allowed execution of the changed program has a race
between the two operations. If one thread reads what the other wrote between the two, only executions with that read are considered:
continuing without having seen the flag is a different bug.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

import attrs

from ptxkit.analyses.memory_model.enumerator import LOOPS, find_race
from ptxkit.analyses.memory_model.execution import Execution
from ptxkit.analyses.memory_model.program import (
    SCOPES,
    AsyncCopy,
    Atomic,
    Branch,
    Compute,
    Fence,
    Label,
    Load,
    Operation,
    Program,
    ProxyFence,
    Store,
)
from ptxkit.analyses.memory_model.skeleton import Event, includes
from ptxkit.analyses.memory_model.text import written
from ptxkit.frozen import frozen

MOST_TRIED = 400
"""Maximum number of changes, or pairs of them, that are tried."""


@frozen
class Change:
    """An instruction that replaces another, or is inserted before it (`is_new`). `position` is an index into the thread's code."""

    thread: int
    position: int
    operation: Operation
    is_new: bool = False


@frozen
class Missing:
    """What two racing operations lack, and the smallest set of changes that establishes it; empty if none was found."""

    race: tuple[int, int]
    relation: str
    """The relation's name in the manual, with its section."""
    why: str
    changes: tuple[Change, ...]
    executed: Execution

    def describe(self) -> list[str]:
        """A description, as lines of text."""
        skeleton = self.executed.skeleton
        program = skeleton.program
        a, b = (skeleton.events[i] for i in self.race)
        lines = [f"data race: {skeleton.describe(a)} and {skeleton.describe(b)}", f"missing: {self.relation}: {self.why}"]
        for one in self.changes:
            thread = program.threads[one.thread]
            operation = thread.code[one.position]
            event = next((event for event in skeleton.events if event.operation is operation and event.thread == one.thread), None)
            before = written(operation) if event is None else skeleton.text(event)
            line = f" (line {operation.line})" if operation.line and not program.threads[one.thread].name.startswith("P") else ""
            if one.is_new:
                lines.append(f"add to {thread.name}: {written(one.operation)} before {before}{line}")
            else:
                after = written(one.operation) if event is None else skeleton.text(attrs.evolve(event, operation=one.operation))
                lines.append(f"change in {thread.name}: {before} -> {after}{line}")
        return lines


def missing_order(execution: Execution, *, loops: int = LOOPS) -> Missing | None:
    """What the first data race of an execution lacks; None if it has none. Raises CannotFollow."""
    races = execution.data_races
    if not races:
        return None
    race = races[0]
    a, b = (execution.events[i] for i in race)
    seen = None if a.thread == b.thread else _observed(execution, a, b) or _observed(execution, b, a)
    relation, why = _relation(execution, race)
    return Missing(race, relation, why, _smallest(execution, race, seen, loops), execution)


def changed(program: Program, changes: Sequence[Change]) -> Program:
    """The program with these changes."""
    codes = [list(one.code) for one in program.threads]
    for one in sorted(changes, key=lambda one: (one.position, one.is_new), reverse=True):
        codes[one.thread][one.position : one.position + (not one.is_new)] = [one.operation]
    threads = tuple(attrs.evolve(thread, code=tuple(code)) for thread, code in zip(program.threads, codes, strict=True))
    return attrs.evolve(program, threads=threads)


def _relation(execution: Execution, race: tuple[int, int]) -> tuple[str, str]:
    a, b = (execution.events[i] for i in race)
    base = execution.base_causality
    if race in base or (b.index, a.index) in base:
        if a.variable != b.variable:
            return "proxy-preserved base causality order (8.9.5)", "the addresses are aliases, and no fence.proxy.alias is between them"
        kinds = " and ".join(sorted({a.proxy, b.proxy} - {"generic"}))
        return "proxy-preserved base causality order (8.9.5)", f"one is ordered before the other, but not across the {kinds} proxy"
    if a.thread == b.thread:
        return "program order (8.9.1)", "an asynchronous operation is not awaited"
    hindrance = _hindrance(execution, a, b) or _hindrance(execution, b, a)
    if hindrance is not None:
        return "synchronizes (8.9.4)", hindrance
    return "causality order (8.9.5)", "neither thread observes an operation of the other, and no barrier or fence.sc orders them"


def _observed(execution: Execution, a: Event, b: Event) -> tuple[Event, Event] | None:
    """A write of thread a after the first operation, and a read of it in thread b before the second."""
    order = execution.program_order
    for write, read in execution.reads_from:
        w, r = execution.events[write], execution.events[read]
        if w.thread == a.thread and r.thread == b.thread and (a.index, write) in order and (read, b.index) in order:
            return w, r
    return None


def _hindrance(execution: Execution, a: Event, b: Event) -> str | None:
    """Why a read by thread b from thread a, between the two operations, does not synchronize them."""
    seen = _observed(execution, a, b)
    if seen is None:
        return None
    w, r = seen
    skeleton = execution.skeleton
    order = execution.program_order.optional()
    said = f"{skeleton.describe(r)} reads from {skeleton.describe(w)}, but "
    for one in (w, r):
        if not one.is_strong:
            return said + f"{skeleton.describe(one)} is weak"
    if (w.index, r.index) not in execution.morally_strong:
        threads = skeleton.program.threads
        narrow = w if not includes(w.scope, threads[w.thread], threads[r.thread]) else r
        return said + f"scope .{narrow.scope} of {skeleton.describe(narrow)} does not include the other thread"
    firsts = [i for i, j in execution.release_patterns if j == w.index and (a.index, i) in order]
    lasts = [j for i, j in execution.acquire_patterns if i == r.index and (j, b.index) in order]
    if not firsts:
        return said + f"{skeleton.describe(w)} is not part of a release pattern after {skeleton.describe(a)}"
    if not lasts:
        return said + f"{skeleton.describe(r)} is not part of an acquire pattern before {skeleton.describe(b)}"
    ends = f"{skeleton.describe(execution.events[firsts[0]])} and {skeleton.describe(execution.events[lasts[0]])}"
    return f"{said}{ends} are not morally strong: the scope of one does not include the other thread"


def _smallest(execution: Execution, race: tuple[int, int], seen: tuple[Event, Event] | None, loops: int) -> tuple[Change, ...]:
    program = execution.skeleton.program
    a, b = (execution.events[i] for i in race)
    if a.operation is None or b.operation is None:
        return ()
    sites = tuple((one.thread, _position(program, one)) for one in (a, b))
    observed = () if seen is None else tuple((one.thread, _position(program, one)) for one in seen)
    singles = list(_changes(program, a, b, sites))
    pairs = ((one,) for one in singles)
    both = (
        (one, other)
        for one, other in product(singles, singles)
        if (one.thread, one.position) < (other.thread, other.position) and (one.thread != other.thread or one.is_new != other.is_new)
    )

    def unlike(changes: Sequence[Change]) -> tuple[int, bool]:
        """Prefers synchronization over making the two operations themselves strong."""
        return (sum((one.thread, one.position) in sites and not one.is_new for one in changes), changes[0].thread == changes[-1].thread)

    for changes in (*sorted(pairs, key=unlike), *sorted(both, key=unlike))[:MOST_TRIED]:
        if not _races(changed(program, changes), _moved(sites, changes), _moved(observed, changes), loops):
            return changes
    return ()


def _races(program: Program, sites: Sequence[tuple[int, int]], observed: Sequence[tuple[int, int]], loops: int) -> bool:
    """Whether operations at these sites may race, given that the second observed site reads from the first."""

    def is_at(event: Event, site: tuple[int, int]) -> bool:
        return event.thread == site[0] and event.operation is program.threads[site[0]].code[site[1]]

    def between(a: Event, b: Event) -> bool:
        return any(is_at(a, one) and is_at(b, other) for one, other in (sites, reversed(sites)))

    def observing(write: Event, read: Event) -> bool:
        return is_at(write, observed[0]) and is_at(read, observed[1])

    return find_race(program, loops=loops, between=between, observing=observing if observed else None) is not None


def _position(program: Program, event: Event) -> int:
    return next(i for i, one in enumerate(program.threads[event.thread].code) if one is event.operation)


def _moved(sites: Sequence[tuple[int, int]], changes: Sequence[Change]) -> list[tuple[int, int]]:
    return [
        (thread, position + sum(one.is_new and one.thread == thread and one.position <= position for one in changes))
        for thread, position in sites
    ]


def _changes(program: Program, a: Event, b: Event, sites: Sequence[tuple[int, int]]) -> Iterator[Change]:
    """Single changes that may help, smallest first."""
    scope = _scope(program, a.thread, b.thread)
    for kind in sorted({a.proxy, b.proxy} - {"generic"}):
        for thread, position in sites:
            yield Change(thread, position, ProxyFence(kind), True)
    if a.variable != b.variable:
        for thread, position in sites:
            yield Change(thread, position, ProxyFence("alias"), True)
    for thread in dict.fromkeys((a.thread, b.thread)):
        for position, one in enumerate(program.threads[thread].code):
            yield from _stronger(thread, position, one, scope)
    for thread in dict.fromkeys((a.thread, b.thread)):
        code = program.threads[thread].code
        for position, one in enumerate(code):
            if isinstance(one, Load | Store | Atomic | AsyncCopy) and position:
                yield Change(thread, position, Fence("acq_rel", scope), True)
        for position, one in enumerate(code):
            if not isinstance(one, Label | Branch | Compute) and position:
                yield Change(thread, position, Fence("sc", scope), True)


def _scope(program: Program, one: int, other: int) -> str:
    """The narrowest scope of one thread that includes another."""
    return next(scope for scope in SCOPES if includes(scope, program.threads[one], program.threads[other]) and scope != "cluster")


def _stronger(thread: int, position: int, operation: Operation, scope: str) -> Iterator[Change]:
    """The operation with a wider scope, with other semantics, and with both."""
    if isinstance(operation, Fence):
        wider = _widest(operation.scope, scope)
        for sem in dict.fromkeys((operation.sem, "sc")):
            if (sem, wider) != (operation.sem, operation.scope):
                yield Change(thread, position, attrs.evolve(operation, sem=sem, scope=wider))
        return
    if not isinstance(operation, Load | Store | Atomic) or operation.proxy != "generic":
        return
    wider = _widest(operation.scope, scope)
    sems = {"weak": ("relaxed",), "relaxed": (), "acquire": (), "release": (), "acq_rel": ()}[operation.sem]
    side = "acquire" if isinstance(operation, Load) else "release" if isinstance(operation, Store) else "acq_rel"
    if isinstance(operation, Atomic) and operation.register is None:
        side = "release"
    for sem in dict.fromkeys((operation.sem, *sems, side)):
        if sem != "weak" and (sem, wider) != (operation.sem, operation.scope):
            yield Change(thread, position, attrs.evolve(operation, sem=sem, scope=wider))


def _widest(scope: str | None, other: str) -> str:
    return other if scope is None else max(scope, other, key=SCOPES.index)
