"""The instruction-table form of each instruction of a function."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from operator import itemgetter

from ptxkit.analyses.framework.routine import Routine, fact
from ptxkit.checking import bounds
from ptxkit.isa.binding import Bound
from ptxkit.isa.mismatch import Mismatch
from ptxkit.isa.shapes import OperandShape
from ptxkit.syntax import Path


@fact
def bindings(routine: Routine) -> tuple[Bound | Mismatch, ...]:
    """For each instruction, its form and what the form says about the operands; a Mismatch if the table has no form for it.

    Instructions with the same opcode and operand shapes share one object.
    """
    found: list[Bound | Mismatch] = []
    forms = bounds(routine.names)
    taken: dict[Path, int] = {}
    for start, end, path in routine.runs:
        # a block has several runs if inner blocks separate its instructions
        first = taken.get(path, 0)
        taken[path] = first + end - start
        found += forms.of(path)[first : taken[path]]
    return tuple(found)


@fact
def by_form(routine: Routine) -> dict[Bound, tuple[int, ...]]:
    """The instructions of each form and operand shapes, ascending; instructions without a form are left out."""
    found: dict[Bound | Mismatch, list[int]] = {}
    for i, bound in enumerate(bindings(routine)):
        own = found.get(bound)
        if own is None:
            found[bound] = [i]
        else:
            own.append(i)
    return {bound: tuple(own) for bound, own in found.items() if isinstance(bound, Bound)}


def matching(routine: Routine, holds: Callable[[Bound], object]) -> list[tuple[int, Bound]]:
    """The instructions whose form satisfies a predicate, in text order, with the form. The predicate is evaluated once for each form."""
    return sorted([(i, bound) for bound, own in by_form(routine).items() if holds(bound) for i in own], key=itemgetter(0))


def has_matching(routine: Routine, holds: Callable[[Bound], object]) -> bool:
    """Whether the form of an instruction satisfies a predicate."""
    return any(map(holds, by_form(routine)))


@fact
def specials(routine: Routine) -> frozenset[str]:
    """The special registers that the function reads."""
    return frozenset([name for bound in by_form(routine) for name in specials_of(bound)])


def specials_of(bound: Bound) -> tuple[str, ...]:
    """The special registers that an instruction reads."""
    return tuple([name for operand in bound.operands for name in _specials(operand.shape)])


def _specials(shape: OperandShape) -> Iterator[str]:
    if shape.kind == "special":
        yield shape.type
    for part in shape.parts:
        yield from _specials(part)
