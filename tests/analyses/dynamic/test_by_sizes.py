"""Whether a finding appears with other scalars and element counts."""

from __future__ import annotations

import pytest
from exercising import INDEX, exercised, is_of_the_kernel

import ptxkit
from ptxkit.analyses.dynamic.by_sizes import NOT_TRIED
from ptxkit.analyses.dynamic.exercise import exercise
from ptxkit.analyses.dynamic.judging import (
    SIZES,
)
from ptxkit.analyses.execution.loading import loaded
from ptxkit.analyses.framework.routine import routines


def test_a_synthesized_divisor_sends_threads_to_one_address() -> None:
    body = """ld.param.u64 %rd1, [p]; ld.param.u32 %r3, [n]; mov.u32 %r1, %tid.x; div.u32 %r2, %r1, %r3;
mul.wide.u32 %rd2, %r2, 4; add.s64 %rd3, %rd1, %rd2; st.global.u32 [%rd3], %r1;"""
    done = exercised(body, ".param .u64 p, .param .u32 n")

    assert {one.doubt for one in done.found} == {SIZES}


@pytest.mark.parametrize(("stride", "shows"), [("and.b32 %r3, %r3, 63;", False), ("mov.u32 %r3, 0;", True)])
def test_a_number_that_is_a_power_of_two_by_chance(stride: str, shows: bool) -> None:
    # rows are as many words apart as n has beyond a multiple of 64: none where n is a power of two
    body = f"ld.param.u32 %r3, [n]; {stride} mul.lo.u32 %r4, %r1, %r3; mul.wide.u32 %rd2, %r4, 4; add.s64 %rd3, %rd1, %rd2;"
    done = exercised(f"{INDEX} {body} st.global.u32 [%rd3], %r1;", ".param .u64 p, .param .u32 n", ".reqntid 64")

    assert {one.doubt for one in done.found} == {"" if shows else SIZES}


@pytest.mark.parametrize("chosen", ["and.b32 %r2, %r1, %r3;", "shr.u32 %r2, %r1, %r3;"])
def test_a_synthesized_mask_sends_threads_to_one_address(chosen: str) -> None:
    body = f"""ld.param.u64 %rd1, [p]; ld.param.u32 %r3, [n]; mov.u32 %r1, %tid.x; {chosen}
mul.wide.u32 %rd2, %r2, 4; add.s64 %rd3, %rd1, %rd2; st.global.u32 [%rd3], %r1;"""
    done = exercised(body, ".param .u64 p, .param .u32 n")

    assert {one.doubt for one in done.found} == {NOT_TRIED}


def test_a_synthesized_number_too_large_for_a_table() -> None:
    body = """.shared .align 4 .b8 t[4]; ld.param.u64 %rd1, [p]; ld.param.u32 %r1, [n]; mov.u32 %r2, 0; mov.u32 %r3, t;
L: st.shared.u32 [%r3], %r2; add.u32 %r3, %r3, 4; add.u32 %r2, %r2, 1; setp.lt.u32 %p1, %r2, %r1; @%p1 bra L; st.global.u32 [%rd1], %r2;"""
    done = exercised(body, ".param .u64 p, .param .u32 n", ".reqntid 1")

    assert {one.doubt for one in done.found} == {SIZES}


def test_a_single_iteration_may_take_several_elements() -> None:
    # n words of a table of 25: with one word, the last two begin before the table, and with the 16 of one iteration they are in it
    body = """.shared .align 4 .b8 t[100]; ld.param.u64 %rd1, [p]; ld.param.u32 %r1, [n]; mov.u32 %r2, 0; mov.u32 %r3, t;
shl.b32 %r4, %r1, 2; add.u32 %r4, %r4, %r3; st.shared.u32 [%r4+-8], %r1;
L: ld.shared.u32 %r5, [%r3]; add.u32 %r2, %r2, 16; setp.lt.u32 %p1, %r2, %r1; @%p1 bra L; st.global.u32 [%rd1], %r5;"""
    done = exercised(body, ".param .u64 p, .param .u32 n", ".reqntid 1")

    assert {one.doubt for one in done.found if one.finding.diagnostic.name == "out-of-bounds-access"} == {SIZES}


def test_a_loop_that_ends_sooner_leaves_the_array_at_another_copy_of_the_access() -> None:
    # 32 threads store words to an array of 16, two a round, and the last one on its own
    body = """.shared .align 4 .b8 t[64]; ld.param.u32 %r1, [n]; mov.u32 %r2, %tid.x; shl.b32 %r3, %r2, 2; mov.u32 %r4, t;
add.u32 %r3, %r3, %r4; mov.u32 %r5, 0; setp.lt.u32 %p1, %r1, 2; @%p1 bra REST;
L: st.shared.u32 [%r3], %r5;
add.u32 %r5, %r5, 2; setp.lt.u32 %p2, %r5, %r1; @%p2 bra L;
REST: st.shared.u32 [%r3], %r1;"""
    done = exercised(body, ".param .u32 n", ".reqntid 32")

    assert [(one.finding.diagnostic.rule, one.doubt) for one in done.found] == [("S002", "")]


