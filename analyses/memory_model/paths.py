"""The paths of a thread from entry to exit, each a list of events over values that are not yet known.

A branch on a value that was read splits the path in two, each with a constraint on that value; so does a compare-and-swap, which may or may
not write. Loops are followed a bounded number of times.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

import attrs

from ptxkit.analyses.memory_model.expressions import MASK, Expression, Read, apply, atomic_function, reads_of, truncated
from ptxkit.analyses.memory_model.program import (
    Address,
    AsyncAccess,
    AsyncArrive,
    AsyncCommit,
    AsyncCopy,
    AsyncWait,
    Atomic,
    Barrier,
    Branch,
    Compute,
    Fence,
    Label,
    Load,
    Operand,
    Operation,
    Program,
    ProxyFence,
    Store,
    Thread,
    Variable,
)
from ptxkit.frozen import define, frozen

BARRIERS = 16
"""Number of barriers of a CTA (9.7.14.1)."""
MBARRIER = 8
"""Bytes of an mbarrier."""
MOST_OFFSETS = 8
"""Maximum number of offsets in a variable to which an address that was read may point."""


@frozen(eq=False)
class Step:
    """An event of a path. Its fields are those of `events.Event`, which is made from it."""

    operation: Operation
    is_read: bool = False
    is_write: bool = False
    variable: str = ""
    offset: int = 0
    size: int = 0
    value: Expression = 0
    """The value that it writes; for a barrier, the predicate of its reduction."""
    depends: int = 0
    """The reads of this path on which its value, address or execution depends (data, address, control), as a bit mask."""
    group: int = -1
    """Operations of one vector access, or of one asynchronous copy, share a number: program order does not relate them."""
    is_async: bool = False
    waits_for: tuple[int, ...] = ()
    """The asynchronous operations that are complete after this step."""
    barrier: object = None
    """The barrier at which it arrives."""
    threads: int | None = None
    registers: Mapping[str, Expression] = attrs.field(factory=dict)
    """For a barrier: the registers when the thread waits there."""
    constraints: int = 0
    """The number of the path's constraints that concern earlier steps."""


@frozen(eq=False)
class Path:
    """A path of a thread: its events, the constraints on its reads, and its final registers."""

    steps: tuple[Step, ...]
    constraints: tuple[tuple[Expression, bool], ...]
    registers: Mapping[str, Expression]


@frozen
class Paths:
    """All paths of a thread; `is_cut` if some were dropped because a loop continued."""

    paths: tuple[Path, ...]
    is_cut: bool


class InFlight(NamedTuple):
    """A copy that may be in flight: its steps, its proxy, and its group once committed."""

    steps: tuple[int, int]
    proxy: str
    group: int | None = None


@define(eq=False)
class _State:
    at: int
    registers: dict[str, Expression]
    steps: list[Step]
    constraints: list[tuple[Expression, bool]]
    control: int = 0
    jumps: dict[int, int] = attrs.field(factory=dict)
    groups: int = 0
    in_flight: list[InFlight] = attrs.field(factory=list)
    committed: dict[str, int] = attrs.field(factory=dict)
    """By proxy, the number of groups of copies so far."""

    def copy(self) -> _State:
        return _State(
            self.at,
            dict(self.registers),
            list(self.steps),
            list(self.constraints),
            self.control,
            dict(self.jumps),
            self.groups,
            list(self.in_flight),
            dict(self.committed),
        )


class CannotFollow(Exception):
    """A thread does something unsupported; the message says what, `line` where."""

    def __init__(self, message: str, line: int = 0) -> None:
        super().__init__(message)
        self.line = line


def paths(thread: Thread, program: Program, loops: int) -> Paths:
    """The paths of a thread that take no backward branch more than `loops` times. Raises CannotFollow."""
    labels = {one.name: i for i, one in enumerate(thread.code) if isinstance(one, Label)}
    variables = {one.name: one for one in program.variables}
    pending = [_State(0, dict(thread.registers), [], [])]
    found: list[Path] = []
    is_cut = False
    while pending:
        state = pending.pop()
        while state is not None and state.at < len(thread.code):
            operation = thread.code[state.at]
            state.at += 1
            following = list(_after(operation, state, labels, variables))
            state = None  # type: ignore[assignment]
            for one in following:
                if any(count > loops for count in one.jumps.values()):
                    is_cut = True
                elif state is None:
                    state = one
                else:
                    pending.append(one)
        if state is not None:
            found.append(Path(tuple(state.steps), tuple(state.constraints), state.registers))
    return Paths(tuple(found), is_cut)


