"""Shared-memory matrices that are released while tensor cores may still read them (9.7.16, 9.7.10.24.1).

An operation reads its matrices until its group has been waited for. Until then they must not be written, and their stage of a ring must not
be released. A release belongs to the stage that the operation reads if the same index selects both in the same iteration.
"""

from __future__ import annotations

from collections.abc import Iterator

import attrs

from ptxkit.analyses.cfg.dataflow import solve
from ptxkit.analyses.cfg.graph import control_flow
from ptxkit.analyses.cfg.loops import loops
from ptxkit.analyses.events.descriptors import described, descriptors
from ptxkit.analyses.events.effects import Reach, syncs
from ptxkit.analyses.events.registers_in_flight import Kind, Program, State, Step, after, either
from ptxkit.analyses.events.steps import LEAST_BYTES
from ptxkit.analyses.framework.finding import Finding
from ptxkit.analyses.framework.routine import Routine
from ptxkit.analyses.memory.accesses import accesses
from ptxkit.analyses.memory.regions import Region, regions
from ptxkit.analyses.numbers.bits import bits
from ptxkit.analyses.protocols.wgmma.operands_in_flight import released
from ptxkit.analyses.protocols.wgmma.register_fences import wgmma
from ptxkit.analyses.registers.ssa import ssa
from ptxkit.analyses.symbolic.terms import Term
from ptxkit.analyses.symbolic.thread_block import thread_block_of
from ptxkit.analyses.symbolic.values import values
from ptxkit.frozen import frozen
from ptxkit.syntax import Address


@frozen(eq=False)
class _Operand:
    """A matrix that an operation reads."""

    stage: frozenset[Term]
    """The loop-carried values that its address depends on, which select its stage."""
    region: Region | None


def released_too_early(routine: Routine) -> Iterator[Finding]:
    """Arrivals at mbarriers, and writes, that release a stage that a wgmma of the same iteration may still read."""
    of = wgmma(routine)
    if of is None:
        return
    operands: dict[int, list[_Operand]] = {}
    for i, term in descriptors(routine):
        operand = _operand(routine, term)
        if operand is not None:
            operands.setdefault(i, []).append(operand)
    ends = _releases(routine, operands)
    writes = dict(_writes(routine))
    if not operands:
        return
    signalled = set()
    for found in _in_one_iteration(routine, of, operands, ends, writes):
        signalled.add(found.instruction)
        yield found
    if not signalled:
        yield from released(routine)


def _in_one_iteration(
    routine: Routine, of: Program, operands: dict[int, list[_Operand]], ends: dict[int, frozenset[Term]], writes: dict[int, Region]
) -> Iterator[Finding]:
    """Stages that are released in the iteration that reads them, at any position of the ring: found on all paths."""
    flow = control_flow(routine)
    numbers = {i: position for position, i in enumerate(operands)}
    steps: dict[int, list[Step]] = {}
    for block, own in enumerate(of.steps):
        for step in own:
            if step.kind is Kind.OPEN and step.instruction in numbers:
                steps.setdefault(block, []).append(attrs.evolve(step, results=1 << numbers[step.instruction], sources=0))
            elif step.kind is Kind.EFFECT:
                steps.setdefault(block, []).append(step)
    for i in {*ends, *writes}:
        if i not in numbers:
            steps.setdefault(flow.block_of[i], []).append(Step(i, Kind.ACCESS))
    for unsorted in steps.values():
        unsorted.sort(key=lambda step: step.instruction)
    fresh = _renewed(routine, operands, numbers)
    count = len(numbers)

    def through(block: int, state: State | None) -> State | None:
        if state is None:
            return None
        state = _without(state, fresh.get(block, 0))
        for step in steps.get(block, ()):
            state = after(step, state, count)
        return state

    before = solve(flow, through, either, lambda block: ((0, 0),) if block == 0 else None, None).before
    order = list(numbers)
    for block, mine in sorted(steps.items()):
        state = before[block]
        if state is None:
            continue
        state = _without(state, fresh.get(block, 0))
        for step in mine:
            held = 0
            for group, _ in state:
                held |= group
            if step.kind is Kind.ACCESS and held:
                yield from _released(routine, step.instruction, [order[position] for position in bits(held)], operands, ends, writes)
            state = after(step, state, count)


