"""Values that differ between the threads of a warp."""

from __future__ import annotations

from sample import function, kernel

from ptxkit.analyses.framework.routine import Routine
from ptxkit.analyses.protocols.fragments.warp_values import differing
from ptxkit.analyses.symbolic.values import values


def last(routine: Routine) -> int | None:
    """How much more thread 1 (or the first that differs) holds in what the instruction before the last writes."""
    found = differing(routine, values(routine).written(len(routine.instructions) - 2)[0])
    return None if found is None else found.difference


def test_what_goes_by_the_lane_differs() -> None:
    assert last(kernel("mov.u32 %r1, %laneid; shl.b32 %r2, %r1, 4; ret;")) == 16


def test_what_goes_by_the_warp_does_not() -> None:
    assert last(kernel("mov.u32 %r1, %tid.x; shr.u32 %r2, %r1, 5; ret;")) is None


def test_what_is_not_known_proves_nothing() -> None:
    assert last(kernel("mov.u32 %r1, %laneid; ld.global.u32 %r2, [%d1]; add.u32 %r3, %r1, %r2; ret;")) is None


def test_the_shape_of_the_cta_counts() -> None:
    text = ".entry k()\n.reqntid 16, 2\n{.reg .b32 %r<4>; mov.u32 %r1, %tid.y; shl.b32 %r2, %r1, 4; ret;}"

    assert last(function(text)) == 16
