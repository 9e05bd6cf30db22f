"""Operation limit for a run of a kernel."""

from __future__ import annotations

from ptxkit.analyses.framework.bindings import has_such
from ptxkit.analyses.framework.routine import Routine
from ptxkit.analyses.inputs.shapes import reached
from ptxkit.isa.binding import Bound

OPERATIONS, OPERATIONS_AN_INSTRUCTION = 4000, 6
"""The limit for one run: a base, and an amount for each instruction of the kernel."""
IN_FLIGHT = 2
"""Factor on the amount for each instruction if the kernel has operations in flight: warps with different roles wait for each other, and
errors appear in the second iteration."""


def most_operations(routine: Routine) -> int:
    """The operation limit for one run. It follows from the length of the kernel, and is the same on every machine."""
    each = OPERATIONS_AN_INSTRUCTION * (IN_FLIGHT if any(has_such(one, _is_in_flight) for one in reached(routine)) else 1)
    return OPERATIONS + each * sum([len(one.instructions) for one in reached(routine)])


def least_operations(routine: Routine) -> int:
    """The number of operations of a run that executes each instruction once, and some of them a few times."""
    return OPERATIONS + sum([len(one.instructions) for one in reached(routine)])


def _is_in_flight(bound: Bound) -> bool:
    return bool(bound.asynchronous) or any(memory.is_async for memory in bound.memory)
