"""What a run of a kernel may cost."""

from __future__ import annotations

from ptxkit.analyses.framework.bindings import has_such
from ptxkit.analyses.framework.routine import Routine
from ptxkit.analyses.inputs.shapes import reached
from ptxkit.isa.binding import Bound

OPERATIONS, OPERATIONS_AN_INSTRUCTION = 4000, 6
"""So much one run may cost: at least, and more for each instruction of the kernel."""
IN_FLIGHT = 2
"""So many times as much for an instruction of a kernel with operations in flight: roles wait for each other, and what is wrong shows in
the second iteration."""


def most_operations(routine: Routine) -> int:
    """What one run of a kernel may cost, by its length: as much on every computer."""
    each = OPERATIONS_AN_INSTRUCTION * (IN_FLIGHT if any(has_such(one, _is_in_flight) for one in reached(routine)) else 1)
    return OPERATIONS + each * sum([len(one.instructions) for one in reached(routine)])


def _is_in_flight(bound: Bound) -> bool:
    return bool(bound.asynchronous) or any(memory.is_async for memory in bound.memory)