def _operand(state: _State, operand: Operand) -> Expression:
    return operand & MASK if isinstance(operand, int) else state.registers.get(operand, 0)


def _after(operation: Operation, state: _State, labels: Mapping[str, int], variables: Mapping[str, Variable]) -> Iterator[_State]:
    if isinstance(operation, Label):
        yield state
    elif isinstance(operation, Compute):
        operands = [_operand(state, one) for one in operation.operands]
        state.registers[operation.register] = apply(operation.function, *operands)
        yield state
    elif isinstance(operation, Branch):
        yield from _branch(operation, state, labels)
    elif isinstance(operation, Fence | ProxyFence):
        state.steps.append(Step(operation, constraints=len(state.constraints)))
        yield state
    elif isinstance(operation, Barrier):
        yield from _barrier(operation, state)
    elif isinstance(operation, AsyncWait):
        done = _complete(operation, state)
        awaited = [one.steps[:1] if operation.reading else one.steps for one in done]
        state.steps.append(Step(operation, waits_for=tuple(i for steps in awaited for i in steps), constraints=len(state.constraints)))
        if not operation.reading:
            state.in_flight = [one for one in state.in_flight if one not in done]
        yield state
    elif isinstance(operation, AsyncCommit):
        group = state.committed.get(operation.proxy, 0)
        state.committed[operation.proxy] = group + 1
        state.in_flight = [
            one._replace(group=group) if one.proxy == operation.proxy and one.group is None else one for one in state.in_flight
        ]
        yield state
    elif isinstance(operation, AsyncArrive):
        copies = tuple(i for one in state.in_flight if one.proxy == "generic" for i in one.steps)
        for after, area in _placed(operation.mbarrier, MBARRIER, state, variables, operation.line):
            _signal(after, area, "arrive", 1, operation.line, waits_for=copies)
            yield after
    elif isinstance(operation, AsyncAccess):
        yield from _async_access(operation, state, variables)
    elif isinstance(operation, AsyncCopy):
        for source_state, source in _placed(operation.source, operation.size, state, variables, operation.line):
            for target_state, target in _placed(operation.target, operation.size, source_state, variables, operation.line):
                for after, mbarrier in _counted(operation.mbarrier, target_state, variables, operation.line):
                    _copy(operation, after, source, target, mbarrier)
                    yield after
    else:
        elements = _elements(operation)
        for after, area in _placed(operation.address, operation.size * elements, state, variables, operation.line):
            yield from _access(operation, after, area, elements)


def _branch(operation: Branch, state: _State, labels: Mapping[str, int]) -> Iterator[_State]:
    if operation.label not in labels:
        raise CannotFollow(f"there is no label {operation.label}", operation.line)
    target = labels[operation.label]
    is_back = target < state.at
    condition: Expression = 1
    if operation.function is not None:
        condition = apply(operation.function, *[_operand(state, one) for one in operation.operands])
    if not isinstance(condition, int):
        other = state.copy()
        _constrain(other, condition, False)
        yield other
        _constrain(state, condition, True)
    elif not condition:
        yield state
        return
    if is_back:
        state.jumps[state.at] = state.jumps.get(state.at, 0) + 1
    state.at = target
    yield state


def _constrain(state: _State, condition: Expression, truth: bool) -> None:
    state.constraints.append((condition, truth))
    state.control |= reads_of(condition)


def _fixed(state: _State, expression: Expression, candidates: Iterable[int]) -> Iterator[tuple[_State, int]]:
    """The states in which an expression has each of these values."""
    if isinstance(expression, int):
        yield state, expression
        return
    for value in candidates:
        other = state.copy()
        _constrain(other, apply(_equals(value), expression), True)
        yield other, value


def _equals(value: int) -> Callable[[int], int]:
    return lambda other: int(other == value)


