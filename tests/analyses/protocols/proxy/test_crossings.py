"""Proxies: maps that are acquired or not, memory that the program shares out itself, and what is left without an order or told too soon."""

from __future__ import annotations

import sys
from pathlib import Path

import ptxkit
from ptxkit.analyses import lint
from ptxkit.analyses.framework.rule import Facts, select
from ptxkit.analyses.protocols.proxy.crossings import is_ordered_by

sys.path.insert(0, str(Path(__file__).resolve().parents[4] / "benchmarks"))

from idle_fences import is_never_used, stands_first, unplaced

HEAD = """.version 9.0
.target sm_90a
.address_size 64
.extern .shared .align 128 .b8 pool[];
.visible .entry k(.param .u64 one, .param .u64 two, .param .u64 out)
.reqntid 128
{
.reg .pred %p<4>; .reg .b32 %r<16>; .reg .b64 %rd<8>;
.shared .align 8 .b64 bar;
ld.param.u64 %rd1, [one];
ld.param.u64 %rd2, [two];
ld.param.u64 %rd3, [out];
mov.u32 %r1, %tid.x;
"""

MAPS = """fence.proxy.tensormap::generic.acquire.gpu [%rd1], 128;
FENCE
mov.u32 %r2, pool;
cp.async.bulk.tensor.1d.shared::cta.global.tile.mbarrier::complete_tx::bytes [%r2], [%rd1, {%r1}], [bar];
cp.async.bulk.tensor.1d.shared::cta.global.tile.mbarrier::complete_tx::bytes [%r2], [%rd2, {%r1}], [bar];
ret;
}
"""

RING = """mov.u32 %r2, pool;
shl.b32 %r3, %r1, 2;
mov.u32 %r5, 0;
LOOP:
mul.lo.u32 %r6, %r5, 1024;
add.u32 %r6, %r6, %r2;
add.u32 %r7, %r6, %r3;
st.shared.u32 [%r7], %r1;
FENCE
bar.sync 0;
setp.ne.u32 %p1, %r1, 0;
add.u32 %r8, %r5, 1;
mul.lo.u32 %r9, %r8, 1024;
add.u32 %r9, %r9, %r2;
sub.u32 %r9, %r9, 1024;
@!%p1 cp.async.bulk.global.shared::cta.bulk_group [%rd3], [%r9], 512;
cp.async.bulk.commit_group;
cp.async.bulk.wait_group 0;
bar.sync 0;
mov.u32 %r5, %r8;
setp.lt.u32 %p2, %r5, 4;
@%p2 bra LOOP;
ret;
}
"""


def found(text: str) -> list[tuple[str, str]]:
    return [(rule, severity) for rule, severity in noted(text) if severity != "info"]


def noted(text: str) -> list[tuple[str, str]]:
    """With notes."""
    return [(one.rule, one.severity.value) for one in lint(ptxkit.parse(text), select(["P"]), run=False)]


def test_a_map_is_acquired_for_itself_only() -> None:
    assert found(HEAD + MAPS.replace("FENCE", "")) == [("P005", "warning")]


def test_maps_that_are_all_acquired() -> None:
    assert found(HEAD + MAPS.replace("FENCE", "fence.proxy.tensormap::generic.acquire.gpu [%rd2], 128;")) == []


def test_a_kernel_that_acquires_no_map_relies_on_its_launch() -> None:
    assert found((HEAD + MAPS.replace("FENCE", "")).replace("fence.proxy.tensormap::generic.acquire.gpu [%rd1], 128;", "")) == []


def test_a_stage_of_memory_that_is_shared_out() -> None:
    assert [rule for rule, _ in found(HEAD + RING.replace("FENCE", ""))] == ["P001"]
    assert found(HEAD + RING.replace("FENCE", "fence.proxy.async.shared::cta;")) == []


def test_what_a_fence_alone_orders() -> None:
    fence = "fence.proxy.async.shared::cta;"

    def orders(fences: str) -> list[bool]:
        routine = Facts(ptxkit.parse(HEAD + RING.replace("FENCE", fences))).routines[0]
        assert not unplaced(routine)
        places = [i for i, one in enumerate(routine.instructions) if one.opcode.text.startswith("fence.proxy")]
        return [is_ordered_by(routine, i) for i in places]

    assert orders(fence) == [True]
    # either does without the other
    assert orders(fence * 2) == [False, False]
    # what stands behind the barrier does not do for what stands before it
    assert orders(fence + "bar.sync 1;" + fence) == [True, False]


