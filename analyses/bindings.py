"""Which form of the instruction table each instruction of a function is of."""

from __future__ import annotations

from ptxkit.analyses.routine import Routine, fact
from ptxkit.isa.binding import Bound
from ptxkit.isa.mismatch import Mismatch
from ptxkit.operands import Shaper
from ptxkit.syntax.nodes import Path


@fact
def bindings(routine: Routine) -> tuple[Bound | Mismatch, ...]:
    """For each instruction its form and what that says of its operands; a Mismatch where the table has none for it.

    Instructions with the same opcode and the same shapes of operands share one object.
    """
    binder = routine.binder
    shapers: dict[Path, Shaper] = {}
    found: list[Bound | Mismatch] = []
    by_shape: dict[tuple[object, ...], Bound | Mismatch] = {}
    for start, end, scope in routine.runs:
        shaper = _shaper(routine, scope, shapers)
        look_up = shaper.known.__getitem__
        for instruction in routine.instructions[start:end]:
            key = tuple(map(look_up, map(id, instruction.children)))
            bound = by_shape.get(key)
            if bound is None:
                bound = by_shape[key] = binder.verdict(instruction, shaper).bound
            found.append(bound)
    return tuple(found)


def _shaper(routine: Routine, scope: Path, shapers: dict[Path, Shaper]) -> Shaper:
    """The shaper of a scope, after those of the scopes around it."""
    known = len(scope)
    while known > 1 and scope[:known] not in shapers:
        known -= 1
    shaper = shapers.get(scope[:known])
    for length in range(known + 1, len(scope) + 1):
        shaper = shapers[scope[:length]] = routine.binder.shaper(scope[:length], shaper)
    assert shaper is not None
    return shaper
