"""Registers in flight: accesses to operands of an asynchronous operation before it is known to be complete (9.7.16.7, 9.1:9.7.16.8).

A dataflow analysis over bit sets: the registers that each group in flight may use, most recent group first, and whether a wait has been
passed since that did not cover the group. May facts hold on some path of the control flow graph; must facts, on all paths, are computed as
well. A copy of a register counts as that register: compilers insert copies at merges, and assemblers remove them.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator

from ptxkit.analyses.cfg.dataflow import solve
from ptxkit.analyses.cfg.dominators import dominators
from ptxkit.analyses.cfg.graph import control_flow
from ptxkit.analyses.cfg.reachability import closure, shortest_path
from ptxkit.analyses.events.effects import Action, Effect, effects
from ptxkit.analyses.framework.bindings import bindings, matching
from ptxkit.analyses.framework.routine import Routine
from ptxkit.analyses.numbers.bits import bits, mask_of
from ptxkit.analyses.registers.registers import registers
from ptxkit.analyses.registers.ssa import ssa
from ptxkit.analyses.symbolic.values import values
from ptxkit.frozen import frozen
from ptxkit.isa.binding import Bound
from ptxkit.syntax import Guard

UNCOMMITTED = "what is not committed is not waited for"
MOST_GROUPS = 8
"""Older groups are merged into one."""


class Kind(enum.Enum):
    """The kind of a step."""

    OPEN = "open"
    EFFECT = "effect"
    FENCE = "fence"
    COPY = "copy"
    CONSTANT = "constant"
    """Writes of constants."""
    ACCESS = "touch"


@frozen(eq=False)
class Step:
    """The relevant effect of an instruction. Register sets are bit masks by position in `Program.registers`."""

    instruction: int
    kind: Kind
    reads: int = 0
    writes: int = 0
    results: int = 0
    """For an operation, the registers that receive its result."""
    sources: int = 0
    """For an operation, the registers that hold its sources."""
    shape: str = ""
    effect: Effect | None = None


@frozen(eq=False)
class Program:
    """The steps of a function that matter to one queue."""

    routine: Routine
    queue: str
    registers: tuple[int, ...]
    """The registers that operations use, and those copied to or from them, by position."""
    steps: tuple[tuple[Step, ...], ...]
    """By block."""


State = tuple[tuple[int, int], ...]
"""The open group, then the committed ones, most recent first. For each: the registers in use, and those for which a wait that did not
cover the group has been passed. A register has one bit as a result and, `count` bits further up, one as a source."""


@frozen
class RegisterAccess:
    """An access to a register that an operation may still use."""

    instruction: int
    register: int
    opener: int
    """An operation that may be using it."""
    is_source: bool
    is_open: bool
    """Whether the operation may be uncommitted."""
    has_waited: bool
    """Whether a wait that does not cover the operation may lie between."""
    writes: bool


def program(routine: Routine, queue: str, fence: str = "") -> Program | None:
    """The steps of a function that matter to a queue, with fences of the given effect; None if it starts no operation of the queue."""
    own = {i: [e for e in found if e.queue == queue] for i, found in effects(routine).items()}
    own = {i: found for i, found in own.items() if found}
    if not any(effect.action is Action.OPEN for found in own.values() for effect in found):
        return None
    named = registers(routine)
    bounds = bindings(routine)
    flow = control_flow(routine)
    in_flight: set[int] = set()
    operations: dict[int, tuple[tuple[int, ...], tuple[int, ...], str]] = {}
    for i, found in own.items():
        if any(effect.action is Action.OPEN for effect in found):
            operations[i] = _operation(routine, i)
            in_flight |= {*operations[i][0], *operations[i][1]}
    copies = _copies(routine, in_flight)
    position = {register: at for at, register in enumerate(sorted(in_flight))}
    known = values(routine)
    numbering = ssa(routine)
    steps: list[tuple[Step, ...]] = []
    for block in flow.blocks:
        here: list[Step] = []
        for i in range(block.start, block.end) if block.index in flow.reachable else ():
            bound = bounds[i]
            if i in operations:
                results, sources, shape = operations[i]
                here.append(
                    Step(i, Kind.OPEN, 0, 0, _mask(results, position), _mask(sources, position), shape, _first(own[i], Action.OPEN))
                )
            elif i in own:
                here += [Step(i, Kind.EFFECT, effect=effect) for effect in own[i]]
            elif fence and isinstance(bound, Bound) and fence in bound.effects:
                here.append(Step(i, Kind.FENCE))
            else:
                reads, writes = _mask(named.reads[i], position), _mask(named.writes[i], position)
                if not reads and not writes:
                    continue
                kind = Kind.ACCESS
                if i in copies:
                    kind = Kind.COPY
                elif writes and not reads and all(known.of(number).constant is not None for number in numbering.definitions[i]):
                    kind = Kind.CONSTANT
                here.append(Step(i, kind, reads, writes))
        steps.append(tuple(here))
    return Program(routine, queue, tuple(sorted(in_flight)), tuple(steps))


def _first(found: Iterable[Effect], action: Action) -> Effect:
    return next(effect for effect in found if effect.action is action)


def _mask(numbers: Iterable[int], position: dict[int, int]) -> int:
    return mask_of([position[number] for number in numbers if number in position])


def _operation(routine: Routine, i: int) -> tuple[tuple[int, ...], tuple[int, ...], str]:
    """The registers of an operation's result, those of its sources, and its shape: the fragments, or else all that it writes."""
    bound = bindings(routine)[i]
    if not isinstance(bound, Bound):
        return (), (), ""
    named = registers(routine)
    if not bound.fragments:
        return named.writes[i], (), ""
    children = routine.instructions[i].children
    first = 2 if type(children[0]) is Guard else 1
    results: list[int] = []
    sources: list[int] = []
    for fragment in bound.fragments:
        operand = bound.operand(fragment.operand)
        if operand is not None:
            numbers = named.of(i, children[first + operand.path[0]])
            (results if operand.writes else sources).extend(numbers)
    return tuple(results), tuple(sources), bound.fragments[0].shape


