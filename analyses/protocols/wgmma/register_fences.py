"""The register protocol of wgmma: fences before the warpgroup's registers are used, and waits before they are accessed (9.7.16.7)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import attrs

from ptxkit.analyses.cfg.dataflow import solve
from ptxkit.analyses.cfg.graph import control_flow
from ptxkit.analyses.events.effects import Action
from ptxkit.analyses.events.registers_in_flight import Kind, Program, RegisterAccess, Step, accesses_in_flight, program, steps_back
from ptxkit.analyses.framework.routine import Routine, fact
from ptxkit.analyses.numbers.bits import bits
from ptxkit.frozen import frozen

QUEUE = "wgmma"
FENCE = "wgmma-fence"


@frozen
class Unfenced:
    """An operation whose registers were accessed since the last fence, or that may be reached without any fence."""

    instruction: int
    register: int
    """A register that was accessed; -1 if a path from entry has no fence."""
    access: int
    """The access; -1 if there is none."""
    is_first: bool
    """Whether the operation may be the first of its batch: no fence since the last commit."""
    by_operation: bool = False
    """Whether the access is by another wgmma, of another shape or in another role."""


@frozen
class _State:
    unfenced: bool
    """Whether there may be no fence since entry."""
    spent: bool
    """Whether there may be no fence since the last commit."""
    written: int
    shapes: tuple[tuple[str, int], ...]
    """Registers that hold results of operations since the last fence, by shape."""


@fact
def wgmma(routine: Routine) -> Program | None:
    """The steps that matter to wgmma in a function; None if it starts no such operation."""
    return program(routine, QUEUE, FENCE)


@fact
def accessed_in_flight(routine: Routine) -> tuple[RegisterAccess, ...]:
    """The registers of wgmma operations that are accessed before the operation has certainly completed, in document order."""
    of = wgmma(routine)
    return tuple(accesses_in_flight(of)) if of is not None else ()


@fact
def unfenced(routine: Routine) -> tuple[Unfenced, ...]:
    """The operations that lack a fence before them, in document order.

    Moves of constants into registers do not count: compilers schedule them freely, and assemblers handle them.
    """
    of = wgmma(routine)
    return tuple(_unfenced(of)) if of is not None else ()


def _unfenced(of: Program) -> Iterator[Unfenced]:
    flow = control_flow(of.routine)

    def through(block: int, state: _State | None) -> _State | None:
        for step in of.steps[block] if state is not None else ():
            state = _after(step, state)  # type: ignore[arg-type]
        return state

    start = _State(True, False, 0, ())
    solution = solve(flow, through, _either, lambda block: start if block == 0 else None, None)
    for block, steps in enumerate(of.steps):
        state = solution.before[block]
        for step in steps if state is not None else ():
            assert state is not None
            if step.kind is Kind.OPEN:
                if state.unfenced:
                    yield Unfenced(step.instruction, -1, -1, True)
                else:
                    wrong = (step.results | step.sources) & state.written
                    for shape, mask in state.shapes:
                        wrong |= mask & (step.sources if shape == step.shape else step.results | step.sources)
                    if wrong:
                        position = next(bits(wrong))
                        by_operation = not state.written >> position & 1
                        yield Unfenced(
                            step.instruction, of.registers[position], _writer(of, block, step, position), state.spent, by_operation
                        )
            state = _after(step, state)


def _after(step: Step, state: _State) -> _State:
    if step.kind is Kind.FENCE:
        return _State(False, False, 0, ())
    if step.kind is Kind.OPEN:
        shapes = dict(state.shapes)
        shapes[step.shape] = shapes.get(step.shape, 0) | step.results
        return attrs.evolve(state, unfenced=False, written=state.written & ~step.results, shapes=tuple(sorted(shapes.items())))
    if step.kind is Kind.COPY:
        shapes_ = tuple([(shape, _copied(step, mask)) for shape, mask in state.shapes])
        return attrs.evolve(state, written=_copied(step, state.written), shapes=shapes_)
    if step.kind is Kind.CONSTANT:
        kept = tuple([(shape, mask & ~step.writes) for shape, mask in state.shapes])
        return attrs.evolve(state, written=state.written & ~step.writes, shapes=kept)
    if step.kind is Kind.ACCESS:
        return attrs.evolve(state, written=state.written | step.writes) if step.writes else state
    if step.effect is not None and step.effect.action is Action.COMMIT:
        return attrs.evolve(state, spent=True)
    return state


def _copied(step: Step, mask: int) -> int:
    return mask | step.writes if mask & step.reads else mask & ~step.writes


def _either(states: Iterable[_State | None]) -> _State | None:
    found: _State | None = None
    for state in states:
        if state is None or state == found:
            continue
        if found is None:
            found = state
            continue
        shapes = dict(found.shapes)
        for shape, mask in state.shapes:
            shapes[shape] = shapes.get(shape, 0) | mask
        found = _State(
            found.unfenced or state.unfenced,
            found.spent or state.spent,
            found.written | state.written,
            tuple(sorted(shapes.items())),
        )
    return found


def _writer(of: Program, block: int, step: Step, position: int) -> int:
    """The nearest instruction before an operation that accessed a register since a fence."""
    for earlier, wanted in steps_back(of, block, step, position, Kind.FENCE):
        is_copy = earlier.kind is Kind.COPY and earlier.writes >> wanted & 1 and earlier.reads
        if not is_copy and (earlier.writes | earlier.results) >> wanted & 1:
            return earlier.instruction
    return step.instruction