COPIED = """mov.u32 %r2, pool;
shl.b32 %r3, %r1, 4;
add.u32 %r3, %r3, %r2;
cp.async.cg.shared.global [%r3], [%rd1], 16;
TOLD
FENCE
bar.sync 0;
shr.u32 %r4, %r2, 4;
and.b32 %r4, %r4, 16383;
cvt.u64.u32 %rd4, %r4;
or.b64 %rd4, %rd4, 4611756662049472512;
PRODUCT
ret;
}
"""
WAITED, ARRIVED = "cp.async.wait_all;", "cp.async.mbarrier.arrive.noinc.shared::cta.b64 [bar];"
BY_THREAD = "setp.eq.u32 %p1, %r1, 0;\n@%p1 tcgen05.mma.cta_group::1.kind::f16 [%r5], %rd4, %rd4, %r6, 0;"
BY_WARPS = """wgmma.fence.sync.aligned;
wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f0, %f1, %f2, %f3}, %rd4, %rd4, 1, 1, 1, 0, 0;
wgmma.commit_group.sync.aligned;
wgmma.wait_group.sync.aligned 0;"""


def copied(told: str, fence: str, product: str) -> list[tuple[str, str]]:
    head = HEAD.replace(".reg .b64", ".reg .f32 %f<4>; .reg .b64")
    head = head.replace("sm_90a", "sm_100a") if product is BY_THREAD else head
    return found(head + COPIED.replace("TOLD", told).replace("FENCE", fence).replace("PRODUCT", product))


def test_what_was_copied_is_fenced_before_one_thread_starts_a_product() -> None:
    fence = "fence.proxy.async.shared::cta;"

    assert {rule for rule, _ in copied(WAITED, "", BY_THREAD)} == {"P002"}
    assert copied(WAITED, fence, BY_THREAD) == []
    # much that is in use has none here
    assert copied(ARRIVED, "", BY_THREAD) == []
    assert copied(WAITED, "", BY_WARPS) == []


WALKED = """.shared .align 128 .b8 tile[4096];
ld.param.u64 %rd3, [out];
mov.u32 %r2, tile;
shl.b32 %r3, %r1, 2;
add.u32 %r4, %r2, %r3;
cvt.u32.u64 %r5, %rd1;
LOOP:
st.shared.u32 [%r4], %r1;
add.u32 %r4, %r4, 512;
sub.u32 %r5, %r5, 1;
setp.ne.u32 %p2, %r5, 0;
@%p2 bra LOOP;
FENCE
bar.sync 0;
setp.eq.u32 %p1, %r1, 0;
@%p1 cp.async.bulk.global.shared::cta.bulk_group [%rd3], [tile], 4096;
ret;
}
"""


def test_a_pointer_that_goes_along_stays_in_its_variable() -> None:
    assert ("P001", "warning") in noted(HEAD + WALKED.replace("FENCE", ""))
    assert found(HEAD + WALKED.replace("FENCE", "fence.proxy.async.shared::cta;")) == []


GENERIC = """mov.u32 %r2, pool;
cvt.u64.u32 %rd4, %r2;
cvta.shared.u64 %rd4, %rd4;
mul.wide.u32 %rd5, %r1, 16;
shr.u64 %rd6, %rd5, 3;
and.b64 %rd6, %rd6, 112;
xor.b64 %rd4, %rd4, %rd6;
add.u64 %rd4, %rd4, %rd5;
st.u32 [%rd4], %r1;
FENCE
bar.sync 0;
setp.eq.u32 %p1, %r1, 0;
@%p1 cp.async.bulk.global.shared::cta.bulk_group [%rd3], [%r2], 2048;
ret;
}
"""


def test_a_generic_address_that_is_swizzled_is_one_in_shared_memory() -> None:
    assert "P001" in [rule for rule, _ in noted(HEAD + GENERIC.replace("FENCE", ""))]
    assert found(HEAD + GENERIC.replace("FENCE", "fence.proxy.async.shared::cta;")) == []


