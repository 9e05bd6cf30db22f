"""The lives of mbarrier objects in a kernel whose warps take their work from memory: each thing that is changed in it is seen."""

from __future__ import annotations

import pytest

from ptxkit.analyses import all_rules
from ptxkit.analyses.events.steps import Does
from ptxkit.analyses.framework.routine import Routine, routines
from ptxkit.analyses.protocols.mbarrier.kinds import MbarrierFault
from ptxkit.analyses.protocols.mbarrier.static_checks import static_checks
from ptxkit.analyses.protocols.mbarrier.usage import first_phases, rings, usage
from ptxkit.analyses.symbolic.induction import rounds
from ptxkit.syntax import parse

KERNEL = """\
.version 8.6
.target sm_90a
.address_size 64
.visible .entry k(.param .align 64 .b8 map[128], .param .u64 work) .maxntid 64
{
.reg .pred %p<16>;
.reg .b32 %r<64>;
.reg .b64 %rd<8>;
.shared .align 8 .b64 bars[8];
.shared .align 1024 .b8 data[12288];
mov.u32 %r1, %tid.x;
mov.u32 %r2, bars;
mov.u32 %r3, data;
shr.u32 %r4, %r1, 5;
setp.ne.u32 %p1, %r1, 0;
@%p1 bra READY;
mbarrier.init.shared::cta.b64 [%r2], 1;
mbarrier.init.shared::cta.b64 [%r2+8], 1;
mbarrier.init.shared::cta.b64 [%r2+16], 1;
mbarrier.init.shared::cta.b64 [%r2+24], 32;
mbarrier.init.shared::cta.b64 [%r2+32], 32;
mbarrier.init.shared::cta.b64 [%r2+40], 32;
fence.mbarrier_init.release.cluster;
READY:
bar.sync 0;
ld.param.u64 %rd2, [work];
cvta.to.global.u64 %rd2, %rd2;
mov.u64 %rd1, map;
cvta.param.u64 %rd1, %rd1;
setp.eq.u32 %p2, %r4, 0;
@!%p2 bra CONSUMER;
mov.b32 %r10, 0;
mov.b32 %r11, 1;
PRODUCER:
shl.b32 %r12, %r10, 3;
add.u32 %r13, %r2, %r12;
WAIT_EMPTY:
mbarrier.try_wait.parity.shared::cta.b64 %p3, [%r13+24], %r11;
@!%p3 bra WAIT_EMPTY;
elect.sync _|%p4, -1;
@!%p4 bra COPIED;
mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r13], 4096;
shl.b32 %r14, %r10, 12;
add.u32 %r15, %r3, %r14;
cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r15], [%rd1, {%r10, %r10}], [%r13];
COPIED:
add.u32 %r16, %r10, 1;
setp.eq.u32 %p5, %r16, 3;
selp.b32 %r10, 0, %r16, %p5;
selp.b32 %r17, 1, 0, %p5;
xor.b32 %r11, %r11, %r17;
ld.global.u32 %r18, [%rd2];
setp.ne.u32 %p6, %r18, 0;
@%p6 bra PRODUCER;
bra DONE;
CONSUMER:
mov.b32 %r20, 0;
mov.b32 %r21, 0;
CONSUME:
shl.b32 %r22, %r20, 3;
add.u32 %r23, %r2, %r22;
WAIT_FULL:
mbarrier.try_wait.parity.shared::cta.b64 %p7, [%r23], %r21;
@!%p7 bra WAIT_FULL;
shl.b32 %r24, %r20, 12;
add.u32 %r25, %r3, %r24;
ld.shared.u32 %r26, [%r25];
st.global.u32 [%rd2+64], %r26;
mbarrier.arrive.shared::cta.b64 _, [%r23+24];
add.u32 %r27, %r20, 1;
setp.eq.u32 %p8, %r27, 3;
selp.b32 %r20, 0, %r27, %p8;
selp.b32 %r28, 1, 0, %p8;
xor.b32 %r21, %r21, %r28;
ld.global.u32 %r29, [%rd2];
setp.ne.u32 %p9, %r29, 0;
@%p9 bra CONSUME;
DONE:
ret;
}
"""