def _copies(routine: Routine, in_flight: set[int]) -> set[int]:
    """The plain copies to and from registers in use, transitively: the registers at the other end of each copy are added."""
    named = registers(routine)
    plain = {i for i, _ in matching(routine, _is_copy) if len(named.writes[i]) == 1 and len(named.reads[i]) == 1 and i not in named.weak}
    ends: dict[int, list[int]] = {}
    for i in plain:
        ends.setdefault(named.reads[i][0], []).append(i)
        ends.setdefault(named.writes[i][0], []).append(i)

    def copied(register: int) -> list[int]:
        return [end for i in ends.get(register, ()) for end in (named.reads[i][0], named.writes[i][0])]

    in_flight |= closure(in_flight, copied)
    return {i for register in in_flight for i in ends.get(register, ())}


def _is_copy(bound: Bound) -> bool:
    reads = [operand for operand in bound.operands if operand.reads]
    writes = [operand for operand in bound.operands if operand.writes]
    if (
        len(reads) != 1
        or len(writes) != 1
        or reads[0].types != writes[0].types
        or reads[0].shape.kind != "register"
        or bound.memory
        or bound.converges is not None
    ):
        return False
    return any(c.what.value == reads[0].name and bound.holds(c.when) for c in bound.form.computes)


def accesses_in_flight(of: Program) -> Iterator[RegisterAccess]:
    """For each operation, the first access, in document order, to a register that it may be using."""
    flow = control_flow(of.routine)
    count = len(of.registers)
    empty: State = ((0, 0),)

    def through(block: int, state: State | None) -> State | None:
        if state is None:
            return None
        for step in of.steps[block]:
            state = after(step, state, count)
        return state

    def boundary(block: int) -> State | None:
        return empty if block == 0 else None

    may = solve(flow, through, either, boundary, None)
    reported: set[int] = set()
    silent = 0
    for block, steps in enumerate(of.steps):
        state = may.before[block]
        if state is None:
            continue
        for step in steps:
            if step.kind is Kind.COPY and step.reads & silent:
                silent |= step.writes
            found = _accessed(step, state, count) & ~silent
            while found:
                access = _access(of, block, step, state, found)
                if access.opener not in reported:
                    yield access
                reported.add(access.opener)
                own = next((one for one in of.steps[flow.block_of[access.opener]] if one.instruction == access.opener), step)
                silent |= own.results | own.sources << count | found & -found
                found &= ~silent
            state = after(step, state, count)


