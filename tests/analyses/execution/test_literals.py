"""What a kernel compares."""

from __future__ import annotations

import pytest

import ptxkit
from ptxkit.analyses.execution.literals import compared, has_real_comparisons
from ptxkit.analyses.framework.routine import Routine, routines

REGISTERS = ".reg .pred %p<2>; .reg .b16 %h<3>; .reg .b32 %r<3>; .reg .f32 %f<3>; .reg .f64 %d<3>;"


def kernel(body: str) -> Routine:
    return routines(ptxkit.parse(f".version 8.0\n.target sm_90\n.address_size 64\n.entry k() {{ {REGISTERS} {body} ret; }}"))[0]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("setp.lt.f32 %p1, %f1, %f2;", True),
        ("setp.gt.and.f64 %p1, %d1, %d2, %p0;", True),
        ("setp.lt.bf16 %p1, %h1, %h2;", True),
        ("set.lt.u32.f32 %r1, %f1, %f2;", True),
        ("setp.lt.s32 %p1, %r1, %r2;", False),
        ("add.f32 %f1, %f1, %f2;", False),
    ],
)
def test_comparisons_of_real_numbers(body: str, expected: bool) -> None:
    assert has_real_comparisons(kernel(body)) is expected


def test_numbers_that_are_compared_for_equality() -> None:
    body = "setp.eq.s32 %p1, %r1, 7; setp.ne.s32 %p1, %r1, -1; setp.lt.s32 %p1, %r1, 9; setp.eq.s32 %p1, %r2, 0;"

    assert compared(kernel(body)) == (7, 0xFFFFFFFF)