def told_in_turn(first: str, second: str, waited: str = "full") -> list[str]:
    """What is warned of where warps write, tell of that, write something else, tell of that too, and another copies what came first."""
    body = f"""
.shared .align 128 .b8 tile[1024];
.shared .align 128 .b8 sums[1024];
.shared .align 8 .b64 full;
.shared .align 8 .b64 summed;
shl.b32 %r2, %r1, 2;
mov.u32 %r3, tile;
add.u32 %r3, %r3, %r2;
mov.u32 %r5, sums;
add.u32 %r5, %r5, %r2;
mov.u32 %r6, 0;
setp.lt.u32 %p1, %r1, 32;
@%p1 bra COPY;
LOOP:
st.shared.u32 [%r3], %r1;
{first}
mbarrier.arrive.shared::cta.b64 _, [full];
st.shared.u32 [%r5], %r1;
{second}
mbarrier.arrive.shared::cta.b64 _, [summed];
add.u32 %r6, %r6, 1;
setp.lt.u32 %p2, %r6, 4;
@%p2 bra LOOP;
bra END;
COPY:
W: mbarrier.try_wait.parity.shared::cta.b64 %p3, [{waited}], 0;
@!%p3 bra W;
cp.async.bulk.global.shared::cta.bulk_group [%rd3], [tile], 1024;
cp.async.bulk.commit_group;
cp.async.bulk.wait_group 0;
END:
ret;
}}
"""
    return [rule for rule, _ in noted(HEAD + body) if rule == "P001"]


def test_a_fence_behind_what_tells_comes_too_late() -> None:
    fence = "fence.proxy.async.shared::cta;"

    assert told_in_turn("", fence) == ["P001"]
    assert told_in_turn(fence, "") == told_in_turn(fence, fence) == []
    # whoever copies waits for what is behind the fence
    assert told_in_turn("", fence, "summed") == []


RELEASED = """.shared .align 128 .b8 map[128];
mov.u32 %r2, pool;
tensormap.replace.tile.global_address.shared::cta.b1024.b64 [map], %rd3;
FIRST
tensormap.replace.tile.global_address.shared::cta.b1024.b64 [map], %rd3;
tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%rd2], [map], 128;
fence.proxy.tensormap::generic.acquire.gpu [%rd1], 128;
fence.proxy.tensormap::generic.acquire.gpu [%rd2], 128;
USES
ret;
}
"""
MAP_USE = "cp.async.bulk.tensor.1d.shared::cta.global.tile.mbarrier::complete_tx::bytes [%r2], [{}, {{%r1}}], [bar];\n"
RELEASE = "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%rd1], [map], 128;"


def test_a_map_that_is_acquired_is_released_as_the_others_are() -> None:
    text = HEAD + RELEASED.replace("USES", MAP_USE.format("%rd1") + MAP_USE.format("%rd2"))

    assert found(text.replace("FIRST", RELEASE)) == []
    assert found(text.replace("FIRST", "")) == [("P005", "warning")]
    # any may be released by a fence that names none
    assert found(text.replace("FIRST", "fence.proxy.tensormap::generic.release.gpu;")) == []


def test_a_map_that_is_not_used_needs_no_fence() -> None:
    def unused(uses: str) -> list[bool]:
        text = HEAD + RELEASED.replace("FIRST", RELEASE).replace("USES", uses)
        routine = Facts(ptxkit.parse(text)).routines[0]
        acquires = [i for i, one in enumerate(routine.instructions) if ".acquire" in one.opcode.text]
        return [is_never_used(routine, i) for i in acquires]

    assert unused(MAP_USE.format("%rd2")) == [True, False]
    assert unused(MAP_USE.format("%rd1") + MAP_USE.format("%rd2")) == [False, False]


def test_what_stands_before_everything_orders_nothing() -> None:
    def first(text: str) -> bool:
        body = f"mov.u32 %r2, pool;\n{text}fence.proxy.async.shared::cta;\nbar.sync 0;\nret;\n}}\n"
        routine = Facts(ptxkit.parse(HEAD + body)).routines[0]
        return stands_first(routine, next(i for i, one in enumerate(routine.instructions) if one.opcode.text.startswith("fence.proxy")))

    assert first("mbarrier.init.shared::cta.b64 [bar], 1;\n")
    assert not first("st.shared.u32 [%r2], %r1;\n")
    assert not first("bar.sync 0;\n")