def _accessed(step: Step, state: State, count: int) -> int:
    """The registers, as results or sources, that a step accesses although they are in use."""
    in_flight = 0
    for group, _ in state:
        in_flight |= group
    if not in_flight:
        return 0
    if step.kind is Kind.OPEN:
        return in_flight & (step.sources | step.results << count)
    if step.kind in (Kind.ACCESS, Kind.CONSTANT):
        return in_flight & (step.reads | step.writes | step.writes << count)
    return 0


def _access(of: Program, block: int, step: Step, state: State, found: int) -> RegisterAccess:
    count = len(of.registers)
    at = next(bits(found))
    groups = [position for position, (group, _) in enumerate(state) if group >> at & 1]
    register = at % count
    opener = _opener(of, block, step, register, at >= count)
    return RegisterAccess(
        step.instruction,
        of.registers[register],
        opener,
        at >= count,
        groups[0] == 0,
        any(state[position][1] >> at & 1 for position in groups),
        bool(step.writes >> register & 1),
    )


def is_certain(of: Program, access: RegisterAccess) -> bool:
    """Whether every path from the operation leads to the access while the register is still in use."""
    flow = control_flow(of.routine)
    start, block = flow.block_of[access.opener], flow.block_of[access.instruction]
    if not dominators(of.routine).post.dominates(block, start):
        return False
    count = len(of.registers)
    at = of.registers.index(access.register) + count * access.is_source
    first = next(position for position, earlier in enumerate(of.steps[start]) if earlier.instruction == access.opener)

    def through(where: int, state: State | None, end: int = -1) -> State | None:
        steps = of.steps[where]
        if state is None and where == start:
            state, steps = ((0, 0),), steps[first:]
        for earlier in steps:
            if state is None or earlier.instruction == end:
                break
            state = after(earlier, state, count)
        return state

    found = solve(flow, through, _both, lambda _: None, None)
    state = through(block, found.before[block], access.instruction)
    return state is not None and any(group >> at & 1 for group, _ in state)


def _opener(of: Program, block: int, step: Step, register: int, is_source: bool) -> int:
    """The nearest operation before a step that uses a register, or a copy of it."""
    for earlier, wanted in steps_back(of, block, step, register):
        if earlier.kind is Kind.OPEN and (earlier.sources if is_source else earlier.results) >> wanted & 1:
            return earlier.instruction
    return step.instruction


def steps_back(of: Program, block: int, step: Step, register: int, end: Kind | None = None) -> Iterator[tuple[Step, int]]:
    """The steps before a given one, backwards on all paths up to a step of kind `end`; nearest blocks first.

    Each comes with the register that holds, after that step, the final value of `register`: copies are followed.
    """
    flow = control_flow(of.routine)
    work = [(block, of.steps[block].index(step), register)]
    found = set(work)
    for at, last, wanted in work:
        for earlier in reversed(of.steps[at][:last]):
            if earlier.kind is end:
                break
            yield earlier, wanted
            if earlier.kind is Kind.COPY and earlier.writes >> wanted & 1 and earlier.reads:
                wanted = next(bits(earlier.reads))
        else:
            new = [(before, len(of.steps[before]), wanted) for before in flow.predecessors(at) if before in flow.reachable]
            work += [state for state in new if state not in found]
            found.update(new)


