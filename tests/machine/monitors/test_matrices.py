"""Matrix products in flight: registers and tiles that are used too early, missing fences, tensor memory; each with its twin."""

from __future__ import annotations

import pytest

np = pytest.importorskip("numpy")

from ptxkit.machine import Fault, Machine  # noqa: E402
from ptxkit.machine.monitors import not_covered  # noqa: E402
from ptxkit.machine.monitors.matrices import Matrices  # noqa: E402
from tests.machine.monitors.watching import rules, watched  # noqa: E402

# tiles without swizzling: 128 bytes from one core matrix to the next along K, 256 along M and N
SHARED = ".shared .align 128 .b8 s[4096]; .reg .f32 %d<9>; .reg .b64 %t<5>;"
TILES = (
    "mov.u32 %r4, s; shl.b32 %r3, %r1, 4; add.u32 %r3, %r3, %r4; shr.u32 %r5, %r4, 4; cvt.u64.u32 %t1, %r5; or.b64 %t1, %t1, 68727865344;"
    "st.shared.v4.u32 [%r3], {%r2, %r2, %r2, %r2}; fence.proxy.async.shared::cta; bar.sync 0;"
    "mov.f32 %d1, 0f00000000; mov.f32 %d2, %d1; mov.f32 %d3, %d1; mov.f32 %d4, %d1; mov.f32 %d5, %d1;"
)
FENCE, COMMIT, WAIT = "wgmma.fence.sync.aligned;", "wgmma.commit_group.sync.aligned;", "wgmma.wait_group.sync.aligned {};"
PRODUCT = "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {{{}}}, %t1, %t1, 1, 1, 1, 0, 0;"
ONE = PRODUCT.format("%d1, %d2, %d3, %d4")
NARROW = "wgmma.mma_async.sync.aligned.m64n8k8.f32.tf32.tf32 {%d1, %d2, %d3, %d4}, %t1, %t1, 1, 1, 1;"
FRAGMENT = "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%d1, %d2, %d3, %d4}, {%r6, %r7, %r8, %r9}, %t1, 1, 1, 1, 0;"
FRAGMENTS = "mov.u32 %r6, %r1; add.u32 %r7, %r1, 1; add.u32 %r8, %r1, 2; add.u32 %r9, %r1, 3;"
USE = "st.global.f32 [%rd2], %d1;"
DONE = f"{COMMIT} {WAIT.format(0)}"

BAD = {
    "no wait": (f"{FENCE} {ONE} {COMMIT} {USE} {DONE}", ["W003"]),
    "written in flight": (f"{FENCE} {ONE} {COMMIT} mov.f32 %d2, 0f3F800000; {DONE}", ["W003"]),
    "a wait that lets it in flight": (f"{FENCE} {ONE} {COMMIT} {WAIT.format(1)} {USE} {DONE}", ["W004"]),
    "no commit": (f"{FENCE} {ONE} {WAIT.format(0)} {USE} {DONE}", ["W005"]),
    "no fence": (f"{ONE} {DONE} {USE}", ["W001"]),
    "written after the fence": (f"{FENCE} add.f32 %d1, %d1, 0f3F800000; {ONE} {DONE} {USE}", ["W002"]),
    "the second of two is not fenced": (f"{FENCE} {ONE} {DONE} add.f32 %d1, %d1, %d1; {ONE} {DONE} {USE}", ["W001"]),
    "two shapes on one accumulator": (f"{FENCE} {NARROW} {ONE} {DONE} {USE}", ["W002"]),
    "a fragment written in flight": (f"{FRAGMENTS} {FENCE} {FRAGMENT} {COMMIT} add.u32 %r6, %r6, 1; {WAIT.format(0)}", ["W003"]),
    "a fragment written after the fence": (f"{FENCE} {FRAGMENTS} {FRAGMENT} {DONE}", ["W002"]),
    "a tile overwritten in flight": (f"{FENCE} {ONE} {COMMIT} st.shared.u32 [%r3], 0; {WAIT.format(0)} {USE}", ["W007"]),
    "a tile that others overwrite": (
        f"{FENCE} {ONE} {DONE} xor.b32 %r6, %r3, 512; setp.gt.u32 %p1, %r1, 127; @%p1 st.shared.u32 [%r6], 0; {USE}", ["W007"],
    ),
    "a tile with no proxy fence": (f"st.shared.u32 [%r3], 0; bar.sync 0; {FENCE} {ONE} {DONE} {USE}", ["P002"]),
}  # fmt: skip

