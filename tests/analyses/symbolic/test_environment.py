"""What paths need to know: values are forgotten where nothing asks for them any more."""

from __future__ import annotations

import ptxkit
from ptxkit.analyses.cfg.graph import control_flow
from ptxkit.analyses.framework.routine import routines
from ptxkit.analyses.memory.accesses import accesses
from ptxkit.analyses.symbolic.environment import Evaluator

# block 0 leads to the loop 1, that to 2; the address changes in the loop, and is asked about in the loop or behind it
LOOP = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u32 n)
{
.reg .pred %p<9>;
.reg .b32 %r<9>;
.shared .b8 tile[4096];
ld.param.u32 %r1, [n];
mov.u32 %r2, tile;
AGAIN:
add.s32 %r2, %r2, 16;
ld.shared.u32 %r3, [%r2];
add.s32 %r1, %r1, -1;
setp.gt.s32 %p1, %r1, 0;
@%p1 bra AGAIN;
ld.shared.u32 %r4, [%r2];
ret;
}
"""


def test_values_are_live_up_to_where_they_are_asked_for() -> None:
    (routine,) = routines(ptxkit.parse(LOOP))
    block_of = control_flow(routine).block_of
    asked = {block_of[one.instruction]: [one.address] for one in accesses(routine) if one.space == ".shared" and one.address is not None}
    evaluator = Evaluator(routine, [term for own in asked.values() for term in own])

    assert sorted(asked) == [1, 2]
    assert [bool(live) for live in evaluator.live({1: asked[1]})] == [False, True, False]
    assert [bool(live) for live in evaluator.live({2: asked[2]})] == [False, True, True]