def after(step: Step, state: State, count: int) -> State:
    """The state after a step; `count` is the number of registers, by which sources are numbered after results."""
    if step.kind is Kind.OPEN:
        (in_flight, waited), *rest = state
        own = step.results | step.sources << count
        # from now on this operation counts: older ones complete before it, or have its shape
        return ((in_flight | own, waited & ~own), *[(group & ~own, passed & ~own) for group, passed in rest])
    if step.kind is Kind.COPY:
        return tuple([_copied(step, group, passed, count) for group, passed in state])
    if step.kind is Kind.EFFECT and step.effect is not None:
        return _effect(step.effect, state)
    return state


def _copied(step: Step, group: int, passed: int, count: int) -> tuple[int, int]:
    for shift in (0, count):
        to, source = step.writes << shift, step.reads << shift
        group = group | to if group & source else group & ~to
        passed = passed | to if passed & source else passed & ~to
    return group, passed


def _effect(effect: Effect, state: State) -> State:
    opened, *groups = state
    if effect.action is Action.COMMIT:
        groups = [opened, *groups]
        if len(groups) > MOST_GROUPS:
            (one, passed), (other, also) = groups[-2:]
            groups[-2:] = [(one | other, passed | also)]
        return _trimmed(((0, 0), *groups))
    if effect.reading:
        return state
    left = groups[: effect.leave] if effect.leave is not None else []
    none = not any(group for group, _ in groups[len(left) :])
    opened = (0, 0) if effect.takes_open or effect.leave is None else opened
    return _trimmed(((opened[0], opened[0]), *[(group, passed | group if none else passed) for group, passed in left]))


def _trimmed(state: State) -> State:
    end = len(state)
    while end > 1 and not state[end - 1][0]:
        end -= 1
    return state[:end]


def either(states: Iterable[State | None]) -> State | None:
    """May facts: each group uses every register that it uses on some path."""
    found: State | None = None
    for state in states:
        if state is None or state == found:
            continue
        if found is None:
            found = state
            continue
        length = max(len(state), len(found))
        one, other = (s + ((0, 0),) * (length - len(s)) for s in (found, state))
        found = tuple([(a | b, passed | also) for (a, passed), (b, also) in zip(one, other, strict=True)])
    return found


def _both(states: Iterable[State | None]) -> State | None:
    """Must facts: what holds on all paths."""
    found: State | None = None
    for state in states:
        if state is None or state == found:
            continue
        found = state if found is None else _trimmed(tuple([(a & b, 0) for (a, _), (b, _) in zip(found, state, strict=False)]))
    return found


def witness(of: Program, access: RegisterAccess) -> list[tuple[int, str]]:
    """The evidence that a register is in use at an access: the operation, and the steps of its queue on a path to the access."""
    flow = control_flow(of.routine)
    start = flow.block_of[access.opener]
    end = flow.block_of[access.instruction]
    straight = start == end and access.opener < access.instruction
    route = [] if straight else shortest_path(start, end, flow.successors)
    route = route or [end]
    found = [(access.opener, "started here")]
    for position, block in enumerate(route):
        for step in of.steps[block]:
            after_start = position > 0 or step.instruction > access.opener
            before_end = position < len(route) - 1 or step.instruction < access.instruction
            if after_start and before_end and step.kind is Kind.EFFECT and step.effect is not None:
                left = "all" if step.effect.leave is None else step.effect.leave
                waited = UNCOMMITTED if access.is_open else f"this leaves up to {left} {'group' if left == 1 else 'groups'} in flight"
                found.append((step.instruction, "committed here" if step.effect.action is Action.COMMIT else waited))
    return found
