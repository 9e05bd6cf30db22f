"""Operation limit for a run of a kernel."""

from __future__ import annotations

from ptxkit.analyses.framework.bindings import has_matching
from ptxkit.analyses.framework.routine import Routine
from ptxkit.analyses.inputs.reached import reached
from ptxkit.isa.binding import Bound

OPERATIONS, OPERATIONS_AN_INSTRUCTION = 4000, 6
"""The limit for one run: a base, and an amount for each instruction of the kernel."""
IN_FLIGHT = 2
"""Factor on the amount for each instruction if the kernel has operations in flight: warps with different roles wait for each other, and
errors appear in the second iteration."""
LONG, OPERATIONS_BEYOND = 500, 3
"""The amount for each instruction beyond the first LONG: long kernels are long because their loops are unrolled, and run fewer rounds."""


def most_operations(routine: Routine) -> int:
    """The operation limit for one run. It follows from the length of the kernel, and is the same on every machine."""
    each = OPERATIONS_AN_INSTRUCTION * (IN_FLIGHT if any(has_matching(one, _is_in_flight) for one in reached(routine)) else 1)
    length = _length(routine)
    return OPERATIONS + each * min(length, LONG) + OPERATIONS_BEYOND * max(0, length - LONG)


def least_operations(routine: Routine) -> int:
    """The number of operations after which a run that shows nothing new has gone through the whole kernel again, or several times if it is
    short."""
    return max(OPERATIONS, _length(routine))


def _length(routine: Routine) -> int:
    """The number of instructions of a kernel and the functions that it may call."""
    return sum([len(one.instructions) for one in reached(routine)])


def _is_in_flight(bound: Bound) -> bool:
    return bool(bound.asynchronous) or any(memory.is_async for memory in bound.memory)
