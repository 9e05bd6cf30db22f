"""Numbers with which every CTA has something to do."""

from __future__ import annotations

import ptxkit
from ptxkit.analyses.framework.routine import routines
from ptxkit.analyses.inputs.coverage import covering
from ptxkit.analyses.inputs.launches import Sizes, example
from ptxkit.analyses.inputs.shapes import Shape

TILES = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u32 n, .param .u32 m)
{
.reg .pred %p<4>; .reg .b32 %r<8>;
ld.param.u32 %r1, [n]; ld.param.u32 %r2, [m]; mov.u32 %r3, %ctaid.x; mad.lo.u32 %r4, %r3, 1000, 1000;
setp.gt.u32 %p1, %r4, %r1; @%p1 bra END;
mov.u32 %r5, %tid.x; setp.lt.u32 %p2, %r5, %r2; @%p2 bra END;
bar.sync 0;
END: ret;
}
"""
SHAPE = Shape((128, 1, 1), (4, 1, 1), None)


def test_as_many_elements_as_the_last_tile_ends_at() -> None:
    routine = routines(ptxkit.parse(TILES))[0]

    # `m` is compared with the index of a thread alone
    assert covering(routine, SHAPE) == {("n", 0, 4): 4000}


def test_a_launch_that_covers_all_ctas() -> None:
    routine = routines(ptxkit.parse(TILES))[0]

    numbers = [argument.value for _, argument in example(routine, SHAPE, Sizes(covers=True)).arguments]  # type: ignore[union-attr]
    assert numbers == [4000, 512]