GOOD = {
    "one product": f"{FENCE} {ONE} {DONE} {USE}",
    "a chain of one shape": f"{FENCE} {ONE} {ONE} {COMMIT} {ONE} {DONE} {USE}",
    "constants and copies after the fence": f"{FENCE} mov.f32 %d2, 0f00000000; mov.f32 %d3, %d2; {ONE} {DONE} {USE}",
    "copies in flight": f"{FENCE} {ONE} {COMMIT} mov.f32 %d5, %d1; {WAIT.format(0)} st.global.f32 [%rd2], %d5;",
    "other registers": f"{FENCE} {ONE} {COMMIT} add.f32 %f5, %f6, %f7; {WAIT.format(0)} {USE}",
    "two accumulators": (
        f"mov.f32 %d6, %d1; mov.f32 %d7, %d1; mov.f32 %d8, %d1; {FENCE} {ONE} {COMMIT} {PRODUCT.format('%d5, %d6, %d7, %d8')} {COMMIT}"
        f"{WAIT.format(1)} {USE} {WAIT.format(0)} st.global.f32 [%rd2], %d5;"
    ),
    "a fragment written after the wait": f"{FRAGMENTS} {FENCE} {FRAGMENT} {DONE} add.u32 %r6, %r6, 1; {USE}",
    "a fragment read in flight": f"{FRAGMENTS} {FENCE} {FRAGMENT} {COMMIT} st.global.u32 [%rd2], %r6; {WAIT.format(0)}",
    "a tile overwritten after the wait": f"{FENCE} {ONE} {DONE} bar.sync 0; st.shared.u32 [%r3], 0; {USE}",
}


def found(body: str, block: int) -> list[str]:
    findings, ended = watched(TILES + body, "all", SHARED, block=block, out=2048)
    return sorted({*rules(findings), *([ended] if ended != "ended" else [])})


@pytest.mark.parametrize("case", BAD)
def test_what_is_wrong_with_a_product_is_found(case: str) -> None:
    body, expected = BAD[case]
    shown = found(body, 256 if "others" in case else 128)
    assert set(shown) & set(expected), shown


@pytest.mark.parametrize("case", GOOD)
def test_what_is_right_with_a_product_is_not(case: str) -> None:
    assert found(GOOD[case], 128) == []


def test_of_a_product_the_first_use_is_reported() -> None:
    findings, _ = watched(TILES + f"{FENCE} {ONE} {COMMIT} add.f32 %d5, %d1, %d2; {USE} {DONE}", "matrices", SHARED, block=128, out=2048)
    assert [finding.diagnostic.message for finding in findings] == [
        "register in flight: `wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16` of thread (0,0,0) of CTA (0,0,0) writes %d1 (line 12), "
        "the thread reads it (line 12), and there is no wgmma.wait_group in between"
    ]
    assert findings[0].witness["variable"] == "%d1"


