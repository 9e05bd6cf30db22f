"""Matrices that wgmma operations may still be reading: who frees their stage, and who writes them, is found on paths of loops and rings."""

from __future__ import annotations

import pytest

import ptxkit
from ptxkit.analyses.framework.linting import lint
from ptxkit.analyses.framework.routine import routines
from ptxkit.analyses.framework.rule import select
from ptxkit.analyses.protocols.mbarrier.refills import refills

# Two stages of 2048 bytes. A thread of the last warp fills them; a warpgroup frees the stage that it read in the round before.
RING = """.version 8.5
.target sm_90a
.address_size 64
.visible .entry k(.param .align 64 .b8 map[128], .param .u32 n)
.reqntid 160
{{
.reg .pred %p<9>; .reg .b32 %r<40>; .reg .b64 %rd<9>; .reg .f32 %f<8>;
.shared .align 1024 .b8 tile[4096];
.shared .align 8 .b64 full[2];
.shared .align 8 .b64 free[2];
.shared .align 8 .b64 other[2];
ld.param.u32 %r1, [n];
mov.u32 %r2, %tid.x;
mov.u32 %r3, tile;
mov.u32 %r4, full;
mov.u32 %r5, free;
mov.b64 %rd1, map;
setp.ne.u32 %p1, %r2, 0;
@%p1 bra READY;
mbarrier.init.shared.b64 [full], 1;
mbarrier.init.shared.b64 [full+8], 1;
mbarrier.init.shared.b64 [free], 128;
mbarrier.init.shared.b64 [free+8], 128;
mbarrier.init.shared.b64 [other], 128;
READY:
bar.sync 0;
mov.u32 %r6, 0;
mov.u32 %r7, 0;
mov.u32 %r8, 0;
setp.lt.u32 %p2, %r2, 128;
@%p2 bra USE;
setp.ne.u32 %p3, %r2, 128;
@%p3 bra END;
FILL:
shl.b32 %r9, %r7, 3;
add.u32 %r10, %r5, %r9;
add.u32 %r11, %r4, %r9;
xor.b32 %r12, %r8, 1;
EMPTY:
mbarrier.try_wait.parity.shared.b64 %p4, [%r10], %r12;
@!%p4 bra EMPTY;
mbarrier.arrive.expect_tx.shared.b64 _, [%r11], 2048;
shl.b32 %r13, %r7, 11;
add.u32 %r14, %r3, %r13;
cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r14], [%rd1, {{%r6, %r6}}], [%r11];
add.u32 %r15, %r7, 1;
setp.eq.u32 %p5, %r15, 2;
selp.b32 %r7, 0, %r15, %p5;
selp.b32 %r16, 1, 0, %p5;
xor.b32 %r8, %r8, %r16;
add.u32 %r6, %r6, 1;
setp.lt.s32 %p6, %r6, %r1;
@%p6 bra FILL;
bra END;
USE:
mov.u32 %r20, 0;
LOOP:
shl.b32 %r9, %r7, 3;
add.u32 %r11, %r4, %r9;
FULL:
mbarrier.try_wait.parity.shared.b64 %p4, [%r11], %r8;
@!%p4 bra FULL;
shl.b32 %r13, %r7, 11;
add.u32 %r14, %r3, %r13;
bfe.u32 %r17, %r14, 4, 14;
cvt.u64.u32 %rd2, %r17;
or.b64 %rd2, %rd2, 4611686293305360384;
wgmma.fence.sync.aligned;
wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {{%f0, %f1, %f2, %f3}}, %rd2, %rd2, 1, 1, 1, 0, 0;
{commit}
{wait}
setp.eq.u32 %p7, %r6, 0;
@%p7 bra ON;
shl.b32 %r18, %r20, 3;
add.u32 %r19, {object}, %r18;
mbarrier.arrive.shared.b64 _, [%r19];
xor.b32 %r20, %r20, 1;
ON:
add.u32 %r15, %r7, 1;
setp.eq.u32 %p5, %r15, 2;
selp.b32 %r7, 0, %r15, %p5;
selp.b32 %r16, 1, 0, %p5;
xor.b32 %r8, %r8, %r16;
add.u32 %r6, %r6, 1;
setp.lt.s32 %p6, %r6, %r1;
@%p6 bra LOOP;
wgmma.wait_group.sync.aligned 0;
END:
ret;
}}
"""
COMMIT, WAIT = "wgmma.commit_group.sync.aligned;", "wgmma.wait_group.sync.aligned 1;"


