"""Real scalars that select elements."""

from __future__ import annotations

import pytest

import ptxkit
from ptxkit.analyses.framework.routine import Routine, routines
from ptxkit.analyses.inputs.example import Number
from ptxkit.analyses.inputs.launches import example
from ptxkit.analyses.inputs.shapes import shapes
from ptxkit.analyses.inputs.thresholds import MIDDLE


def kernel(body: str) -> Routine:
    text = f"""
        .version 8.0
        .target sm_80
        .address_size 64
        .visible .entry k(.param .u64 p, .param .f32 a, .param .f32 b) .reqntid 128
        {{
        .reg .pred %p<2>; .reg .b32 %r<9>; .reg .f32 %f<9>; .reg .b64 %rd<9>;
        ld.param.u64 %rd1, [p]; ld.param.f32 %f1, [a]; ld.param.f32 %f2, [b]; ld.global.f32 %f3, [%rd1];
        {body}
        @%p1 st.global.f32 [%rd1], %f3;
        ret;
        }}
    """
    return routines(ptxkit.parse(text))[0]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("setp.ge.f32 %p1, %f3, %f1;", [MIDDLE, 1.0]),
        ("setp.lt.f32 %p1, %f2, %f3;", [1.0, MIDDLE]),
        ("setp.eq.f32 %p1, %f1, 0f3F800000; mul.f32 %f3, %f3, %f2;", [1.0, 1.0]),
        ("setp.lt.f32 %p1, %f1, %f2;", [1.0, 1.0]),
    ],
    ids=["element", "second", "constant", "parameter"],
)
def test_a_scalar_that_elements_are_compared_with_lies_between_them(body: str, expected: list[float]) -> None:
    routine = kernel(body)
    arguments = dict(example(routine, shapes(routine)[0]).arguments)

    assert [one.value for name in "ab" if isinstance(one := arguments[name], Number)] == expected