def _placed(
    address: Address, size: int, state: _State, variables: Mapping[str, Variable], line: int
) -> Iterator[tuple[_State, tuple[str, int, int]]]:
    """The possible locations of an address: variable, offset, and the reads on which it depends."""
    index: Expression = 0 if address.index is None else _operand(state, address.index)
    depends = reads_of(index)
    if not address.variable:
        for after, value in _fixed(state, index, _addresses(variables, address.offset, size)):
            found = _found(variables, (value + address.offset) & MASK, size)
            if found is None:
                raise CannotFollow(f"no variable has the bytes at {(value + address.offset) & MASK:#x}", line)
            yield after, (*found, depends)
        return
    if address.variable not in variables:
        raise CannotFollow(f"there is no variable {address.variable}", line)
    room = variables[address.variable].size
    for after, value in _fixed(state, index, range(0, max(room - address.offset - size, 0) + 1, size)):
        offset = address.offset + value
        if not 0 <= offset <= room - size:
            raise CannotFollow(f"bytes {offset} to {offset + size - 1} are not in {address.variable}, which has {room}", line)
        yield after, (address.variable, offset, depends)


def _addresses(variables: Mapping[str, Variable], offset: int, size: int) -> list[int]:
    """The possible values of an address that was read: all in a small variable, the first ones in a large one."""
    return [
        one.base + at - offset
        for one in variables.values()
        if one.base
        for at in range(0, min(one.size - size, MOST_OFFSETS * size) + 1, size)
    ]


def _found(variables: Mapping[str, Variable], address: int, size: int) -> tuple[str, int] | None:
    for one in variables.values():
        if one.base and one.base <= address and address + size <= one.base + one.size:
            return one.name, address - one.base
    return None


def _elements(operation: Load | Store | Atomic) -> int:
    if isinstance(operation, Load) and isinstance(operation.register, tuple):
        return len(operation.register)
    if isinstance(operation, Store) and isinstance(operation.value, tuple):
        return len(operation.value)
    return 1


def _access(operation: Load | Store | Atomic, state: _State, area: tuple[str, int, int], elements: int) -> Iterator[_State]:
    variable, offset, address_reads = area
    size = operation.size
    depends = address_reads | state.control
    if isinstance(operation, Atomic):
        yield from _atomic(operation, state, variable, offset, depends)
        return
    group = -1
    if elements > 1:
        group = state.groups
        state.groups += 1
    known = len(state.constraints)
    for i in range(elements):
        where = offset + i * size
        if isinstance(operation, Load):
            register = operation.register[i] if isinstance(operation.register, tuple) else operation.register
            state.registers[register] = Read(len(state.steps))
            step = Step(operation, True, False, variable, where, size, 0, depends, group, constraints=known)
        else:
            operand = operation.value[i] if isinstance(operation.value, tuple) else operation.value
            value = apply(truncated(size), _operand(state, operand))
            step = Step(operation, False, True, variable, where, size, value, depends | reads_of(value), group, constraints=known)
        state.steps.append(step)
    yield state


def _atomic(operation: Atomic, state: _State, variable: str, offset: int, depends: int) -> Iterator[_State]:
    size, number, known = operation.size, len(state.steps), len(state.constraints)
    own = Read(number)
    values = [apply(truncated(size), _operand(state, one)) for one in operation.values]
    if operation.operator == "cas":
        expected, new = values
        swaps = apply(lambda a, b: int(a == b), own, expected)
        other = state.copy()
        other.steps.append(Step(operation, True, False, variable, offset, size, 0, depends, constraints=known))
        _constrain(other, swaps, False)
        if operation.register is not None:
            other.registers[operation.register] = own
        yield other
        depends |= reads_of(expected) | reads_of(new) | 1 << number
        state.steps.append(Step(operation, True, True, variable, offset, size, new, depends, constraints=known))
        _constrain(state, swaps, True)
    else:
        value = values[0] if operation.operator == "exch" else apply(atomic_function(operation.operator, size), own, values[0])
        depends |= reads_of(value)
        state.steps.append(Step(operation, True, True, variable, offset, size, value, depends, constraints=known))
    if operation.register is not None:
        state.registers[operation.register] = own
    yield state


