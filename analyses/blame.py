"""Why threads part at a branch: the chain from where they begin to differ.

Each link is the one input of the next on which threads agree least; of a phi that is where its values come from, or the branch whose ways
meet there. It ends at an instruction that makes threads differ by itself: one that reads the place of the thread, or loads, or is atomic.
"""

from __future__ import annotations

from ptxkit.analyses.bindings import bindings
from ptxkit.analyses.levels import Level, Step
from ptxkit.analyses.propagation import Propagation
from ptxkit.analyses.registers import registers
from ptxkit.analyses.ssa import Origin, ssa
from ptxkit.analyses.transfer import How, transfer
from ptxkit.isa.binding import Bound
from ptxkit.isa.registers import special_register
from ptxkit.isa.shapes import OperandShape

MOST = 64
"""Links that are followed at most."""


def blame(solved: Propagation, block: int) -> tuple[Step, ...]:
    """The chain to the branch at the end of a block, the source first; empty if all threads of the grid agree on it."""
    level = solved.branches[block]
    if level >= Level.GRID:
        return ()
    i = solved.flow.blocks[block].end - 1
    found = [Step(i, "", level, "the branch")]
    seen: set[int] = set()
    number = _least(solved, ssa(solved.routine).uses[i], block, seen)
    while number >= 0 and len(found) < MOST:
        seen.add(number)
        number = _link(solved, number, found, seen)
    return tuple(reversed(found))


def _least(solved: Propagation, numbers: tuple[int, ...], block: int, seen: set[int]) -> int:
    """The value on which threads agree least of those that a block reads; -1 if there is none left."""
    left = [number for number in numbers if number >= 0 and number not in seen]
    return min(left, key=lambda number: solved.used(number, block), default=-1)


def _link(solved: Propagation, number: int, found: list[Step], seen: set[int]) -> int:
    """Adds the link of a value, and gives the value that it comes from; -1 at the source."""
    routine = solved.routine
    value, level = ssa(routine).values[number], solved.levels[number]
    name = registers(routine).table[value.register].name
    if value.origin is Origin.ENTRY:
        found.append(Step(-1, name, level, f"`{name}` on entry"))
        return -1
    if value.origin is Origin.PHI:
        return _joined(solved, number, name, found, seen)
    i = value.instruction
    bound = bindings(routine)[i]
    how = transfer(bound).of(number - ssa(routine).definitions[i][0])[0] if isinstance(bound, Bound) else How.NEVER
    source = _source(bound) if isinstance(bound, Bound) else ""
    if how in (How.NEVER, How.ONE):
        found.append(Step(i, name, level, _WHY.get(bound.uniform("") if isinstance(bound, Bound) else "", "each thread has its own")))
        return -1
    if source:
        found.append(Step(i, name, level, f"reads `{source}`"))
        return -1
    inputs = ssa(routine).uses[i] + value.operands
    following = _least(solved, inputs, value.block, seen)
    if following < 0 or solved.used(following, value.block) > level:
        found.append(Step(i, name, level, "loads from memory" if how is How.MEMORY else "is not known to agree"))
        return -1
    read = registers(routine).table[ssa(routine).values[following].register].name
    found.append(Step(i, name, level, f"from `{read}`"))
    return following


_WHY = {"never": "differs from thread to thread by what it does"}


def _joined(solved: Propagation, number: int, name: str, found: list[Step], seen: set[int]) -> int:
    value, level = ssa(solved.routine).values[number], solved.levels[number]
    arriving = [(solved.used(operand, value.block), operand) for operand in value.operands if operand >= 0 and operand not in seen]
    first = solved.flow.blocks[value.block].start
    if arriving and min(arriving)[0] <= level:
        _, operand = min(arriving)
        if solved.levels[operand] > level:
            found.append(Step(first, name, level, f"`{name}` comes out of a loop that threads leave in different iterations"))
            return _decider_of_loop(solved, operand, level, found, seen)
        found.append(Step(first, name, level, f"`{name}` comes here on several ways"))
        return operand
    block = solved.deciders.get(value.block)
    if block is not None:
        found.append(Step(first, name, level, f"`{name}` depends on the way that a thread took"))
        i = solved.flow.blocks[block].end - 1
        found.append(Step(i, "", level, "where threads part"))
        return _least(solved, ssa(solved.routine).uses[i], block, seen)
    found.append(Step(first, name, level, f"`{name}` is not known to agree"))
    return -1


def _decider_of_loop(solved: Propagation, operand: int, level: Level, found: list[Step], seen: set[int]) -> int:
    """The condition of the branch by which threads leave the loop of a value in different iterations."""
    loop = solved.forest.innermost[ssa(solved.routine).values[operand].block]
    while loop is not None:
        block = solved.leavers.get(loop)
        if block is not None and solved.exits[loop] <= level:
            i = solved.flow.blocks[block].end - 1
            found.append(Step(i, "", solved.branches[block], "where threads leave the loop"))
            return _least(solved, ssa(solved.routine).uses[i], block, seen)
        loop = solved.forest.loops[loop].parent
    return -1


def _source(bound: Bound) -> str:
    """The special register that an instruction reads, if threads do not all agree on it."""
    for operand in bound.operands:
        name = _special(operand.shape)
        register = special_register(name) if name else None
        if register is not None and register.uniform != "grid":
            return name
    return ""


def _special(shape: OperandShape) -> str:
    return shape.type if shape.kind == "special" else next(filter(None, map(_special, shape.parts)), "")