def test_a_volume_of_other_sizes_is_one_that_fits_into_memory() -> None:
    # planes of `wide` times `high` elements: with all sizes doubled they are larger than any array that is synthesized
    body = f"""{INDEX} .shared .align 4 .b8 t[2048]; ld.param.u32 %r2, [wide]; ld.param.u32 %r3, [high]; ld.param.u32 %r4, [n];
mov.u32 %r1, %tid.x; shl.b32 %r5, %r1, 2; mov.u32 %r6, t; add.u32 %r7, %r5, %r6; xor.b32 %r8, %r5, 1024; add.u32 %r8, %r8, %r6;
mov.u32 %r9, 0; L: st.shared.u32 [%r7], %r9; bar.sync 0; ld.shared.u32 %r10, [%r8]; mov.u32 %r11, %ctaid.x;
mad.lo.u32 %r11, %r9, %r3, %r11; mad.lo.u32 %r11, %r11, %r2, %r1; mul.wide.u32 %rd2, %r11, 4; add.s64 %rd3, %rd1, %rd2;
st.global.u32 [%rd3], %r10; add.u32 %r9, %r9, 1; setp.lt.u32 %p1, %r9, %r4; @%p1 bra L;"""
    done = exercised(body, ".param .u32 wide, .param .u32 high, .param .u64 p, .param .u32 n", ".reqntid 512")

    assert {(one.finding.diagnostic.rule, one.doubt) for one in done.found} == {("S003", "")}


@pytest.mark.parametrize(
    ("index", "doubts"), [("mov.u32 %r4, %r2;", {SIZES}), ("and.b32 %r4, %r2, 3;", {""}), ("rem.u32 %r4, %r2, 4;", {""})]
)
def test_a_ring_is_meant_to_be_gone_round(index: str, doubts: set[str]) -> None:
    """It has three words, and the kernel counts to four."""
    body = f""".shared .align 4 .b8 t[12]; ld.param.u64 %rd1, [p]; ld.param.u32 %r1, [n]; mov.u32 %r2, 0; mov.u32 %r3, t;
L: {index} shl.b32 %r5, %r4, 2; add.u32 %r5, %r3, %r5; st.shared.u32 [%r5], %r2; add.u32 %r2, %r2, 1; setp.lt.u32 %p1, %r2, %r1;
@%p1 bra L; st.global.u32 [%rd1], %r2;"""
    done = exercised(body, ".param .u64 p, .param .u32 n", ".reqntid 1")

    assert {one.doubt for one in done.found} == doubts


@pytest.mark.parametrize(("stride", "shows"), [("mul.lo.u32 %r3, %r1, %r2;", False), ("mad.lo.u32 %r3, %r1, %r2, %r1;", True)])
def test_a_host_may_keep_to_rows_that_vector_accesses_need(stride: str, shows: bool) -> None:
    # row i has n or n + 1 elements of 4 bytes, and each thread copies 16 bytes from its row; the loop over n takes two elements at a time
    body = f"""ld.param.u64 %rd1, [p]; ld.param.u32 %r2, [n]; mov.u32 %r1, %tid.x; {stride}
    mul.wide.u32 %rd2, %r3, 4; add.s64 %rd3, %rd1, %rd2; .shared .align 16 .b8 s[2048]; shl.b32 %r5, %r1, 4; mov.u32 %r6, s;
    add.u32 %r5, %r6, %r5; mov.u32 %r8, 0; loop: cp.async.cg.shared.global [%r5], [%rd3], 16; cp.async.wait_all; ld.shared.u32 %r4, [%r5];
    add.u32 %r8, %r8, 2; setp.lt.u32 %p1, %r8, %r2; @%p1 bra loop;
    mul.wide.u32 %rd4, %r1, 4; add.s64 %rd4, %rd1, %rd4; st.global.u32 [%rd4+4000000], %r4;"""
    done = exercised(body, ".param .u64 p, .param .u32 n", ".reqntid 128")

    assert {one.doubt for one in done.found if one.finding.diagnostic.name == "cpasync-operand"} == {"" if shows else SIZES}


GUESSED = """.version 9.0
.target sm_100a
.address_size 64
.visible .entry k(.param .align 64 .b8 a[128], .param .align 64 .b8 b[128]) .reqntid 32
{
.reg .pred %p<4>; .reg .b32 %r<9>; .reg .b64 %rd<9>;
.shared .align 1024 .b8 s[65536]; .shared .align 8 .b64 bar[2];
mov.u32 %r1, %tid.x; setp.ne.u32 %p1, %r1, 0; @%p1 ret;
mov.b64 %rd1, a; cvta.param.u64 %rd1, %rd1; mov.b64 %rd2, b; cvta.param.u64 %rd2, %rd2; mov.u32 %r2, s; mov.u32 %r3, bar;
INIT
fence.proxy.async.shared::cta;
mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r3], 48;
mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r3+8], 4112;
COPY [%r2], [%rd1, {0, 0}], [%r3+8];
COPY [%r2+8192], [%rd2, {0, 0}], [%r3+8];
L: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r3+8], 0; @!%p2 bra L;
ret;
}
"""


