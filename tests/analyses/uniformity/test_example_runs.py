"""The inputs of example launches."""

from __future__ import annotations

import pytest

import ptxkit
from ptxkit.analyses import lint
from ptxkit.analyses.framework.rule import select

KERNEL = """.version 8.0
.target sm_80
.address_size 64
.const .align 4 .u32 size;
.visible .entry k(.param .u64 p, .param .u32 first)
{{
.reg .pred %p<4>; .reg .b32 %r<9>; .reg .b64 %rd<8>;
ld.param.u64 %rd1, [p]; ld.param.u32 %r1, [first]; ld.const.u32 %r2, [size];
mov.u32 %r3, %tid.x; mov.u32 %r4, %ctaid.x; mov.u32 %r5, %ntid.x; mad.lo.u32 %r3, %r4, %r5, %r3; add.u32 %r3, %r3, %r1;
{leaves} @%p1 bra END;
mov.u32 %r5, 3; mov.u32 %r7, 7199; mov.u32 %r8, -1; shfl.sync.idx.b32 %r6|%p2, %r3, %r5, %r7, %r8;
mul.wide.u32 %rd2, %r3, 4; add.s64 %rd3, %rd1, %rd2; st.global.u32 [%rd3], %r6;
END: ret;
}}
"""


@pytest.mark.parametrize(
    ("leaves", "rules"),
    [
        # groups of four lanes leave together if the first element is a multiple of four
        ("shr.u32 %r4, %r3, 2; setp.ge.u32 %p1, %r4, %r2;", []),
        ("setp.ge.u32 %p1, %r3, %r2;", ["C006"]),
    ],
)
def test_a_range_begins_at_a_multiple_of_a_warp(leaves: str, rules: list[str]) -> None:
    module = ptxkit.parse(KERNEL.format(leaves=leaves))

    assert [one.rule for one in lint(module, select(["C006"]), run=False)] == rules
