"""Numbers by which a kernel shifts."""

from __future__ import annotations

import pytest

import ptxkit
from ptxkit.analyses.framework.routine import routines
from ptxkit.analyses.inputs.parameters import SHIFT, parameters

KERNEL = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 p, .param .u32 by)
{{
.reg .b32 %r<9>; .reg .b64 %rd<8>;
ld.param.u64 %rd1, [p]; ld.param.u32 %r1, [by]; ld.global.u32 %r3, [%rd1];
{}
mul.wide.u32 %rd2, %r2, 4; add.s64 %rd3, %rd1, %rd2; st.global.u32 [%rd3], %r3;
ret;
}}
"""


@pytest.mark.parametrize(
    ("body", "expected"),
    [("shr.u32 %r2, %r3, %r1;", SHIFT), ("shl.b32 %r2, %r3, %r1;", SHIFT), ("shl.b32 %r2, %r1, 3;", None)],
    ids=["right", "left", "itself shifted"],
)
def test_a_shift_count_leaves_bits_of_the_value(body: str, expected: int | None) -> None:
    (routine,) = routines(ptxkit.parse(KERNEL.format(body)))

    assert [slot.value for one in parameters(routine) for slot in one.slots if one.name == "by"] == [expected]