TENSOR = """.version 8.8
.target sm_100a
.address_size 64
.visible .entry k(.param .u64 out)
{{
.reg .pred %p<9>; .reg .b32 %r<60>; .reg .b64 %rd<9>;
.shared .align 128 .b8 a[4096]; .shared .align 128 .b8 b[2048]; .shared .align 8 .b8 bar[8]; .shared .align 4 .b8 at[4];
ld.param.u64 %rd1, [out];
mov.u32 %r1, %tid.x; setp.eq.u32 %p1, %r1, 0; setp.lt.u32 %p2, %r1, 32; mov.u32 %r8, bar; mov.u32 %r7, at;
@%p2 tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r7], 64;
@%p2 tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;
@%p1 mbarrier.init.shared::cta.b64 [%r8], 1;
mov.u32 %r4, a; mov.u32 %r5, b; shl.b32 %r6, %r1, 4; add.u32 %r9, %r4, %r6; add.u32 %r10, %r5, %r6;
st.shared.v4.u32 [%r9], {{%r1, %r1, %r1, %r1}}; st.shared.v4.u32 [%r9+2048], {{%r1, %r1, %r1, %r1}};
st.shared.v4.u32 [%r10], {{%r1, %r1, %r1, %r1}};
{fence}
tcgen05.fence::before_thread_sync; bar.sync 0; tcgen05.fence::after_thread_sync;
ld.shared.u32 %r2, [at];
shr.u32 %r11, %r4, 4; cvt.u64.u32 %rd3, %r11; or.b64 %rd3, %rd3, {tile};
shr.u32 %r12, %r5, 4; cvt.u64.u32 %rd4, %r12; or.b64 %rd4, %rd4, {tile};
setp.ne.u32 %p3, %r1, %r1;
@%p1 tcgen05.mma.cta_group::1.kind::f16 [%r2], %rd3, %rd4, {what}, %p3;
{early}
{commit}
WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p4, [%r8], 0; @!%p4 bra WAIT;
{after}
shl.b32 %r13, %r1, 16; and.b32 %r13, %r13, 6291456; add.u32 %r13, %r13, %r2;
tcgen05.ld.sync.aligned.32x32b.x2.b32 {{%r20, %r21}}, [%r13];
{wait}
mul.wide.u32 %rd5, %r1, 4; add.s64 %rd5, %rd5, %rd1; st.global.u32 [%rd5], %r20;
{last}
@%p2 {free}
ret;
}}
"""
PARTS = {
    "fence": "fence.proxy.async.shared::cta;",
    "tile": 1 << 46 | 16 << 32 | 8 << 16,
    "what": 1 << 4 | 1 << 7 | 1 << 10 | 8 << 17 | 8 << 24,
    "early": "",
    "commit": "@%p1 tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r8];",
    "after": "tcgen05.fence::after_thread_sync;",
    "wait": "tcgen05.wait::ld.sync.aligned;",
    "last": "bar.sync 0;",
    "free": "tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r2, 64;",
}
STORE = "tcgen05.st.sync.aligned.32x32b.x2.b32 [%r13], {%r20, %r21};"
STORED = "tcgen05.wait::st.sync.aligned;"
HANDED_OVER = "tcgen05.fence::before_thread_sync; bar.sync 0; tcgen05.fence::after_thread_sync;"
AGAIN = f"""@%p1 tcgen05.mma.cta_group::1.kind::f16 [%r2], %rd3, %rd4, {PARTS["what"]}, %p1; {PARTS["commit"]}
MORE: mbarrier.try_wait.parity.shared::cta.b64 %p4, [%r8], 1; @!%p4 bra MORE; {HANDED_OVER}"""
LOAD_AGAIN = "tcgen05.ld.sync.aligned.32x32b.x2.b32 {%r22, %r23}, [%r13];"
LOADED = "tcgen05.wait::ld.sync.aligned;"
READ_BACK = "tcgen05.ld.sync.aligned.32x32b.x2.b32 {%r22, %r23}, [%r13]; tcgen05.wait::ld.sync.aligned; bar.sync 0;"
BEFORE = "@%p1 tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r14];"
TWO = f"{PARTS['fence']} .shared .align 8 .b8 other[8]; .shared .align 4 .b8 flag[4]; mov.u32 %r14, other; mov.u32 %r16, flag;"
HALF = 1 << 4 | 1 << 7 | 1 << 10 | 4 << 17 | 8 << 24
SEEN_BY_ANOTHER = f"""
add.u32 %r15, %r2, 32; setp.eq.u32 %p5, %r1, 32;
@%p1 tcgen05.mma.cta_group::1.kind::f16 [%r15], [%r2], %rd4, {HALF}, %p3;
{BEFORE}
@!%p5 bra SPIN;
ANOTHER: mbarrier.try_wait.parity.shared::cta.b64 %p4, [%r14], 0; @!%p4 bra ANOTHER;
st.relaxed.cta.shared.u32 [%r16], 1;
SPIN: @!%p1 bra ON;
ld.relaxed.cta.shared.u32 %r17, [%r16]; setp.eq.u32 %p6, %r17, 0; @%p6 bra SPIN;
ON: @%p1 tcgen05.mma.cta_group::1.kind::f16 [%r2], %rd3, %rd4, {HALF}, %p1;
"""
TENSOR_CASES = {
    "a product that a thread writes where one of its own has read, as only another thread knows": (
        {
            "fence": f"{TWO} @%p1 mbarrier.init.shared::cta.b64 [%r14], 1; @%p1 st.shared.u32 [%r16], 0;",
            "what": HALF,
            "early": SEEN_BY_ANOTHER,
            "last": "bar.sync 0; @%p1 mbarrier.inval.shared::cta.b64 [%r14];",
        },
        [],
    ),
    "what an earlier commit signals, after a later one": (
        {
            "fence": f"{PARTS['fence']} .shared .align 8 .b8 other[8]; mov.u32 %r14, other; @%p1 mbarrier.init.shared::cta.b64 [%r14], 1;",
            "early": BEFORE,
            "last": "bar.sync 0; @%p1 mbarrier.inval.shared::cta.b64 [%r14];",
        },
        [],
    ),
    "a store that is waited for": ({"last": STORE + STORED + HANDED_OVER + AGAIN}, []),
    "a store that is not": ({"last": STORE + HANDED_OVER + AGAIN}, ["T003"]),
    "a store that is waited for too late": ({"last": STORE + HANDED_OVER + STORED + AGAIN}, ["T003"]),
    "a store that is read back": ({"last": STORE + STORED + READ_BACK}, []),
    "a store that is read back too early": ({"last": STORE + READ_BACK}, ["T003"]),
    "a load that is waited for before a product is written there": ({"last": LOAD_AGAIN + LOADED + HANDED_OVER + AGAIN}, []),
    "a load that is waited for too late": ({"last": LOAD_AGAIN + HANDED_OVER + LOADED + AGAIN}, ["T003"]),
    "right": ({}, []),
    "no proxy fence": ({"fence": ""}, ["P002"]),
    "a load that is not waited for": ({"wait": ""}, ["T003"]),
    "no fence after the wait": ({"after": ""}, ["T006"]),
    "freed while others may load": ({"last": ""}, ["T004"]),
    "not freed": ({"free": "bar.warp.sync -1;"}, ["T001"]),
    "not committed": ({"commit": ""}, ["T005", "deadlock"]),
    "a tile overwritten in flight": ({"early": "@%p1 st.shared.u32 [%r4], 0;"}, ["T005"]),
}