def _complete(operation: AsyncWait, state: _State) -> list[InFlight]:
    """The copies in flight that a wait covers."""
    if not operation.proxy:
        return state.in_flight[: len(state.in_flight) - operation.pending]
    newest = state.committed.get(operation.proxy, 0) - operation.pending
    return [one for one in state.in_flight if one.proxy == operation.proxy and one.group is not None and one.group < newest]


def _counted(
    mbarrier: Address | None, state: _State, variables: Mapping[str, Variable], line: int
) -> Iterator[tuple[_State, tuple[str, int, int] | None]]:
    """The possible locations of the mbarrier that counts the bytes of an asynchronous operation."""
    if mbarrier is None:
        yield state, None
        return
    yield from _placed(mbarrier, MBARRIER, state, variables, line)


def _signal(
    state: _State, area: tuple[str, int, int], operator: str, value: int, line: int, *, group: int = -1, waits_for: tuple[int, ...] = ()
) -> None:
    """The update of an mbarrier by an asynchronous operation: with release semantics at cluster scope (9.7.14.15.5)."""
    variable, offset, address_reads = area
    if group < 0:
        group = state.groups
        state.groups += 1
    atomic = Atomic(None, operator, Address(variable, offset), (value,), "release", "cluster", MBARRIER, line=line)
    number = len(state.steps)
    word = apply(atomic_function(operator, MBARRIER), Read(number), value)
    depends = address_reads | state.control | reads_of(word)
    state.steps.append(
        Step(atomic, True, True, variable, offset, MBARRIER, word, depends, group, True, waits_for, constraints=len(state.constraints))
    )


def _async_access(operation: AsyncAccess, state: _State, variables: Mapping[str, Variable]) -> Iterator[_State]:
    access = operation.access
    elements = _elements(access)
    for placed, area in _placed(access.address, access.size * elements, state, variables, operation.line):
        for counted, mbarrier in _counted(operation.mbarrier, placed, variables, operation.line):
            group = counted.groups
            counted.groups += 1
            first = len(counted.steps)
            for after in list(_access(access, counted, area, elements)):
                after.steps[first:] = [attrs.evolve(one, group=group, is_async=True) for one in after.steps[first:]]
                if mbarrier is not None:
                    _signal(after, mbarrier, "complete_tx", access.size * elements, operation.line, group=group)
                yield after


def _copy(
    operation: AsyncCopy,
    state: _State,
    source: tuple[str, int, int],
    target: tuple[str, int, int],
    mbarrier: tuple[str, int, int] | None,
) -> None:
    number, known = len(state.steps), len(state.constraints)
    group = state.groups
    state.groups += 1
    depends = source[2] | target[2] | state.control
    size = operation.size
    read = Step(operation, True, False, source[0], source[1], size, 0, depends, group, True, constraints=known)
    write = Step(operation, False, True, target[0], target[1], size, Read(number), depends | 1 << number, group, True, constraints=known)
    state.steps += [read, write]
    if mbarrier is None:
        state.in_flight.append(InFlight((number, number + 1), operation.proxy))
    else:
        _signal(state, mbarrier, "complete_tx", size, operation.line, group=group)


def _barrier(operation: Barrier, state: _State) -> Iterator[_State]:
    if operation.cluster:
        state.steps.append(Step(operation, barrier="cluster", registers=dict(state.registers), constraints=len(state.constraints)))
        yield state
        return
    major, minor = operation.barrier if isinstance(operation.barrier, tuple) else (0, operation.barrier)
    for named, number in _fixed(state, _operand(state, minor), range(BARRIERS)):
        count = _operand(named, operation.threads) if operation.threads is not None else None
        if count is not None and not isinstance(count, int):
            raise CannotFollow("the number of threads of a barrier depends on what was read", operation.line)
        value = _operand(named, operation.value)
        snapshot = dict(named.registers)
        if operation.register is not None:
            named.registers[operation.register] = Read(len(named.steps))
        named.steps.append(
            Step(operation, value=value, barrier=(major, number), threads=count, registers=snapshot, constraints=len(named.constraints))
        )
        yield named