@pytest.mark.parametrize(
    ("init", "rules"),
    [
        ("mbarrier.init.shared::cta.b64 [%r3+8], 1;", {"M001": ""}),
        ("mbarrier.init.shared::cta.b64 [%r3], 1; mbarrier.init.shared::cta.b64 [%r3+8], 1;", {"M006": NOT_TRIED}),
    ],
)
def test_synthesized_boxes_affect_phases_and_not_inits(init: str, rules: dict[str, str]) -> None:
    copy = "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
    module = ptxkit.parse(GUESSED.replace("INIT", init).replace("COPY", copy))
    done = exercise(routines(module)[0], loaded(module))

    assert {one.finding.diagnostic.rule: one.doubt for one in done.found} == rules


TWO_ROWS = """.shared .align 4 .b8 s[8192];
ld.param.u64 %rd1, [p]; ld.param.u32 %r9, [n]; mov.u32 %r1, %tid.x; mov.u32 %r2, s; mov.u32 %r6, 0; {apart}
mad.lo.u32 %r3, %r1, 4, %r2; mad.lo.u32 %r4, %r8, 4, %r3; st.shared.u32 [%r3], %r1; st.shared.u32 [%r4], %r6; bar.sync 0;
ld.shared.u32 %r10, [%r3]; ld.shared.u32 %r11, [%r4]; add.u32 %r10, %r10, %r11;
LOOP: add.u32 %r6, %r6, 1; setp.lt.u32 %p1, %r6, %r9; @%p1 bra LOOP;
mul.wide.u32 %rd2, %r1, 4; add.s64 %rd3, %rd1, %rd2; st.global.u32 [%rd3], %r10;"""


@pytest.mark.parametrize(("apart", "rules"), [("mov.u32 %r8, %r9;", set()), ("mov.u32 %r8, 3;", {"S003"})])
def test_a_loop_bound_may_be_the_number_of_threads(apart: str, rules: set[str]) -> None:
    done = exercised(TWO_ROWS.format(apart=apart), ".param .u64 p, .param .u32 n")

    assert {one.finding.diagnostic.rule for one in done.found if is_of_the_kernel(one)} == rules


def test_shared_memory_is_unwritten_only_with_a_remainder() -> None:
    # thread 0 adds up the elements of its CTA, of which the last CTA does not write all if n is no multiple of the block
    body = """.shared .align 4 .b8 s[512]; ld.param.u64 %rd1, [p]; ld.param.u32 %r1, [n]; mov.u32 %r2, %tid.x; mov.u32 %r3, %ctaid.x;
    mad.lo.u32 %r4, %r3, 128, %r2; mov.u32 %r5, s; shl.b32 %r6, %r2, 2; add.u32 %r6, %r6, %r5; mul.wide.u32 %rd2, %r4, 4;
    add.s64 %rd3, %rd1, %rd2; setp.ge.u32 %p1, %r4, %r1; @%p1 bra FILLED; ld.global.u32 %r7, [%rd3]; st.shared.u32 [%r6], %r7;
    FILLED: bar.sync 0; setp.ne.s32 %p2, %r2, 0; @%p2 bra END; mov.u32 %r8, 0; mov.u32 %r9, 0;
    L: ld.shared.u32 %r10, [%r5]; add.u32 %r8, %r8, %r10; add.u32 %r5, %r5, 4; add.u32 %r9, %r9, 1;
    setp.ne.s32 %p3, %r9, 128; @%p3 bra L; st.global.u32 [%rd3], %r8; END:"""
    done = exercised(body, ".param .u64 p, .param .u32 n", ".reqntid 128")

    assert {(one.finding.diagnostic.rule, one.doubt) for one in done.found} == {("R008", SIZES)}


def test_a_length_of_the_part_of_a_cta_is_a_multiple_of_the_block() -> None:
    # each CTA stores two elements a thread to a part of n elements: CTAs meet if n is less than that
    body = """ld.param.u64 %rd1, [p]; ld.param.u32 %r1, [n]; mov.u32 %r2, %tid.x; mov.u32 %r3, %ctaid.x; mad.lo.u32 %r4, %r3, %r1, 0;
    shl.b32 %r5, %r2, 1; add.u32 %r4, %r4, %r5; mul.wide.u32 %rd2, %r4, 4; add.s64 %rd3, %rd1, %rd2;
    mov.u32 %r6, 0; L: st.global.u32 [%rd3], %r2; st.global.u32 [%rd3+4], %r3; add.u32 %r6, %r6, 1;
    setp.lt.u32 %p1, %r6, %r1; @%p1 bra L;"""
    done = exercised(body, ".param .u64 p, .param .u32 n")

    assert done.found
    assert {one.doubt for one in done.found} == {SIZES}
