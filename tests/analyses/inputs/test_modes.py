"""Numbers that a kernel only compares with a few constants."""

from __future__ import annotations

import pytest

import ptxkit
from ptxkit.analyses.framework.routine import routines
from ptxkit.analyses.inputs.parameters import parameters

KERNEL = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 p, .param .u32 mode)
{{
.reg .pred %p<4>; .reg .b32 %r<9>; .reg .b64 %rd<8>;
ld.param.u64 %rd1, [p]; ld.param.u32 %r1, [mode]; mov.u32 %r3, 7;
{}
A: st.global.u32 [%rd1], %r3;
B: ret;
}}
"""


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("setp.eq.u32 %p1, %r1, 4; @%p1 bra A; setp.ne.u32 %p2, %r1, 16; @%p2 bra B;", 16),
        ("add.u32 %r2, %r1, -4; shr.u32 %r2, %r2, 2; setp.eq.u32 %p1, %r2, 1; @%p1 bra A; setp.eq.u32 %p2, %r2, 3; @%p2 bra B;", 19),
        ("setp.eq.u32 %p1, %r1, 4; @%p1 bra A;", None),
        ("setp.eq.u32 %p1, %r1, 4; @%p1 bra A; setp.eq.u32 %p1, %r1, 5; @%p1 bra B; setp.lt.u32 %p2, %r1, 16; @%p2 bra B;", None),
    ],
    ids=["two modes", "after arithmetic", "a flag", "compared in another way too"],
)
def test_a_mode_is_one_that_the_kernel_knows(body: str, expected: int | None) -> None:
    (routine,) = routines(ptxkit.parse(KERNEL.format(body)))

    assert [slot.value for one in parameters(routine) for slot in one.slots if one.name == "mode"] == [expected]
