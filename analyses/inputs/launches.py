"""Launches for a kernel that comes without one. The README describes how they are chosen."""

from __future__ import annotations

from ptxkit.analyses.framework.routine import Routine, fact
from ptxkit.analyses.inputs.arguments import FEW, MANY, Sizes, made
from ptxkit.analyses.inputs.cost import most_operations
from ptxkit.analyses.inputs.example import Example
from ptxkit.analyses.inputs.fitting import fits
from ptxkit.analyses.inputs.parameters import Role, parameters
from ptxkit.analyses.inputs.shapes import Shape


def example(routine: Routine, shape: Shape, sizes: Sizes = Sizes()) -> Example:  # noqa: B008 (it never changes)
    """The launch with this shape and scalars of these sizes. Tensor maps have boxes that match what mbarriers expect."""
    known = _examples(routine)
    found = known.get((shape, sizes))
    if found is None:
        fitting = fits(routine)
        found = known[shape, sizes] = made(routine, shape, sizes, fitting.others if sizes.differ else fitting.boxes)
    return found


@fact
def _examples(routine: Routine) -> dict[tuple[Shape, Sizes], Example]:
    """Cache of the launches created so far: reproducing a finding asks for the same ones again."""
    return {}


def divides(routine: Routine) -> bool:
    """Whether a kernel divides by a scalar argument."""
    return any(slot.is_divisor for one in parameters(routine) for slot in one.slots)


def is_compared(routine: Routine) -> bool:
    """Whether a kernel compares a scalar argument with something that differs between threads."""
    return any(slot.role is Role.NUMBER and slot.is_compared for one in parameters(routine) for slot in one.slots)


__all__ = ["FEW", "MANY", "Sizes", "divides", "example", "is_compared", "most_operations"]
