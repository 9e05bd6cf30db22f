"""Where the access that ended a run lies relative to synthesized memory."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from ptxkit.analyses.execution.launch import MOST_ROOM
from ptxkit.isa.binding import Bound

if TYPE_CHECKING:
    from ptxkit.machine import Fault

Made = Iterable[tuple[int, int]]
"""Address ranges (start, end) of synthesized memory."""


BY_DESCRIPTOR = frozenset(("wgmma.isa", "tcgen05.isa"))
"""ISA chapters whose instructions read matrices through descriptors."""


def leaves_by_descriptor(fault: Fault | None) -> bool:
    """Whether a run ended at a matrix that extends beyond shared memory, as its descriptor defines it. It is unknown which part of the
    matrix is needed; the first lines are in any case."""
    access = fault.access if fault is not None else None
    if access is None or access.why != "outside" or not access.space.startswith(".shared"):
        return False
    bound = getattr(getattr(access.lanes, "site", None), "bound", None)
    return isinstance(bound, Bound) and bound.form.file in BY_DESCRIPTOR


def accessed_at(fault: Fault | None) -> list[int]:
    """The addresses of the access that ended a run; empty if it did not end at an access."""
    access = fault.access if fault is not None else None
    if access is None:
        return []
    at = np.ravel(access.at) if access.mask is None else np.broadcast_to(access.at, np.shape(access.mask))[access.mask]
    return [int(one) for one in np.ravel(at)]


def would_be_inside(fault: Fault | None, made: Made, factor: int) -> bool:
    """Whether the access that left global memory would be in bounds if synthesized arrays were `factor` times as large. True if its address
    is unknown."""
    left = accessed_at(fault)
    return not left or all(any(start <= at < start + factor * (end - start) for start, end in made) for at in left)


def far_access(fault: Fault | None, made: Made) -> tuple[int, int] | None:
    """Line and address of an access that left global memory and lies near no synthesized array; None if there is none."""
    left, line = accessed_at(fault), fault.line if fault is not None else None
    if not left or line is None or any(start <= at < start + MOST_ROOM for at in left for start, _ in made):
        return None
    return line, left[0]
