"""C011 setmaxnreg."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

from ptxkit.analyses.cfg.dataflow import solve
from ptxkit.analyses.cfg.graph import control_flow
from ptxkit.analyses.framework.bindings import bindings, matching
from ptxkit.analyses.framework.routine import Routine
from ptxkit.analyses.framework.rule import Facts, Rule
from ptxkit.analyses.launch.launch import WARP, launch
from ptxkit.analyses.uniformity.levels import ThreadSet
from ptxkit.analyses.uniformity.uniformity import uniformity
from ptxkit.diagnostics import Diagnostic, Severity
from ptxkit.frozen import frozen
from ptxkit.isa.binding import Bound
from ptxkit.syntax import Path, constant_value

REGISTERS = 65536
"""Registers of a multiprocessor that supports the instruction (sm_90 and later)."""
MOST = 256
STEP = 8
"""Registers are allocated in multiples of this per thread."""
WARPGROUP = 4 * WARP


@frozen
class Change:
    """An instruction that changes the register count of a warpgroup's threads."""

    instruction: int
    takes: bool
    """Whether it requests registers from the pool (`.inc`)."""
    count: int


@frozen
class Start:
    """Registers of each thread at kernel start."""

    count: int
    is_exact: bool
    """Otherwise, an upper bound."""
    why: str


def check(facts: Facts) -> Iterator[Diagnostic]:
    """Changes of the register count that have no effect, go in the wrong direction, can never be granted, or directly follow each other."""
    for routine in facts.routines:
        changes = {change.instruction: change for change in _changes(routine)}
        if not changes or not routine.function.header.is_entry:
            continue
        start = _start(routine)
        if start is None:
            yield facts.report(
                RULE,
                routine.where(min(changes)),
                "nothing limits the registers of this kernel, so setmaxnreg has no effect",
                ".maxnreg does, or .minnctapersm with .maxntid or .reqntid, or an option of the compiler",
                severity=Severity.INFO,
            )
        yield from _directions(facts, routine, changes, start)
        if start is not None:
            yield from _pool(facts, routine, tuple(changes.values()), start)


def _changes(routine: Routine) -> Iterator[Change]:
    flow = control_flow(routine)
    for i, bound in matching(routine, lambda bound: "setmaxnreg" in bound.effects):
        if flow.block_of[i] not in flow.reachable:
            continue
        count = constant_value(routine.instructions[i].operands[0])
        if isinstance(count, int):
            yield Change(i, bound.has(".inc"), count)