def _released(
    routine: Routine,
    i: int,
    openers: list[int],
    operands: dict[int, list[_Operand]],
    ends: dict[int, frozenset[Term]],
    writes: dict[int, Region],
) -> Iterator[Finding]:
    for opener in openers:
        for operand in operands[opener]:
            if i in ends and operand.stage and operand.stage == ends[i]:
                message = "this releases a stage that a wgmma may still read, with no wait for its group in between"
                yield Finding(i, message, [(opener, "started here, with operands of the same stage")])
                return
            if i in writes and operand.region is not None and regions(routine).overlap(operand.region, writes[i]) is not None:
                yield Finding(
                    i, "this writes what a wgmma may still read, with no wait for its group in between", [(opener, "started here")]
                )
                return


def _operand(routine: Routine, term: Term) -> _Operand | None:
    address = described(values(routine), term)
    region = regions(routine).region(address, LEAST_BYTES, thread_block_of(routine).everyone) if address is not None else None
    stage = _stage(term)
    return _Operand(stage, region) if stage or region is not None else None


def _stage(term: Term) -> frozenset[Term]:
    """The loop-carried values in an address."""
    return frozenset([leaf for leaf in term.leaves() if leaf.operator == "phi"])


def _releases(routine: Routine, operands: dict[int, list[_Operand]]) -> dict[int, frozenset[Term]]:
    """The mbarrier arrivals in the loops of the operations whose index changes there, each with that index.

    Empty if they use several arrays of mbarriers: then it is unknown which one guards which matrices.
    """
    flow, known, forest = control_flow(routine), values(routine), loops(routine)
    inner = {forest.innermost[flow.block_of[i]] for i, own in operands.items() if any(operand.stage for operand in own)}
    found: dict[int, frozenset[Term]] = {}
    arrays: set[Term] = set()
    for i, sync in syncs(routine).items():
        block = flow.block_of[i]
        if not sync.arrives or sync.reach is not Reach.MBARRIER or block not in flow.reachable:
            continue
        if not any(index is not None and block in forest.loops[index] for index in inner):
            continue
        node = next((node for node in routine.instructions[i].operands if isinstance(node, Address)), None)
        address = known.operand(i, node) if node is not None else None
        stage = _stage(address) if address is not None else frozenset()
        if stage and address is not None:
            found[i] = stage
            array = known.terms.constant(address.linear[0], address.width)
            for atom, factor in address.linear[1]:
                if not any(leaf.operator == "phi" for leaf in atom.leaves()):
                    array = known.terms.add(array, known.terms.scale(atom, factor))
            arrays.add(array)
    return found if len(arrays) == 1 else {}


def _writes(routine: Routine) -> Iterator[tuple[int, Region]]:
    for access in accesses(routine):
        if access.writes and access.space in ("", ".shared") and access.address is not None:
            region = regions(routine).region(access.address, access.bytes or LEAST_BYTES, thread_block_of(routine).everyone)
            if region is not None:
                yield access.instruction, region


def _renewed(routine: Routine, operands: dict[int, list[_Operand]], numbers: dict[int, int]) -> dict[int, int]:
    """For each block that defines a new value of the index that selects the stage of some operations, those operations."""
    numbering = ssa(routine)
    headers = loops(routine).headers
    found: dict[int, int] = {}
    for i, own in operands.items():
        blocks = {numbering.values[number].block for operand in own for leaf in operand.stage if (number := leaf.ssa_value) is not None}
        # without a changing index, an operation in flight may be of any iteration: then every loop header starts anew
        for block in blocks or headers:
            found[block] = found.get(block, 0) | 1 << numbers[i]
    return found


def _without(state: State, gone: int) -> State:
    return tuple([(group & ~gone, passed & ~gone) for group, passed in state]) if gone else state
