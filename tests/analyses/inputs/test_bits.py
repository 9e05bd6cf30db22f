"""Parameters that say which bits of an index count."""

from __future__ import annotations

import pytest

import ptxkit
from ptxkit.analyses.framework.routine import routines
from ptxkit.analyses.inputs.bits import with_chosen_bits

KERNEL = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 p, .param .u32 n)
{{
.reg .pred %p<4>; .reg .b32 %r<8>; .reg .b64 %rd<8>;
ld.param.u64 %rd1, [p]; ld.param.u32 %r1, [n]; mov.u32 %r2, %tid.x;
{}
mul.wide.u32 %rd2, %r2, 8; add.s64 %rd3, %rd1, %rd2; st.global.u32 [%rd3], %r1;
ret;
}}
"""
# a bit of the index after the other is left out
LOOP = "L: {} add.u32 %r3, %r1, -1; and.b32 %r1, %r1, %r3; setp.ne.u32 %p1, %r1, 0; @%p1 bra L;"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("and.b32 %r2, %r2, %r1;", True),
        (LOOP.format("and.b32 %r2, %r2, %r1;"), True),
        (LOOP.format("and.b32 %r2, %r2, 31;"), False),
        ("add.u32 %r2, %r2, %r1;", False),
        ("and.b32 %r1, %r2, %r1;", False),
        ("sub.s32 %r4, %r2, 5; shr.s32 %r4, %r4, 31; and.b32 %r4, %r4, %r1; add.s32 %r2, %r2, %r4;", False),  # an index from the end
        # whether a division of 64 bits can be one of 32
        ("or.b32 %r4, %r2, %r1; and.b32 %r4, %r4, -65536; setp.eq.s32 %p1, %r4, 0; @%p1 ret;", False),
        ("or.b32 %r2, %r2, %r1;", True),
        ("setp.lt.u32 %p1, %r2, 5; setp.gt.s32 %p2, %r1, 0; and.pred %p1, %p1, %p2; @%p1 ret;", False),
    ],
)
def test_bits_of_an_index_in_an_address(body: str, expected: bool) -> None:
    assert bool(with_chosen_bits(routines(ptxkit.parse(KERNEL.format(body)))[0])) is expected


@pytest.mark.parametrize(("more", "expected"), [("", 1), ("and.b32 %r4, %r2, %r1; setp.eq.u32 %p1, %r4, 0; @%p1 ret;", 2)])
def test_other_accesses_have_these_bits_only_by_a_branch(more: str, expected: int) -> None:
    body = f"mul.wide.u32 %rd4, %r2, 4; add.s64 %rd4, %rd1, %rd4; {more} st.global.u32 [%rd4], %r1; xor.b32 %r2, %r2, %r1;"
    kernel = routines(ptxkit.parse(KERNEL.format(body)))[0]

    stores = [i for _, i in with_chosen_bits(kernel) if "st.global" in kernel.instructions[i].text]

    assert len(stores) == expected
