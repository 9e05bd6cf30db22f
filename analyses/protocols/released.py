"""Matrices in shared memory that tensor cores are reading: what gives them away too early (9.7.16, 9.7.10.24.1).

An operation reads its matrices until its group was waited for. Until then their stage of a ring may not be released, nor may they be written.
A release belongs to the stage that the operation reads if both are picked by the same number in the same iteration.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import attrs

from ptxkit.analyses.accesses import accesses, place
from ptxkit.analyses.bits import bits
from ptxkit.analyses.cfg import control_flow
from ptxkit.analyses.dataflow import solve
from ptxkit.analyses.loops import loops
from ptxkit.analyses.protocols.effects import Reach, syncs
from ptxkit.analyses.protocols.found import Found
from ptxkit.analyses.protocols.held import Kind, State, Step, after, either
from ptxkit.analyses.protocols.proxies import described, descriptors
from ptxkit.analyses.protocols.regions import Region, regions
from ptxkit.analyses.protocols.team import team
from ptxkit.analyses.protocols.wgmma import wgmma
from ptxkit.analyses.routine import Routine
from ptxkit.analyses.ssa import ssa
from ptxkit.analyses.terms import Term
from ptxkit.analyses.values import values
from ptxkit.syntax.nodes import Address

LEAST_BYTES = 16


@attrs.frozen(eq=False)
class _Operand:
    """A matrix that an operation reads."""

    stage: frozenset[Term]
    """What picks its stage: the parts of its address that change."""
    region: Region | None


def released_too_early(routine: Routine) -> Iterator[Found]:
    """Arrivals at mbarriers, and writes, by which a stage is given away that a wgmma of the same iteration may still read."""
    of = wgmma(routine)
    if of is None:
        return
    flow = control_flow(routine)
    operands: dict[int, list[_Operand]] = {}
    for i, term in descriptors(routine):
        operand = _operand(routine, term)
        if operand is not None:
            operands.setdefault(i, []).append(operand)
    numbers = {i: place_ for place_, i in enumerate(operands)}
    ends = {i: stage for i, stage in _arrivals(routine)}
    writes = dict(_writes(routine))
    if not operands or not (ends or writes):
        return
    steps: dict[int, list[Step]] = {}
    for block, own in enumerate(of.steps):
        for step in own:
            if step.kind is Kind.OPEN and step.instruction in numbers:
                steps.setdefault(block, []).append(attrs.evolve(step, results=1 << numbers[step.instruction], sources=0))
            elif step.kind is Kind.EFFECT:
                steps.setdefault(block, []).append(step)
    for i in {*ends, *writes}:
        if i not in numbers:
            steps.setdefault(flow.block_of[i], []).append(Step(i, Kind.TOUCH))
    for own in steps.values():
        own.sort(key=lambda step: step.instruction)
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
    for block, own in sorted(steps.items()):
        state = before[block]
        if state is None:
            continue
        state = _without(state, fresh.get(block, 0))
        for step in own:
            held = 0
            for group, _ in state:
                held |= group
            if step.kind is Kind.TOUCH and held:
                yield from _given_away(routine, step.instruction, [order[place_] for place_ in bits(held)], operands, ends, writes)
            state = after(step, state, count)


def _given_away(
    routine: Routine,
    i: int,
    openers: list[int],
    operands: dict[int, list[_Operand]],
    ends: dict[int, frozenset[Term]],
    writes: dict[int, Region],
) -> Iterator[Found]:
    for opener in openers:
        for operand in operands[opener]:
            if i in ends and operand.stage and operand.stage == ends[i]:
                message = "this gives a stage away that a wgmma may still read: no wait for its group lies between"
                yield Found(i, message, [(opener, "started here, with operands of the same stage")])
                return
            if i in writes and operand.region is not None and regions(routine).meet(operand.region, writes[i]) is not None:
                yield Found(i, "this writes what a wgmma may still read: no wait for its group lies between", [(opener, "started here")])
                return


def _operand(routine: Routine, term: Term) -> _Operand | None:
    address = described(values(routine), term)
    if address is None:
        return None
    return _Operand(_stage(routine, address), regions(routine).region(address, LEAST_BYTES, team(routine).everyone))


def _stage(routine: Routine, address: Term) -> frozenset[Term]:
    """The parts of an address that go by a loop."""
    where = place(values(routine), address)
    found = set()
    for atom, _ in where.offset.linear[1]:
        inner = atom.args[0] if atom.operator in ("zext", "trunc", "sext") else atom
        if any(leaf.operator == "phi" for leaf in inner.leaves()):
            found.add(inner)
    return frozenset(found)


def _arrivals(routine: Routine) -> Iterator[tuple[int, frozenset[Term]]]:
    """The arrivals at mbarriers that are picked by a number that changes in a loop, with that number."""
    flow = control_flow(routine)
    for i, sync in syncs(routine).items():
        if not sync.arrives or sync.reach is not Reach.OBJECT or flow.block_of[i] not in flow.reachable:
            continue
        node = next((node for node in routine.instructions[i].operands if isinstance(node, Address)), None)
        address = values(routine).operand(i, node) if node is not None else None
        stage = _stage(routine, address) if address is not None else frozenset()
        if stage:
            yield i, stage


def _writes(routine: Routine) -> Iterator[tuple[int, Region]]:
    for access in accesses(routine):
        if access.writes and access.space in ("", ".shared") and access.address is not None:
            region = regions(routine).region(access.address, access.bytes or LEAST_BYTES, team(routine).everyone)
            if region is not None:
                yield access.instruction, region


def _renewed(routine: Routine, operands: dict[int, list[_Operand]], numbers: dict[int, int]) -> dict[int, int]:
    """By block where the number that picks the stage of operations is a new one, these operations."""
    numbering = ssa(routine)
    headers = loops(routine).headers
    found: dict[int, int] = {}
    for i, own in operands.items():
        blocks = {
            numbering.values[leaf.data[0]].block  # type: ignore[call-overload]
            for operand in own
            for atom in operand.stage
            for leaf in atom.leaves()
            if leaf.operator == "phi"
        }
        # without a number that changes, what is in flight is of any iteration: then every loop begins anew
        for block in blocks or headers:
            found[block] = found.get(block, 0) | 1 << numbers[i]
    return found


def _without(state: State, gone: int) -> State:
    return tuple([(group & ~gone, passed & ~gone) for group, passed in state]) if gone else state
