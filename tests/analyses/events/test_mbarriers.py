"""Where objects lie of which the stage comes from loops."""

from __future__ import annotations

import pytest

import ptxkit
from ptxkit.analyses.events.mbarriers import uses
from ptxkit.analyses.framework.rule import Facts

KERNEL = """.version 9.0
.target sm_100a
.address_size 64
.entry k(.param .u64 in)
.reqntid 128
{{
.reg .pred %p<9>; .reg .b32 %r<16>; .reg .b64 %rd<4>;
.shared .align 8 .b64 full[64];
ld.param.u64 %rd1, [in];
mov.u32 %r1, %tid.x;
setp.lt.u32 %p1, %r1, 64;
@%p1 bra END;
{start}
LOOP:
shl.b32 %r4, %r3, 3;
mov.u32 %r5, full;
add.u32 %r5, %r5, %r4;
mbarrier.arrive.shared::cta.b64 _, [%r5];
ld.global.u32 %r9, [%rd1];
setp.eq.u32 %p3, %r9, 0;
{step}
@%p3 bra LOOP;
END:
ret;
}}
"""
# the third warp starts with the first stage, the fourth with the second
BY_WARP = "shr.u32 %r2, %r1, 5;\nsub.u32 %r3, %r2, 2;"
ONE_ON = "add.u32 %r3, %r3, 1;\nsetp.ne.u32 %p2, %r3, 5;\n@%p2 bra L{0};\nmov.u32 %r3, 0;\nL{0}:\n"
TWO_ON = """add.u32 %r6, %r3, 2;
setp.eq.u32 %p2, %r3, 4;
selp.b32 %r6, 1, %r6, %p2;
setp.eq.u32 %p2, %r6, 5;
selp.b32 %r3, 0, %r6, %p2;
"""


@pytest.mark.parametrize(
    ("start", "step", "last"),
    [
        ("mov.u32 %r3, 0;", ONE_ON.format(0), 4),
        (BY_WARP, ONE_ON.format(0), 4),
        (BY_WARP, ONE_ON.format(0) + ONE_ON.format(1), 4),
        (BY_WARP, TWO_ON, 4),
        # from another start it does not come by where it is set back
        ("shr.u32 %r3, %r1, 2;", ONE_ON.format(0), None),
        ("mov.u32 %r3, %r9;", TWO_ON, None),
    ],
)
def test_a_stage_keeps_to_its_ring(start: str, step: str, last: int | None) -> None:
    routine = Facts(ptxkit.parse(KERNEL.format(start=start, step=step))).routines[0]
    (use,) = uses(routine)

    assert use.where is not None
    assert (use.where.offset.low == 0 and use.where.offset.high == 8 * (last or 0)) is (last is not None)
