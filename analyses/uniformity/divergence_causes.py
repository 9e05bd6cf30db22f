"""Why threads diverge at a branch: the chain from the source of divergence.

Each link is an input of the next with a level no higher; for a phi, an input is one of its operands, or the condition of a branch whose
paths merge there. The chain begins at an instruction that is a source of divergence by itself: it reads the thread index, loads, or is
atomic. The chain is a shortest one.
"""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.cfg.reachability import nearest_first
from ptxkit.analyses.framework.bindings import bindings
from ptxkit.analyses.registers.registers import registers
from ptxkit.analyses.registers.ssa import Origin, ssa
from ptxkit.analyses.uniformity.levels import Level, Step
from ptxkit.analyses.uniformity.propagation import Propagation
from ptxkit.analyses.uniformity.transfer import How, transfer
from ptxkit.isa.binding import Bound
from ptxkit.isa.registers import special_register
from ptxkit.isa.shapes import OperandShape

MOST = 4000
"""Maximum number of values that are searched for the source of divergence."""

Links = tuple[Step, ...]
"""From a value to one that it depends on; the value's own step first."""


def blame(solved: Propagation, block: int) -> tuple[Step, ...]:
    """The chain to the branch at the end of a block, source first; empty if the branch is uniform across the grid."""
    level = solved.branches[block]
    if level >= Level.GRID:
        return ()
    i = solved.flow.blocks[block].end - 1
    last = Step(i, "", level, "the branch")
    came: dict[int, tuple[int, Links]] = {}
    for decides in _deciding(solved, block, level):
        for number, links in _read(solved, decides, level, (last,)):
            came.setdefault(number, (-1, links))
    starts = list(came)

    def causes(number: int) -> Iterator[int]:
        for following, links in _causes(solved, number):
            came.setdefault(following, (number, links))
            yield following

    for number in nearest_first(starts, causes):
        if len(came) >= MOST:
            break
        source = _begins(solved, number)
        if source is not None:
            return source, *_chain(came, number)
    return (_step(solved, starts[0], "is not known to be uniform"), last) if starts else (last,)


def _chain(came: dict[int, tuple[int, Links]], number: int) -> list[Step]:
    """The links from a value to the branch."""
    found: list[Step] = []
    while number >= 0:
        number, links = came[number]
        found += reversed(links)
    return found


def _deciding(solved: Propagation, block: int, level: Level) -> list[int]:
    """The values that decide the branch at the end of a block and have at most this level; otherwise the one with the lowest level."""
    uses = [number for number in ssa(solved.routine).uses[solved.flow.blocks[block].end - 1] if number >= 0]
    least = min([solved.used(number, block) for number in uses], default=level)
    return [number for number in uses if solved.used(number, block) <= max(level, least)]


def _step(solved: Propagation, number: int, why: str) -> Step:
    """The link of a value."""
    value = ssa(solved.routine).values[number]
    i = value.instruction if value.origin is Origin.WRITE else -1
    if value.origin is Origin.PHI:
        i = solved.flow.blocks[value.block].start
    return Step(i, _name(solved, number), solved.level(number), why)


def _name(solved: Propagation, number: int) -> str:
    return registers(solved.routine).table[ssa(solved.routine).values[number].register].name


def _begins(solved: Propagation, number: int) -> Step | None:
    """The link of a value that is a source of divergence; None if it depends on others."""
    value, level = ssa(solved.routine).values[number], solved.level(number)
    if value.origin is Origin.ENTRY:
        return _step(solved, number, f"`{_name(solved, number)}` on entry")
    if value.origin is Origin.PHI:
        return None
    i = value.instruction
    bound = bindings(solved.routine)[i]
    how = transfer(bound).of(number - ssa(solved.routine).definitions[i][0])[0] if isinstance(bound, Bound) else How.NEVER
    if how in (How.NEVER, How.ONE):
        return _step(solved, number, _WHY.get(bound.uniform("") if isinstance(bound, Bound) else "", "each thread has its own"))
    source = _source(bound) if isinstance(bound, Bound) else ""
    if source:
        return _step(solved, number, f"reads `{source}`")
    if any(use >= 0 and solved.used(use, value.block) <= level for use in ssa(solved.routine).uses[i] + value.operands):
        return None
    return _step(solved, number, "loads from memory" if how is How.MEMORY else "is not known to be uniform")


def _causes(solved: Propagation, number: int) -> list[tuple[int, Links]]:
    """The values that a value depends on with a level no higher, each with the links between."""
    value, level = ssa(solved.routine).values[number], solved.level(number)
    if value.origin is not Origin.PHI:
        inputs = ssa(solved.routine).uses[value.instruction] + value.operands
        found = [use for use in dict.fromkeys(inputs) if use >= 0 and solved.used(use, value.block) <= level]
        return [one for use in found for one in _read(solved, use, level, (_step(solved, number, f"from `{_name(solved, use)}`"),))]
    name = _name(solved, number)
    causes: list[tuple[int, Links]] = []
    for operand in dict.fromkeys(value.operands):
        if operand < 0 or solved.used(operand, value.block) > level:
            continue
        if solved.level(operand) <= level:
            causes.append((operand, (_step(solved, number, f"`{name}` comes here on several paths"),)))
            continue
        left = _where_left(solved, operand, level)
        if left is not None:
            out = _step(solved, number, f"`{name}` comes out of a loop that threads leave in different iterations")
            causes += _decided(solved, left, level, out, "where threads leave the loop")
    block = solved.deciders.get(value.block)
    if block is not None and solved.branches[block] <= level:
        path = _step(solved, number, f"`{name}` depends on the path that a thread took")
        causes += _decided(solved, block, level, path, "where threads part")
    return causes


def _read(solved: Propagation, number: int, level: Level, links: Links) -> list[tuple[int, Links]]:
    """A value that is read, with the links to its reader; if it is more uniform within its loop, the condition of the loop's exit
    instead."""
    left = _where_left(solved, number, level) if solved.level(number) > level else None
    if left is None:
        return [(number, links)]
    out = _step(solved, number, f"`{_name(solved, number)}` comes out of a loop that threads leave in different iterations")
    return [(cause, (*links, *rest)) for cause, rest in _decided(solved, left, level, out, "where threads leave the loop")]


def _decided(solved: Propagation, block: int, level: Level, link: Step, what: str) -> list[tuple[int, Links]]:
    """The values that decide the branch at the end of a block, each with the links from a value that depends on it."""
    branch = Step(solved.flow.blocks[block].end - 1, "", solved.branches[block], what)
    return [(number, (link, branch)) for number in _deciding(solved, block, level)]


def _where_left(solved: Propagation, operand: int, level: Level) -> int | None:
    """The block at whose end threads leave a value's loop in different iterations."""
    loop = solved.forest.innermost[ssa(solved.routine).values[operand].block]
    while loop is not None:
        block = solved.leavers.get(loop)
        if block is not None and solved.exits[loop] <= level:
            return block
        loop = solved.forest.loops[loop].parent
    return None


_WHY = {"never": "its result may differ from thread to thread"}


def _source(bound: Bound) -> str:
    """The non-uniform special register that an instruction reads, if any."""
    for operand in bound.operands:
        name = _special(operand.shape)
        register = special_register(name) if name else None
        if register is not None and register.uniform != "grid":
            return name
    return ""


def _special(shape: OperandShape) -> str:
    return shape.type if shape.kind == "special" else next(filter(None, map(_special, shape.parts)), "")