@pytest.mark.parametrize("case", TENSOR_CASES)
def test_tensor_memory(case: str) -> None:
    changed, expected = TENSOR_CASES[case]
    machine = Machine("sm_100a")
    code = machine.load(TENSOR.format(**{**PARTS, **changed}))
    ended = []
    try:
        findings = machine.launch(code, "k", np.zeros(128, np.uint32), grid=1, block=128, checks="all").findings
    except Fault as fault:
        findings, ended = fault.findings, [fault.kind]
    assert [*sorted(set(rules(list(findings)))), *ended] == expected


@pytest.mark.parametrize("before", [True, False])
def test_a_copy_of_a_loaded_register_before_the_wait_is_not_covered(before: bool) -> None:
    wait = PARTS["wait"]
    copied = "mov.b32 %r22, %r20;"
    stored = TENSOR.format(**{**PARTS, "wait": copied + wait if before else wait + copied}).replace("[%rd5], %r20", "[%rd5], %r22")
    assert len(left_out(stored)) == before


@pytest.mark.parametrize(("lanes", "named"), [("and.b32 %r13, %r13, 6291456;", 0), ("mov.u32 %r13, 0;", 1)])
def test_an_address_in_the_first_lanes_for_another_warp_is_not_covered(lanes: str, named: int) -> None:
    assert len(left_out(TENSOR.format(**PARTS).replace("and.b32 %r13, %r13, 6291456;", lanes))) == named


