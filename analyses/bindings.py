"""Which form of the instruction table each instruction of a function is of."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.routine import Routine, fact
from ptxkit.check import bounds
from ptxkit.isa.binding import Bound
from ptxkit.isa.mismatch import Mismatch
from ptxkit.isa.shapes import OperandShape
from ptxkit.syntax.nodes import Path


@fact
def bindings(routine: Routine) -> tuple[Bound | Mismatch, ...]:
    """For each instruction its form and what that says of its operands; a Mismatch where the table has none for it.

    Instructions with the same opcode and the same shapes of operands share one object.
    """
    found: list[Bound | Mismatch] = []
    forms = bounds(routine.names)
    taken: dict[Path, int] = {}
    for start, end, path in routine.runs:
        # a block has several runs where inner blocks part its instructions
        first = taken.get(path, 0)
        taken[path] = first + end - start
        found += forms.of(path)[first : taken[path]]
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