def kernel(text: str) -> Routine:
    return routines(parse(text))[0]


def test_rings_of_a_correct_kernel() -> None:
    routine = kernel(KERNEL)
    assert static_checks(routine) == ()
    assert sorted(sorted(ring.offsets) for ring in rings(routine)) == [[0, 8, 16], [24, 32, 40]]
    assert all(use.is_known for use in usage(routine).uses)
    wait = usage(routine).of(Does.WAIT)[0]
    assert wait.index is not None and rounds(routine).numbers(wait.index) == frozenset((0, 8, 16))


CHANGES = {
    "an init is missing": ("mbarrier.init.shared::cta.b64 [%r2+8], 1;\n", "", "M001"),
    "a count": ("[%r2+8], 1;", "[%r2+8], 2;", "M005"),
    "all counts": (
        "+24], 32;\nmbarrier.init.shared::cta.b64 [%r2+32], 32;\nmbarrier.init.shared::cta.b64 [%r2+40], 32;",
        "+24], 33;\nmbarrier.init.shared::cta.b64 [%r2+32], 33;\nmbarrier.init.shared::cta.b64 [%r2+40], 33;",
        "M005",
    ),
    "no barrier": ("bar.sync 0;\n", "", "M002"),
    "no arrival": ("mbarrier.arrive.shared::cta.b64 _, [%r23+24];\n", "", "M009"),
    "no announcement": ("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r13], 4096;", "mbarrier.arrive.shared::cta.b64 _, [%r13];", "M007"),
    "too many bytes": ("[%r13], 4096;", "[%r13], 4112;", "M006"),
    "bytes that no boxes have": ("[%r13], 4096;", "[%r13], 4088;", "M006"),
    "no copy": (
        "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r15], [%rd1, {%r10, %r10}], [%r13];\n",
        "",
        "M006",
    ),
    "no wait": ("WAIT_FULL:\nmbarrier.try_wait.parity.shared::cta.b64 %p7, [%r23], %r21;\n@!%p7 bra WAIT_FULL;\n", "", "M019"),
    "nobody asks for a stage": (
        "WAIT_EMPTY:\nmbarrier.try_wait.parity.shared::cta.b64 %p3, [%r13+24], %r11;\n@!%p3 bra WAIT_EMPTY;\n",
        "",
        "M019",
    ),
    "a ring of another length": ("setp.eq.u32 %p5, %r16, 3;", "setp.eq.u32 %p5, %r16, 4;", "M008"),
    "both wait at first": ("mov.b32 %r11, 1;", "mov.b32 %r11, 0;", "M008"),
    "nobody waits at first": ("mov.b32 %r21, 0;", "mov.b32 %r21, 1;", "M008"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_is_changed_is_seen(change: str) -> None:
    old, new, rule = CHANGES[change]
    ids = {one.kind: one.id for one in all_rules()}
    assert KERNEL.count(old) == 1
    found = static_checks(kernel(KERNEL.replace(old, new)))
    assert [ids[one.kind] for one in found][:1] == [rule]
    assert found[0].steps


@pytest.mark.parametrize(("parity", "kinds"), [(0, []), (1, [MbarrierFault.MBARRIER_PARITY])])
def test_one_side_of_an_exchange_waits_first(parity: int, kinds: list[MbarrierFault]) -> None:
    copy = "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r15], [%rd1, {%r10, %r10}], [%r13];"
    text = KERNEL.replace("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r13], 4096;", "").replace(
        copy, "st.shared.u32 [%r15], %r10;\nmbarrier.arrive.shared::cta.b64 _, [%r13];"
    )
    text = text.replace("mov.b32 %r21, 0;", f"mov.b32 %r21, {parity};")
    assert [one.kind for one in static_checks(kernel(text))] == kinds


@pytest.mark.parametrize(("group", "kinds"), [("", [MbarrierFault.EXPECT_TX_VS_BYTES]), (".cta_group::2", [])])
def test_what_a_multicast_copy_brings_a_cta_counts_there(group: str, kinds: list[MbarrierFault]) -> None:
    """Only the mbarrier of a pair of CTAs counts the bytes of both."""
    copy = "mbarrier::complete_tx::bytes"
    text = KERNEL.replace(copy, f"{copy}.multicast::cluster{group}").replace("{%r10, %r10}], [%r13]", "{%r10, %r10}], [%r13], %rs1")
    text = text.replace("sm_90a", "sm_100a").replace("[%r13], 4096;", "[%r13], 4112;").replace(".reg .b64", ".reg .b16 %rs<2>;\n.reg .b64")
    assert [one.kind for one in static_checks(kernel(text))] == kinds


def test_a_stage_given_back_only_behind_the_loop() -> None:
    arrival = "mbarrier.arrive.shared::cta.b64 _, [%r23+24];\n"
    text = KERNEL.replace(arrival, "").replace("@%p9 bra CONSUME;\n", "@%p9 bra CONSUME;\n" + arrival)
    assert [one.kind for one in static_checks(kernel(text))] == [MbarrierFault.WAIT_NEVER_ARRIVED]


def test_waits_behind_conditions_of_one_role_are_not_first_ones() -> None:
    """What a thread waits for later may have another parity: nothing is said."""
    again = "WAIT_AGAIN:\nmbarrier.try_wait.parity.shared::cta.b64 %p10, [%r2], 1;\n@!%p10 bra WAIT_AGAIN;\n"
    text = KERNEL.replace("@%p9 bra CONSUME;\n", "@%p9 bra CONSUME;\n" + again)
    assert static_checks(kernel(text)) == ()


def test_the_first_round_of_a_ring() -> None:
    routine = kernel(KERNEL)
    waits = usage(routine).of(Does.WAIT)
    assert [first_phases(routine, wait) for wait in waits] == [frozenset(((0, 1),)), frozenset(((0, 0),))]


def test_a_loop_unrolled_by_two_goes_through_every_other_stage() -> None:
    text = KERNEL.replace("+24]", "+32]").replace("%r16, 3;", "%r16, 4;").replace("%r27, 3;", "%r27, 4;").replace("%r20, 1;", "%r20, 2;")
    inits = "\n".join([f"mbarrier.init.shared::cta.b64 [%r2+{8 * n}], {1 if n < 4 else 32};" for n in range(8)])
    start, end = text.index("mbarrier.init"), text.index("fence.mbarrier_init")
    text = text[:start] + inits + "\n" + text[end:].replace("data[12288]", "data[16384]")
    wait, last = text.index("WAIT_FULL:"), "mbarrier.arrive.shared::cta.b64 _, [%r23+32];\n"
    half = text[wait : text.index(last) + len(last)]
    other = (
        half.replace("WAIT_FULL", "WAIT_NEXT")
        .replace("[%r23]", "[%r23+8]")
        .replace("[%r23+32]", "[%r23+40]")
        .replace("[%r25]", "[%r25+4096]")
    )
    assert static_checks(kernel(text.replace(half, half + other))) == ()


ROLE = """\
.version 8.0
.target sm_90
.address_size 64
.visible .entry k() .reqntid 256
{
.reg .pred %p<4>;
.reg .b32 %r<4>;
.shared .align 8 .b64 bar;
mov.u32 %r1, %tid.x;
setp.ge.u32 %p1, %r1, 32;
@%p1 bra END;
setp.ne.u32 %p2, %r1, 0;
@%p2 bra READY;
mbarrier.init.shared::cta.b64 [bar], 32;
READY:
bar.warp.sync 0xffffffff;
mbarrier.arrive.shared::cta.b64 _, [bar];
WAIT:
mbarrier.try_wait.parity.shared::cta.b64 %p3, [bar], 0;
@!%p3 bra WAIT;
END:
bar.sync 0;
ret;
}
"""


def test_a_warp_barrier_publishes_an_mbarrier_within_its_warp() -> None:
    assert not static_checks(kernel(ROLE))
    for text in (ROLE.replace("bar.warp.sync 0xffffffff;\n", ""), ROLE.replace("%r1, 32;", "%r1, 64;").replace("[bar], 32", "[bar], 64")):
        assert [one.kind for one in static_checks(kernel(text))] == [MbarrierFault.MBARRIER_INIT_NOT_PUBLISHED]
