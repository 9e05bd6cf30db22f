"""The launches that were made up for a kernel and left global memory, remembered: who tries one of them again knows how it ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from ptxkit.analyses.framework.routine import Routine, fact
from ptxkit.analyses.inputs.example import Example, Range

if TYPE_CHECKING:
    from ptxkit.machine import Fault


@attrs.frozen(eq=False)
class Outside:
    """How a launch with usual contents, in the usual order, ended."""

    fault: Fault
    made: tuple[Range, ...]
    """The memory that was made up."""
    operations: int
    """What it cost until then."""


@fact
def outside(routine: Routine) -> dict[Example, Outside]:
    """Those of a kernel so far. Who executes one adds it."""
    return {}


__all__ = ["Outside", "outside"]
