"""Numbers that a kernel counts in tiles without a remainder."""

from __future__ import annotations

import pytest

import ptxkit
from ptxkit.analyses.framework.routine import Routine, routines
from ptxkit.analyses.inputs.example import Number
from ptxkit.analyses.inputs.launches import Sizes, example
from ptxkit.analyses.inputs.shapes import shapes
from ptxkit.analyses.inputs.tiles import tiles

KERNEL = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 p, .param .u32 n)
{{
.reg .pred %p<4>; .reg .b32 %r<12>; .reg .b64 %rd<8>;
ld.param.u64 %rd1, [p]; ld.param.u32 %r1, [n]; mov.u32 %r2, %tid.x; setp.ge.s32 %p1, %r2, %r1; @%p1 bra END;
{quotient} mov.u32 %r4, 0;
LOOP: mad.lo.u32 %r5, %r4, 32, %r2; mul.wide.u32 %rd2, %r5, 4; add.s64 %rd3, %rd1, %rd2; st.global.u32 [%rd3], %r5;
add.u32 %r4, %r4, 1; setp.lt.s32 %p2, %r4, %r3; @%p2 bra LOOP;
{rest} END: ret;
}}
"""
SHIFTED = "shr.u32 %r3, %r1, 5;"
SIGNED = "shr.s32 %r6, %r1, 31; shr.u32 %r7, %r6, 27; add.s32 %r8, %r1, %r7; shr.s32 %r3, %r8, 5;"
DIVIDED = "div.s32 %r3, %r1, 32;"
ROUNDED_UP = "add.s32 %r6, %r1, 31; shr.u32 %r3, %r6, 5;"
REST = "and.b32 %r9, %r1, 31; setp.eq.s32 %p3, %r9, 0; @%p3 bra END; st.global.u32 [%rd1], %r9;"


def kernel(quotient: str, rest: str = "") -> Routine:
    return routines(ptxkit.parse(KERNEL.format(quotient=quotient, rest=rest)))[0]


@pytest.mark.parametrize("quotient", [SHIFTED, SIGNED, DIVIDED])
def test_a_number_without_a_remainder_consists_of_tiles(quotient: str) -> None:
    routine = kernel(quotient)
    uneven = example(routine, shapes(routine)[0], Sizes(uneven=7))

    assert tiles(routine) == {("n", 0, 4): 32}
    given = dict(uneven.arguments)["n"]
    assert isinstance(given, Number) and given.value and given.value % 32 == 0


@pytest.mark.parametrize(("quotient", "rest"), [(ROUNDED_UP, ""), (SHIFTED, REST)])
def test_a_number_with_a_remainder_is_any(quotient: str, rest: str) -> None:
    assert not tiles(kernel(quotient, rest))