def left_out(text: str) -> list[str]:
    """What the monitor names as not covered in a launch without findings."""
    matrices, machine = Matrices(), Machine("sm_100a")
    machine.launch(machine.load(text), "k", np.zeros(128, np.uint32), grid=1, block=128, monitors=[matrices])
    assert not matrices.findings
    return not_covered([matrices])


LOAD = "wmma.load.{matrix}.sync.aligned.{layout}.{shape}.global.{type} {{%r4, %r5, %r6, %r7, %r8, %r9, %r10, %r11}}, [%rd1];"
OTHER = "wmma.load.{matrix}.sync.aligned.{layout}.{shape}.global.{type} {{%r12, %r13, %r14, %r15, %r16, %r17, %r18, %r19}}, [%rd1];"
MULTIPLY = (
    "wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32 {{%f1, %f2, %f3, %f4, %f5, %f6, %f7, %f8}}, {a}, {b},"
    " {{%f1, %f2, %f3, %f4, %f5, %f6, %f7, %f8}};"
)
ACCUMULATOR = "wmma.load.c.sync.aligned.row.{shape}.global.f32 {{%f1, %f2, %f3, %f4, %f5, %f6, %f7, %f8}}, [%rd1];"
REGISTERS = "{%r4, %r5, %r6, %r7, %r8, %r9, %r10, %r11}", "{%r12, %r13, %r14, %r15, %r16, %r17, %r18, %r19}"
RIGHT_A = {"matrix": "a", "layout": "row", "shape": "m16n16k16", "type": "f16"}
RIGHT_B = {"matrix": "b", "layout": "col", "shape": "m16n16k16", "type": "f16"}
FRAGMENTS_OF = {
    "right": ({}, {}, "m16n16k16", "", []),
    "another shape": ({"shape": "m32n8k16"}, {}, "m16n16k16", "", ["F001"]),
    "another shape of the accumulator": ({}, {}, "m8n32k16", "", ["F001"]),
    "another layout": ({}, {"layout": "row"}, "m16n16k16", "", ["F002"]),
    "the other matrix": ({"matrix": "b", "layout": "row"}, {}, "m16n16k16", "", ["F004"]),
    "a register that was computed": ({"shape": "m32n8k16"}, {}, "m16n16k16", "add.u32 %r4, %r4, 0;", []),
    "a copy": ({}, {}, "m8n32k16", "mov.f32 %f1, %f2;", ["F001"]),
}


@pytest.mark.parametrize("case", FRAGMENTS_OF)
def test_fragments_are_read_as_what_they_were_made_as(case: str) -> None:
    a, b, c, between, expected = FRAGMENTS_OF[case]
    loads = LOAD.format(**{**RIGHT_A, **a}) + OTHER.format(**{**RIGHT_B, **b}) + ACCUMULATOR.format(shape=c)
    findings, ended = watched(f"{loads} {between} {MULTIPLY.format(a=REGISTERS[0], b=REGISTERS[1])}", "matrices", block=32, out=4096)
    assert (sorted(set(rules(findings))), ended) == (expected, "ended")


@pytest.mark.parametrize(("who", "expected"), [("%p2", []), ("%p3", ["T002"])])
def test_both_ctas_of_a_pair_allocate(who: str, expected: list[str]) -> None:
    """The first warp of each, or of the first one only."""
    text = f"""{HEAD_OF_PAIR}.visible .entry k() .reqnctapercluster 2 {{
.reg .pred %p<4>; .reg .b32 %r<8>; .shared .align 4 .b8 at[4]; mov.u32 %r1, %tid.x; mov.u32 %r2, %cluster_ctarank; mov.u32 %r3, at;
setp.lt.u32 %p2, %r1, 32; setp.eq.and.u32 %p3, %r2, 0, %p2;
@{who} tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [%r3], 64;
@{who} ld.shared.u32 %r4, [at]; @{who} tcgen05.dealloc.cta_group::2.sync.aligned.b32 %r4, 64; ret; }}"""
    machine = Machine()

    findings = machine.launch(machine.load(text), "k", grid=4, block=64, cluster=2, checks="matrices").findings

    assert [one.diagnostic.rule for one in findings] == expected


HEAD_OF_PAIR = ".version 8.8\n.target sm_100a\n.address_size 64\n"
