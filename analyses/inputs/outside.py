"""Cache of example launches that left global memory, so that none of them is executed again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ptxkit.analyses.framework.routine import Routine, fact
from ptxkit.analyses.inputs.example import Example, Range
from ptxkit.frozen import frozen

if TYPE_CHECKING:
    from ptxkit.machine import Fault


@frozen(eq=False)
class Outside:
    """How a launch with the usual contents and schedule ended."""

    fault: Fault
    made: tuple[Range, ...]
    """The ranges of synthesized memory."""
    operations: int
    """Operations that the launch performed before it ended."""


@fact
def outside(routine: Routine) -> dict[Example, Outside]:
    """The cached launches of a kernel. The caller adds those that leave memory."""
    return {}


__all__ = ["Outside", "outside"]