def _start(routine: Routine) -> Start | None:
    said: dict[str, int] = {}
    for directive in routine.function.header.directives:
        sizes = [constant_value(argument) for argument in directive.arguments]
        if sizes and all(isinstance(size, int) and size > 0 for size in sizes):
            said[directive.name] = math.prod(map(int, sizes))  # type: ignore[arg-type]
    if ".maxnreg" in said:
        count = -(-said[".maxnreg"] // STEP) * STEP
        return Start(count, True, f"the kernel starts with {said['.maxnreg']} (.maxnreg)")
    threads = said.get(".reqntid") or said.get(".maxntid")
    if threads is None or ".minnctapersm" not in said:
        return None
    ctas = said[".minnctapersm"]
    count = min(MOST, REGISTERS // (ctas * threads) // STEP * STEP)
    return Start(count, False, f"the kernel starts with at most {count}, as {ctas} x {threads} threads share {REGISTERS} registers")


# A state holds the last changes that threads may have made, by instruction (-1: none), each with whether they certainly have not waited
# since.
State = frozenset[tuple[int, bool]]


def _directions(facts: Facts, routine: Routine, changes: dict[int, Change], start: Start | None) -> Iterator[Diagnostic]:
    """Releases to a higher count, requests for a lower one, and changes with no wait between."""
    flow = control_flow(routine)
    stops: dict[int, list[int]] = {}
    for i in sorted(_waits(routine) | changes.keys()):
        stops.setdefault(flow.block_of[i], []).append(i)

    def transfer(block: int, state: State) -> State:
        for i in stops.get(block, ()):
            state = _after(routine, changes, i, state)
        return state

    def join(states: Iterable[State]) -> State:
        return frozenset([one for state in states for one in state])

    entry: State = frozenset([(-1, False)])
    nothing: State = frozenset()
    solution = solve(flow, transfer, join, lambda block: entry if block == 0 else None, nothing)
    for block in flow.order:
        state = solution.before[block]
        for i in stops.get(block, ()):
            if i in changes and state:
                yield from _wrong_direction(facts, routine, changes[i], [changes.get(before) for before, _ in state], start)
                yield from _too_soon(facts, routine, changes[i], state)
            state = _after(routine, changes, i, state)


def _after(routine: Routine, changes: dict[int, Change], i: int, state: State) -> State:
    """The state after a change, or after a point where threads may wait."""
    if i in changes:
        new = frozenset([(i, True)])
        return new if routine.instructions[i].guard is None else state | new
    return frozenset([(before, False) for before, _ in state])


def _waits(routine: Routine) -> set[int]:
    """The instructions at which threads may wait for one another."""
    bounds = bindings(routine)
    waiting = {bound for bound in set(bounds) if not isinstance(bound, Bound) or _may_wait(bound)}
    return {i for i, bound in enumerate(bounds) if bound in waiting}


def _may_wait(bound: Bound) -> bool:
    """Whether threads may wait for one another here: at any barrier, by polling memory, or in a function."""
    return bool(bound.barrier or bound.flow == "call" or bound.asynchronous or not bound.form.modelled) or any(
        memory.access != "write" for memory in bound.memory
    )


def _wrong_direction(
    facts: Facts, routine: Routine, change: Change, before: Iterable[Change | None], start: Start | None
) -> Iterator[Diagnostic]:
    whys: dict[str, Path | None] = {}
    for last in before:
        if last is None and start is None:
            return
        count = last.count if last is not None else start.count  # type: ignore[union-attr]
        exact = last is not None or start.is_exact  # type: ignore[union-attr]
        if (change.count >= count or not exact) if change.takes else change.count <= count:
            return
        why = start.why if last is None and start is not None else f"it has {count} since here"
        whys[why] = routine.where(last.instruction) if last is not None else None
    asked, given = "`.inc` to {} registers, but the warp has more", "`.dec` to {} registers, but the warp has fewer"
    yield facts.report(
        RULE,
        routine.where(change.instruction),
        (asked if change.takes else given).format(change.count),
        *[why for why, where in whys.items() if where is None],
        related=[(where, why) for why, where in whys.items() if where is not None],
    )


def _too_soon(facts: Facts, routine: Routine, change: Change, state: State) -> Iterator[Diagnostic]:
    if not all(soon for _, soon in state):
        return
    yield facts.report(
        RULE,
        routine.where(change.instruction),
        "the warps of the warpgroup have not waited for one another since their last setmaxnreg",
        related=[(routine.where(before), "the one before") for before, _ in sorted(state)],
        severity=Severity.WARNING,
    )


def _pool(facts: Facts, routine: Routine, changes: tuple[Change, ...], start: Start) -> Iterator[Diagnostic]:
    """Requests that can never be granted, even with everything that the others release."""
    total = launch(routine).count
    if total is None or total % WARPGROUP:
        return
    sets = [_threads(routine, change) for change in changes]
    wanted: list[tuple[int, Change | None]] = []
    for first in range(0, total, WARPGROUP):
        group = ((1 << WARPGROUP) - 1) << first
        own = []
        for change, mask in zip(changes, sets, strict=True):
            if mask is None or mask & group not in (0, group):
                return
            if mask & group:
                own.append(change)
        if len(own) > 1:
            return
        wanted.append((own[0].count if own else start.count, own[0] if own else None))
    pool = start.count * total
    sum_ = WARPGROUP * sum(count for count, _ in wanted)
    requests = list(dict.fromkeys([change for _, change in wanted if change is not None and change.takes]))
    if sum_ <= pool or not requests:
        return
    groups = ", ".join([str(count) for count, _ in wanted])
    releases = dict.fromkeys([change for _, change in wanted if change is not None and change not in requests])
    others = [(routine.where(change.instruction), f"set to {change.count} here") for change in releases]
    yield facts.report(
        RULE,
        routine.where(requests[0].instruction),
        f"there are never enough registers for this: all warpgroups together need {sum_}, and the CTA has {pool}",
        f"registers per thread, by warpgroup: {groups}; {start.why}",
        "the warps deadlock here",
        related=others,
    )


def _threads(routine: Routine, change: Change) -> int | None:
    found: ThreadSet | None = uniformity(routine).threads(change.instruction)
    return found.mask if found is not None and not found.one_per_warp else None


RULE = Rule(
    id="C011",
    name="setmaxnreg",
    severity=Severity.ERROR,
    summary="a setmaxnreg that has no effect, goes in the wrong direction, can never be granted, or directly follows another one",
    why=(
        "Registers are taken from and returned to a pool of the CTA: a request waits until there are enough, a release must not "
        "name more than the warp has, and the warps of a warpgroup must synchronize between two of them (9.7.19.5)."
    ),
    bad="""
        .visible .entry k()
        .reqntid 128
        .maxnreg 104
        {
        setmaxnreg.dec.sync.aligned.u32 112;
        ret;
        }
    """,
    good="""
        .visible .entry k()
        .reqntid 128
        .maxnreg 104
        {
        setmaxnreg.dec.sync.aligned.u32 96;
        ret;
        }
    """,
    ptxas="refuses the bad example: (C7406) setmaxnreg.dec has register count (112) which is larger than the "
    "largest temporal register count in the program (104)",
    proof=(
        "The directives are compared with the constants of the instructions; the pool of registers is added up over the warps "
        "whose path is known."
    ),
    sanitizer="none of its tools looks for this.",
    check=check,
)
