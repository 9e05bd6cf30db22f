"""Which form of the instruction table each instruction of a function is of."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.routine import Routine, fact
from ptxkit.isa.binding import Bound
from ptxkit.isa.mismatch import Mismatch
from ptxkit.isa.shapes import OperandShape


@fact
def bindings(routine: Routine) -> tuple[Bound | Mismatch, ...]:
    """For each instruction its form and what that says of its operands; a Mismatch where the table has none for it.

    Instructions with the same opcode and the same shapes of operands share one object.
    """
    binder = routine.binder
    found: list[Bound | Mismatch] = []
    by_shape = binder.bounds
    for start, end, scope in routine.runs:
        shaper = binder.names.shaper(binder.names.scopes[scope])
        look_up = shaper.known.__getitem__
        for instruction in routine.instructions[start:end]:
            key = tuple(map(look_up, map(id, instruction.children)))
            bound = by_shape.get(key)
            if bound is None:
                bound = by_shape[key] = binder.verdict(instruction, shaper).bound
            found.append(bound)
    return tuple(found)


@fact
def specials(routine: Routine) -> frozenset[str]:
    """The special registers that instructions of the function read."""
    bounds = [bound for bound in set(bindings(routine)) if isinstance(bound, Bound)]
    return frozenset([name for bound in bounds for operand in bound.operands for name in _specials(operand.shape)])


def _specials(shape: OperandShape) -> Iterator[str]:
    if shape.kind == "special":
        yield shape.type
    for part in shape.parts:
        yield from _specials(part)