def ring(commit: str = COMMIT, wait: str = WAIT, object_: str = "%r5") -> str:
    return RING.format(commit=commit, wait=wait, object=object_)


def test_a_copy_fills_a_stage_again_behind_its_own_object() -> None:
    (routine,) = routines(ptxkit.parse(ring()))

    assert [(refill.region.offset, refill.location[1]) for refill in refills(routine)] == [(0, 0), (2048, 8)]


@pytest.mark.parametrize(
    ("parts", "rules"),
    [
        ({}, set()),
        ({"wait": "wgmma.wait_group.sync.aligned 0;"}, set()),
        ({"wait": ""}, {"W007"}),
        ({"wait": "wgmma.wait_group.sync.aligned 2;"}, {"W007"}),
        ({"wait": "", "object_": "other"}, set()),
    ],
)
def test_the_stage_of_the_round_before_is_freed_behind_its_wait(parts: dict[str, str], rules: set[str]) -> None:
    assert {one.rule for one in lint(ptxkit.parse(ring(**parts)), select(["W007"]))} == rules


# A ring of two stages that all threads copy into themselves, one round ahead.
OWN = """.version 8.5
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 p, .param .u32 n)
.reqntid 128
{{
.reg .pred %p<9>; .reg .b32 %r<40>; .reg .b64 %rd<9>; .reg .f32 %f<8>;
.shared .align 1024 .b8 tile[4096];
ld.param.u64 %rd1, [p];
ld.param.u32 %r1, [n];
mov.u32 %r2, %tid.x;
shl.b32 %r3, %r2, 4;
mov.u32 %r4, tile;
add.u32 %r5, %r4, %r3;
cp.async.cg.shared.global [%r5], [%rd1], 16;
cp.async.commit_group;
mov.u32 %r6, 0;
mov.u32 %r7, 0;
LOOP:
cp.async.wait_group 0;
fence.proxy.async.shared::cta;
bar.sync 0;
add.u32 %r8, %r4, %r7;
bfe.u32 %r9, %r8, 4, 14;
cvt.u64.u32 %rd2, %r9;
or.b64 %rd2, %rd2, 4611686293305360384;
wgmma.fence.sync.aligned;
wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {{%f0, %f1, %f2, %f3}}, %rd2, %rd2, 1, 1, 1, 0, 0;
wgmma.commit_group.sync.aligned;
{wait}
{barrier}
xor.b32 %r7, %r7, 2048;
add.u32 %r10, %r5, %r7;
cp.async.cg.shared.global [%r10], [%rd1], 16;
cp.async.commit_group;
add.u32 %r6, %r6, 1;
setp.lt.s32 %p1, %r6, %r1;
@%p1 bra LOOP;
wgmma.wait_group.sync.aligned 0;
cp.async.wait_group 0;
ret;
}}
"""


@pytest.mark.parametrize(
    ("wait", "barrier", "said"),
    [
        (WAIT, "bar.sync 0;", None),
        ("wgmma.wait_group.sync.aligned 0;", "", None),
        ("", "bar.sync 0;", "no wait for its group"),
        (WAIT, "", "no barrier followed the wait"),
    ],
)
def test_what_is_read_is_refilled_when_all_warps_are_done(wait: str, barrier: str, said: str | None) -> None:
    found = lint(ptxkit.parse(OWN.format(wait=wait, barrier=barrier)), select(["W007"]))

    assert [said in one.message for one in found if said] == ([True] if said else [])
    assert bool(found) == bool(said)
