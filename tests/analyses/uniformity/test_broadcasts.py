"""What one lane hands out to its warp."""

from __future__ import annotations

import pytest
from sample import kernel

from ptxkit.analyses.framework.bindings import bindings
from ptxkit.analyses.symbolic.values import values
from ptxkit.analyses.uniformity.broadcasts import handed_out, is_whole_warp
from ptxkit.isa.binding import Bound


def shuffle(text: str) -> tuple[str, int] | None:
    """What is handed out by an instruction after one that computes %r2, and the lane that does."""
    routine = kernel(f"mov.u32 %r1, %tid.x;\nadd.u32 %r2, %r1, 5;\n{text}\nret;")
    found = handed_out(routine).of(values(routine).written(2)[0])
    return None if found is None else (str(found[0]), found[1])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("shfl.sync.idx.b32 %r3, %r2, 3, 31, -1;", ("%tid.x + 5", 3)),
        # lanes are counted modulo 32
        ("shfl.sync.idx.b32 %r3, %r2, 35, 31, -1;", ("%tid.x + 5", 3)),
        # from the lane before
        ("shfl.sync.up.b32 %r3, %r2, 1, 0, -1;", None),
        # every thread chooses for itself
        ("shfl.sync.idx.b32 %r3, %r2, %r1, 31, -1;", None),
        # four groups of eight lanes: c = 0x181f
        ("shfl.sync.idx.b32 %r3, %r2, 3, 6175, -1;", None),
        ("ld.shared.u32 %r3, [%r2];", None),
    ],
)
def test_handed_out(text: str, expected: tuple[str, int] | None) -> None:
    assert shuffle(text) == expected


@pytest.mark.parametrize(("clamp", "expected"), [("31", True), ("7", True), ("6175", False), ("256", False), ("%r9", False)])
def test_lanes_are_counted_in_the_whole_warp(clamp: str, expected: bool) -> None:
    routine = kernel(f"shfl.sync.idx.b32 %r3, %r2, 0, {clamp}, -1;\nret;")
    bound = bindings(routine)[0]

    assert isinstance(bound, Bound)
    assert is_whole_warp(routine, 0, bound) is expected
