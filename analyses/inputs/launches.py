"""Launches for a kernel that comes without one (the README says how they are chosen)."""

from __future__ import annotations

from ptxkit.analyses.framework.routine import Routine
from ptxkit.analyses.inputs.arguments import FEW, MANY, Sizes, made
from ptxkit.analyses.inputs.cost import most_operations
from ptxkit.analyses.inputs.example import Example
from ptxkit.analyses.inputs.fitting import fits
from ptxkit.analyses.inputs.parameters import Role, parameters
from ptxkit.analyses.inputs.shapes import Shape


def example(routine: Routine, shape: Shape, sizes: Sizes = Sizes()) -> Example:  # noqa: B008 (it never changes)
    """The launch of a shape with numbers of these sizes; tensor maps have boxes that fit what mbarriers expect."""
    return made(routine, shape, sizes, fits(routine).boxes)


def divides(routine: Routine) -> bool:
    """Whether a kernel divides anything by a number that it is given."""
    return any(slot.is_divisor for one in parameters(routine) for slot in one.slots)


def is_compared(routine: Routine) -> bool:
    """Whether a kernel compares a number that it is given with what differs between threads."""
    return any(slot.role is Role.NUMBER and slot.is_compared for one in parameters(routine) for slot in one.slots)


__all__ = ["FEW", "MANY", "Sizes", "divides", "example", "is_compared", "most_operations"]
