"""Kernels exercised with example launches."""

from __future__ import annotations

from typing import Any

import pytest

import ptxkit
from ptxkit.analyses.dynamic import runs as runs_module
from ptxkit.analyses.dynamic.by_sizes import NOT_TRIED
from ptxkit.analyses.dynamic.exercise import Exercised, exercise, hands_over
from ptxkit.analyses.dynamic.judging import (
    CHECKED,
    CTAS,
    FAR_CTAS,
    FEW_THREADS,
    OTHER_CONTENTS,
    SHAPES,
    SIZES,
    TABLES,
    UNREAD,
    WRITERS,
    Found,
)
from ptxkit.analyses.dynamic.once import Ran, once
from ptxkit.analyses.execution.contents import COUNT
from ptxkit.analyses.execution.loading import loaded
from ptxkit.analyses.framework.routine import routines
from ptxkit.analyses.inputs.example import Example

HEADER = ".version 8.0\n.target sm_80\n.address_size 64\n"
REGISTERS = ".reg .pred %p<4>; .reg .b32 %r<16>; .reg .b64 %rd<12>;\n"


def exercised(body: str, parameters: str = ".param .u64 p", directives: str = "", header: str = HEADER) -> Exercised:
    module = ptxkit.parse(f"{header}.visible .entry k({parameters}) {directives}\n{{\n{REGISTERS}{body}\nret;\n}}\n")
    return exercise(routines(module)[0], loaded(module))


def is_of_the_kernel(one: Found) -> bool:
    """Whether other sizes and shapes show a finding too."""
    return one.doubt not in (CTAS, NOT_TRIED, SIZES, SHAPES)


SHARED = """.shared .align 4 .b8 s[64];
mov.u32 %r1, %tid.x; mov.u32 %r2, s; shl.b32 %r3, %r1, 2; add.u32 %r2, %r2, %r3; st.shared.u32 [%r2], %r1;"""
INDEX = "ld.param.u64 %rd1, [p]; mov.u32 %r1, %tid.x; mul.wide.u32 %rd2, %r1, 4; add.s64 %rd3, %rd1, %rd2;"


def test_a_correct_kernel_runs_to_its_end() -> None:
    done = exercised(f"{INDEX} st.global.u32 [%rd3], %r1;")

    assert done.is_complete
    assert not done.found


def test_arrays_are_as_large_as_it_takes() -> None:
    done = exercised(f"{INDEX} st.global.u32 [%rd3+8000000], %r1;")

    assert done.is_complete
    assert not done.found


def test_a_block_that_leaves_an_array_is_no_launch() -> None:
    done = exercised(SHARED)

    assert done.example is not None
    assert done.example.block == (16, 1, 1)
    assert not done.found


def test_who_says_his_block_leaves_the_array_himself() -> None:
    done = exercised(SHARED, directives=".reqntid 64")

    assert [one.finding.diagnostic.name for one in done.found] == ["out-of-bounds-access"]


def test_what_shows_with_other_contents_only_is_known() -> None:
    # thread i adds to the element that p names: a race where two name the same
    body = "ld.global.u32 %r2, [%rd3]; and.b32 %r2, %r2, 1; mul.wide.u32 %rd4, %r2, 4; add.s64 %rd5, %rd1, %rd4;"
    done = exercised(f"{INDEX} {body} st.global.u32 [%rd5+65536], %r1;")

    assert {one.doubt for one in done.found} == {TABLES}


def test_a_race_shows_with_other_sizes() -> None:
    done = exercised("ld.param.u64 %rd1, [p]; mov.u32 %r1, %tid.x; st.global.u32 [%rd1], %r1;")

    assert [one.finding.diagnostic.name for one in done.found] == ["race-global"]
    assert done.found[0].doubt == FEW_THREADS


@pytest.mark.parametrize(("after", "families"), [("bar.sync 1;", {"C"}), ("", set())])
def test_a_barrier_that_an_odd_number_divides_a_block_at(after: str, families: set[str]) -> None:
    # that threads exit before it is no finding: a barrier waits for those that have not exited
    body = f"ld.param.u32 %r2, [n]; mov.u32 %r1, %tid.x; setp.ge.u32 %p1, %r1, %r2; @%p1 bra END; bar.sync 0; END: {after}"
    done = exercised(body, ".param .u32 n", ".reqntid 64")

    assert {one.finding.diagnostic.rule[0] for one in done.found} == families


@pytest.mark.parametrize(("after", "is_found"), [("bar.sync 1;", True), ("", False)])
@pytest.mark.parametrize("rounds", ["", "setp.lt.u32 %p1, %r1, %r7; @%p1 bra ROUND;"], ids=["one round", "several"])
def test_a_loop_over_the_elements_of_a_grid_ends_for_some_threads_first(after: str, is_found: bool, rounds: str) -> None:
    body = f"""ld.param.u32 %r7, [n]; mov.u32 %r2, %ntid.x; mov.u32 %r3, %ctaid.x; mov.u32 %r4, %nctaid.x; mov.u32 %r5, %tid.x;
mad.lo.u32 %r1, %r3, %r2, %r5; mul.lo.u32 %r6, %r4, %r2; setp.ge.u32 %p1, %r1, %r7; @%p1 bra END;
ROUND: bar.sync 0; add.u32 %r1, %r1, %r6; {rounds}
END: {after}"""
    done = exercised(body, ".param .u32 n", ".reqntid 64")

    assert bool({one.finding.diagnostic.rule[0] for one in done.found if is_of_the_kernel(one)}) == is_found


def test_memory_that_nobody_would_mean_ends_a_run_and_not_the_program() -> None:
    from ptxkit.analyses.inputs.example import MOST_BYTES, Array, Map
    from ptxkit.machine import Fault, Machine

    for argument in (Array(".f32", MOST_BYTES), Map(".f32", (1 << 20, 1 << 20), (8, 8))):
        with pytest.raises(Fault, match="synthesized"):
            argument.make(Machine("sm_90a"), COUNT, 1, [])


def test_one_thread_where_nobody_does_more() -> None:
    done = exercised("ld.param.u64 %rd1, [p]; mov.u32 %r1, %tid.x; st.global.u32 [%rd1], %r1;")

    assert [one.doubt for one in done.found] == [FEW_THREADS]


@pytest.mark.parametrize(("value", "one_thread"), [("mov.u32 %r4, 1;", False), ("mov.u32 %r4, %r1;", True)])
def test_one_thread_where_a_number_of_the_launch_may_leave_out_all_others(value: str, one_thread: bool) -> None:
    body = f"setp.ge.u32 %p1, %r1, %r2; @%p1 bra END; ld.global.u32 %r3, [%rd1]; {value} add.u32 %r4, %r4, %r3;"
    start = "ld.param.u64 %rd1, [p]; ld.param.u32 %r2, [n]; mov.u32 %r1, %tid.x;"
    done = exercised(f"{start} {body} st.global.u32 [%rd1], %r4; END:", ".param .u64 p, .param .u32 n")

    assert {one.doubt == FEW_THREADS for one in done.found} == {not one_thread}


def test_a_number_of_threads_does_not_say_how_long_each_dimension_is() -> None:
    # thread (x, y) stores to 4x + y and 4x + y + 2: to words of its own where y is 0 or 1
    body = "mov.u32 %r2, %tid.y; mad.lo.u32 %r3, %r1, 4, %r2; mul.wide.u32 %rd4, %r3, 4; add.s64 %rd5, %rd1, %rd4;"
    stores = "st.global.u32 [%rd5], 1; st.global.u32 [%rd5+8], 2;"

    done = [exercised(f"{INDEX} {body} {stores}", directives=one) for one in (".maxntid 16", ".maxntid 4, 4")]

    assert [{one.doubt == SHAPES for one in each.found} for each in done] == [{True}, {False}]


def test_a_race_of_warps_that_one_warp_is_without() -> None:
    # lane 0 of each warp stores the number of its warp, which the kernel does not look at otherwise
    done = exercised(f"{INDEX} and.b32 %r2, %r1, 31; setp.ne.u32 %p1, %r2, 0; @%p1 bra L; st.global.u32 [%rd1+65536], %r1; L:")

    assert {one.doubt for one in done.found} == {SHAPES}


def test_a_race_that_one_warp_and_its_shuffle_are_without() -> None:
    # all lanes of a warp store the same, after a shuffle that all elements went into
    body = "ld.global.u32 %r2, [%rd3]; shfl.sync.idx.b32 %r3, %r2, 5, 31, -1; st.global.u32 [%rd1], %r3;"
    done = exercised(f"{INDEX} {body}")

    assert {one.in_order for one in done.found} == {False}


LEADERS = """.shared .align 4 .b8 s[8]; ld.global.u32 %r2, [%rd3]; and.b32 %r3, %r1, 31; setp.ne.u32 %p1, %r3, 0;
@!%p1 st.shared.u32 [s], %r2; bar.sync 0; {after} st.global.u32 [%rd3], %r2;"""


@pytest.mark.parametrize(("after", "is_read"), [("ld.shared.u32 %r2, [s];", True), ("ld.shared.u32 %r2, [s+4];", False)])
def test_what_nobody_reads_may_be_stored_by_several(after: str, is_read: bool) -> None:
    done = exercised(f"{INDEX} {LEADERS.format(after=after)}", directives=".reqntid 128")

    assert {one.doubt == UNREAD for one in done.found if one.finding.diagnostic.name == "smem-race"} == {not is_read}


GREATEST = """ld.param.u32 %r9, [n]; mov.b32 %r2, 0; mov.u32 %r3, %r1; shl.b32 %r8, %r1, 3; setp.lt.u32 %p1, %r8, %r9;
shl.b32 %r7, %r1, 5; cvt.u64.u32 %rd6, %r7; add.s64 %rd6, %rd1, %rd6; @%p1 ld.global.u32 %r2, [%rd6]; add.u32 %r7, %r1, %r2;
shfl.sync.bfly.b32 %r4, %r2, 1, 31, -1; shfl.sync.bfly.b32 %r5, %r3, 1, 31, -1; setp.gt.u32 %p1, %r2, %r4;
selp.b32 %r3, %r3, %r5, %p1; shr.u32 %r6, %r1, 1; mul.wide.u32 %rd4, %r6, 4; add.s64 %rd5, %rd1, %rd4; st.global.u32 [%rd5+65536], {};"""


@pytest.mark.parametrize(("stored", "shows"), [("%r3", False), ("%r7", True)])
def test_who_chooses_one_of_equal_elements_may_store_any(stored: str, shows: bool) -> None:
    # the index of the greater of two elements: threads beyond the last one have none, and choose each other's
    done = exercised(f"{INDEX} {GREATEST.format(stored)}", ".param .u64 p, .param .u32 n", ".reqntid 256")

    assert [(one.depends, one.doubt) for one in done.found] == [(True, "") if shows else (False, OTHER_CONTENTS)]


@pytest.mark.parametrize(("index", "is_by_table"), [("ld.global.u32 %r2, [%rd3];", True), ("mov.u32 %r2, %r1;", False)])
def test_a_table_says_where_threads_meet(index: str, is_by_table: bool) -> None:
    # each stores to the element of its index, and reads the one after it
    body = f"""{index} mul.wide.u32 %rd4, %r2, 4; add.s64 %rd5, %rd1, %rd4; ld.global.u32 %r3, [%rd5+65540];
add.u32 %r3, %r3, %r1; st.global.u32 [%rd5+65536], %r3;"""
    done = exercised(f"{INDEX} {body}", directives=".reqntid 64")

    assert {one.doubt == TABLES for one in done.found} == {is_by_table}


@pytest.mark.parametrize(("stored", "is_by_table"), [("%r4", True), ("%r3", False)])
def test_a_table_that_says_which_elements_are_swapped(stored: str, is_by_table: bool) -> None:
    # what is stored to an element comes from another one, or from this one: then two threads with one element lose an update
    body = f"""ld.global.u32 %r2, [%rd3]; and.b32 %r2, %r2, 15; mul.wide.u32 %rd4, %r2, 4; add.s64 %rd5, %rd1, %rd4;
ld.global.u32 %r3, [%rd5+65536];
ld.global.u32 %r4, [%rd3+4096];
add.u32 {stored}, {stored}, 1;
st.global.u32 [%rd5+65536], {stored};"""
    done = exercised(f"{INDEX} {body}", directives=".reqntid 64")

    assert {one.doubt == TABLES for one in done.found if one.finding.witness.get("space") == "global"} == {is_by_table}


def test_a_divisor_that_was_made_up_merges_threads() -> None:
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
def test_bits_of_an_index_that_were_made_up_merge_threads(chosen: str) -> None:
    body = f"""ld.param.u64 %rd1, [p]; ld.param.u32 %r3, [n]; mov.u32 %r1, %tid.x; {chosen}
mul.wide.u32 %rd2, %r2, 4; add.s64 %rd3, %rd1, %rd2; st.global.u32 [%rd3], %r1;"""
    done = exercised(body, ".param .u64 p, .param .u32 n")

    assert {one.doubt for one in done.found} == {NOT_TRIED}


def test_a_block_that_may_be_longer_in_another_dimension_is_not_whole() -> None:
    # each row of 32 threads writes one of the words that are read
    body = """.shared .align 4 .b8 s[8]; .shared .align 4 .b8 t[128]; mov.u32 %r2, %tid.y; shl.b32 %r3, %r2, 2; mov.u32 %r4, s;
add.u32 %r3, %r3, %r4; shl.b32 %r5, %r1, 2; mov.u32 %r6, t; add.u32 %r5, %r5, %r6; st.shared.u32 [%r5], %r1;
setp.ne.u32 %p1, %r1, 0; @!%p1 st.shared.u32 [%r3], %r1; bar.sync 0; ld.shared.u32 %r7, [s+4]; st.global.u32 [%rd3], %r7;"""
    done = exercised(f"{INDEX} {body}")

    assert {one.doubt for one in done.found} == {WRITERS}


def test_what_only_a_shuffle_orders() -> None:
    body = """.shared .align 4 .b8 s[128];
mov.u32 %r1, %tid.x; mov.u32 %r2, s; shl.b32 %r3, %r1, 2; add.u32 %r4, %r2, %r3; st.shared.u32 [%r4], %r1;
shfl.sync.idx.b32 %r5, %r1, 0, 31, -1; xor.b32 %r3, %r3, 4; add.u32 %r4, %r2, %r3; ld.shared.u32 %r6, [%r4];
ld.param.u64 %rd1, [p]; mul.wide.u32 %rd2, %r1, 4; add.s64 %rd1, %rd1, %rd2; st.global.u32 [%rd1], %r6;"""
    done = exercised(body, directives=".reqntid 32")

    assert [one.in_order for one in done.found] == [False]


def test_flags_that_are_zero_at_first() -> None:
    # CTA 0 stores and sets a flag without a release, CTA 1 reads what was stored if it sees the flag
    body = """ld.param.u64 %rd1, [p]; mov.u32 %r1, %ctaid.x; mov.u32 %r4, 1; setp.eq.u32 %p1, %r1, 1; @%p1 bra READ;
st.global.u32 [%rd1+4], %r4; st.relaxed.gpu.global.u32 [%rd1], %r4; ret;
READ: ld.relaxed.gpu.global.u32 %r2, [%rd1]; setp.ne.u32 %p2, %r2, 1; @%p2 bra END;
ld.global.u32 %r3, [%rd1+4]; st.global.u32 [%rd1+8], %r3; END:"""
    done = exercised(body.replace("[%rd1]", "[%rd1+128]"))

    assert {one.finding.diagnostic.name for one in done.found} == {"race-global"}


def test_dynamic_shared_memory_of_another_kernel_is_none() -> None:
    other = ".visible .entry other() { .reg .b32 %r<2>; ld.shared.u32 %r1, [dynamic]; ret; }"
    text = (
        f"{HEADER}.extern .shared .align 16 .b8 dynamic[];\n.visible .entry k(.param .u64 p)\n{{\n{REGISTERS}{SHARED}\nret;\n}}\n{other}\n"
    )
    module = ptxkit.parse(text)
    done = exercise(routines(module)[0], loaded(module))

    assert done.example is not None
    assert not done.example.shared
    assert done.example.block == (16, 1, 1)


def test_a_barrier_for_more_threads_than_come() -> None:
    # half of the 128 threads that the shift tells apart wait for 128
    body = "mov.u32 %r1, %tid.x; shr.u32 %r2, %r1, 6; setp.eq.u32 %p1, %r2, 0; @%p1 bra END; bar.sync 1, 128; END:"
    done = exercised(body, directives=".maxntid 128")

    assert [one.finding.diagnostic.rule for one in done.found] == ["B003"]
    assert is_of_the_kernel(done.found[0])


TILES = """.shared .align 4 .b8 s[512];
ld.param.u64 %rd1, [p]; ld.param.u32 %r9, [n]; mov.u32 %r1, %tid.x; shl.b32 %r3, %r1, 2; mov.u32 %r2, s; add.u32 %r4, %r2, %r3;
xor.b32 %r5, %r3, 508; add.u32 %r5, %r2, %r5; mov.u32 %r6, 0; mov.u32 %r12, %ctaid.x; shl.b32 %r12, %r12, 7; mov.u32 %r13, %nctaid.x;
shl.b32 %r13, %r13, 7; add.u32 %r6, %r6, %r12; setp.ge.u32 %p2, %r12, %r9; @%p2 bra END;
LOOP: setp.ge.u32 %p1, %r6, %r9; @%p1 bra END;
add.u32 %r11, %r6, %r1; mul.wide.u32 %rd2, %r11, 4; add.s64 %rd3, %rd1, %rd2; ld.global.u32 %r7, [%rd3];
st.shared.u32 [%r4], %r7; bar.sync 0; ld.shared.u32 %r8, [%r5]; st.global.u32 [%rd3], %r8; {barrier}
add.u32 %r6, %r6, %r13; bra LOOP; END:"""


@pytest.mark.parametrize(("barrier", "rules"), [("", {"S003"}), ("bar.sync 0;", set())])
def test_a_tile_that_is_filled_again_while_others_read_it(barrier: str, rules: set[str]) -> None:
    done = exercised(TILES.format(barrier=barrier), ".param .u64 p, .param .u32 n", ".reqntid 128")

    assert {one.finding.diagnostic.rule for one in done.found if is_of_the_kernel(one)} == rules


COUNTS = """.shared .align 4 .b8 s[32];
mov.u32 %r2, s; setp.gt.u32 %p1, %r1, 7; shl.b32 %r3, %r1, 2; add.u32 %r4, %r2, %r3; mov.u32 %r5, 0; @!%p1 st.shared.u32 [%r4], %r5;
bar.sync 0; ld.global.u32 %r6, [%rd3]; and.b32 %r6, %r6, 7; shl.b32 %r6, %r6, 2; add.u32 %r6, %r2, %r6; {update} bar.sync 0;"""


@pytest.mark.parametrize(
    ("update", "is_wrong"),
    [
        ("ld.shared.u32 %r7, [%r6]; add.u32 %r7, %r7, 1; st.shared.u32 [%r6], %r7;", True),
        ("atom.shared.add.u32 %r7, [%r6], 1;", False),
        ("st.shared.u32 [%r6], %r1;", False),
    ],
)
def test_a_count_in_two_steps_at_places_that_contents_say(update: str, is_wrong: bool) -> None:
    done = exercised(f"{INDEX} {COUNTS.format(update=update)}", directives=".reqntid 8")

    assert [one for one in done.found if one.doubt not in (SIZES, OTHER_CONTENTS)] if is_wrong else not done.found


def test_local_memory_is_nobody_elses() -> None:
    body = """.local .align 4 .b8 a[32]; ld.global.u32 %r2, [%rd3]; and.b32 %r2, %r2, 7; shl.b32 %r2, %r2, 2; mov.u32 %r3, a;
    add.u32 %r2, %r2, %r3; ld.local.u32 %r4, [%r2]; st.global.u32 [%rd3], %r4;"""
    done = exercised(f"{INDEX} {body}")

    assert [(one.finding.diagnostic.rule, one.depends, one.doubt) for one in done.found] == [("R008", False, "")]


TAIL = """ld.param.u32 %r9, [n]; mov.u32 %r2, %ctaid.x; shl.b32 %r2, %r2, 7; add.u32 %r2, %r2, %r1; add.s32 %r3, %r9, {less};
setp.lt.s32 %p1, %r2, %r3; vote.sync.ballot.b32 %r4, %p1, 0xffffffff; setp.ge.s32 %p2, %r2, %r9; @%p2 bra END;
shfl.sync.bfly.b32 %r5, %r1, 0, 0x1f, %r4; st.global.u32 [%rd3], %r5; END:"""


@pytest.mark.parametrize(("less", "rules"), [(-3, {"C004", "C006"}), (0, set())])
def test_what_is_wrong_in_the_last_cta_only(less: int, rules: set[str]) -> None:
    done = exercised(f"{INDEX} {TAIL.format(less=less)}", ".param .u64 p, .param .u32 n", ".maxntid 128")

    assert {one.finding.diagnostic.rule for one in done.found if one.doubt not in (NOT_TRIED, SIZES)} == rules


ARRIVALS = """.shared .align 8 .b64 bar; ld.param.u32 %r9, [n]; mov.u32 %r2, %ctaid.x; mad.lo.u32 %r2, %r2, 64, %r1;
setp.eq.u32 %p1, %r1, 0; @%p1 mbarrier.init.shared.b64 [bar], {count}; bar.sync 0; setp.ge.u32 %p2, %r2, %r9; {tail}
mbarrier.arrive.shared.b64 %rd4, [bar]; W: mbarrier.test_wait.shared.b64 %p3, [bar], %rd4; @!%p3 bra W; @!%p2 st.global.u32 [%rd3], %r1;"""


@pytest.mark.parametrize(("count", "tail", "rules"), [(64, "@%p2 ret;", {"M005"}), (64, "", set())])
def test_threads_of_the_last_cta_that_end_before_they_arrive(count: int, tail: str, rules: set[str]) -> None:
    body = ARRIVALS.format(count=count, tail=tail)
    done = exercised(f"{INDEX} {body}", ".param .u64 p, .param .u32 n", ".reqntid 64")

    assert {one.finding.diagnostic.rule for one in done.found if not one.doubt} == rules


@pytest.mark.parametrize(("lane", "names"), [("0", {"race-global"}), ("%r3", set())])
def test_the_elected_lane_need_not_be_the_first(lane: str, names: set[str]) -> None:
    body = f"""elect.sync %r3|%p1, -1; mov.u32 %r2, 0; @%p1 atom.global.add.u32 %r2, [%rd1], 32; shfl.sync.idx.b32 %r2, %r2, {lane}, 31, -1;
    and.b32 %r4, %r1, 31; add.u32 %r2, %r2, %r4; mul.wide.u32 %rd4, %r2, 4; add.s64 %rd4, %rd1, %rd4; st.global.u32 [%rd4+64], %r1;"""
    module = HEADER.replace("sm_80", "sm_90")
    done = exercised(f"{INDEX} {body}", directives=".reqntid 64", header=module)

    assert {one.finding.diagnostic.name for one in done.found if not one.doubt} == names


def test_who_leaves_an_array_with_the_threads_that_he_says() -> None:
    # with fewer threads it reads what nobody has written
    body = """.shared .align 4 .b8 s[512]; shl.b32 %r3, %r1, 2; mov.u32 %r2, s; add.u32 %r2, %r2, %r3; st.shared.u32 [%r2], %r1; bar.sync 0;
    ld.shared.u32 %r4, [%r2+4]; st.global.u32 [%rd3], %r4;"""
    done = exercised(f"{INDEX} {body}", directives=".maxntid 128")

    assert [one.finding.diagnostic.rule for one in done.found] == ["S002"]


@pytest.mark.parametrize(
    "update, observes",
    [
        ("red.global.add.u32 [%rd1], %r1;", False),
        ("atom.global.add.u32 %r2, [%rd1], %r1;", False),
        ("atom.global.add.u32 %r2, [%rd1], %r1; st.global.u32 [%rd1+4], %r2;", True),
        ("ld.acquire.gpu.global.u32 %r2, [%rd1]; st.global.u32 [%rd1+4], %r2;", True),
    ],
)
def test_who_looks_at_what_others_wrote(update: str, observes: bool) -> None:
    module = ptxkit.parse(f"{HEADER}.visible .entry k(.param .u64 p)\n{{\n{REGISTERS}{INDEX}{update}\nret;\n}}\n")

    assert hands_over(routines(module)[0]) == observes


def counted(monkeypatch: pytest.MonkeyPatch) -> list[Example]:
    """The launches that are executed from now on, one after the other."""
    launches: list[Example] = []

    def counting(code: Any, one: Example, *arguments: Any, **named: Any) -> Ran:
        launches.append(one)
        return once(code, one, *arguments, **named)

    monkeypatch.setattr(runs_module, "once", counting)
    return launches


def test_an_address_that_no_array_has_is_not_tried_with_every_shape(monkeypatch: pytest.MonkeyPatch) -> None:
    launches = counted(monkeypatch)
    module = ptxkit.parse(f"{HEADER}.visible .entry k(.param .u64 p)\n{{\n{REGISTERS}{INDEX}st.global.u32 [64], %r1;\nret;\n}}\n")

    assert exercise(routines(module)[0], loaded(module)).example is None
    assert len(launches) == 4


@pytest.mark.parametrize(("swap", "is_checked"), [("cas.b32 %r4, [%rd1], %r2, %r3;", True), ("exch.b32 %r4, [%rd1], %r3;", False)])
def test_what_is_compared_before_it_is_swapped(swap: str, is_checked: bool) -> None:
    # as the CUDA guide adds to what has no atomic addition
    again = "setp.ne.u32 %p1, %r2, %r4; mov.u32 %r2, %r4; @%p1 bra L;"
    body = f"ld.global.u32 %r2, [%rd1];\nL: add.u32 %r3, %r2, 1;\natom.global.{swap}\n{again if is_checked else ''}"
    done = exercised(f"{INDEX} st.global.u32 [%rd3+65536], %r1;\n{body}", directives=".reqntid 64")

    assert done.found
    assert {one.doubt == CHECKED for one in done.found} == {is_checked}


def test_what_is_doubted_at_once_is_not_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    launches = counted(monkeypatch)
    module = ptxkit.parse(f"{HEADER}.visible .entry k(.param .u64 p)\n{{\n{REGISTERS}{INDEX}st.global.u32 [%rd1], %r1;\nret;\n}}\n")
    routine, code = routines(module)[0], loaded(module)
    judged = exercise(routine, code)
    tried = len(launches)
    launches.clear()
    done = exercise(routine, code, doubt=lambda finding, example: "so it is")

    assert tried > len(launches) == 1
    assert [one.finding.diagnostic.name for one in done.found] == [one.finding.diagnostic.name for one in judged.found]
    assert {one.doubt for one in done.found} == {"so it is"}


def test_what_equal_contents_decide() -> None:
    # who reads the same number as element 1 reads what others update: with zeros all do
    body = """ld.param.u64 %rd1, [p]; mov.u32 %r1, %tid.x; mov.u32 %r6, %ctaid.x; mov.u32 %r7, %ntid.x; mad.lo.u32 %r1, %r6, %r7, %r1;
mul.wide.u32 %rd2, %r1, 4; add.s64 %rd3, %rd1, %rd2; ld.global.u32 %r2, [%rd3]; ld.global.u32 %r3, [%rd1+4];
atom.global.add.u32 %r4, [%rd3+65536], %r2;
setp.ne.u32 %p1, %r2, %r3; @%p1 bra END; ld.global.u32 %r5, [%rd1+65540]; st.global.u32 [%rd3+131072], %r5; END:"""
    done = exercised(body)

    assert {one.doubt for one in done.found} <= {OTHER_CONTENTS, TABLES}


def test_a_value_that_was_made_up_may_be_stored() -> None:
    stored = "and.b32 %r2, %r1, 1; mul.wide.u32 %rd2, %r2, 4; add.s64 %rd2, %rd1, %rd2; st.global.u32 [%rd2+65536], {};"
    read = exercised(f"{INDEX} ld.global.u32 %r3, [%rd3]; {stored.format('%r3')}")
    own = exercised(f"{INDEX} {stored.format('%r1')}")

    assert {one.depends for one in read.found} == {True}
    assert {one.depends for one in own.found} == {False}


def test_a_table_that_a_number_is_too_large_for() -> None:
    body = """.shared .align 4 .b8 t[4]; ld.param.u64 %rd1, [p]; ld.param.u32 %r1, [n]; mov.u32 %r2, 0; mov.u32 %r3, t;
L: st.shared.u32 [%r3], %r2; add.u32 %r3, %r3, 4; add.u32 %r2, %r2, 1; setp.lt.u32 %p1, %r2, %r1; @%p1 bra L; st.global.u32 [%rd1], %r2;"""
    done = exercised(body, ".param .u64 p, .param .u32 n", ".reqntid 1")

    assert {one.doubt for one in done.found} == {SIZES}


WAITS = """.shared .align 8 .b64 bar; .shared .align 8 .b64 other; mov.u32 %r1, %tid.x; mov.u32 %r2, bar; mov.u32 %r3, other;
setp.ne.u32 %p1, %r1, 0; @%p1 bra READY;
mbarrier.init.shared::cta.b64 [%r2], 1;
mbarrier.init.shared::cta.b64 [%r3], 1;
READY: bar.sync 0; setp.eq.u32 %p1, %r1, 64; @%p1 bra OTHER; setp.ne.u32 %p1, %r1, 0; @%p1 bra END;
ONE: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r3], 0; @!%p2 bra ONE;
bra END;
OTHER: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r2], 0; @!%p2 bra OTHER;
mbarrier.arrive.shared::cta.b64 _, [%r3];
END:"""


def test_a_block_without_those_that_the_kernel_tells_apart_refutes_nothing() -> None:
    # thread 64 waits for what nobody arrives at, and thread 0 for thread 64
    header = HEADER.replace("sm_80", "sm_90")
    module = ptxkit.parse(f"{header}.visible .entry k(.param .u64 p)\n{{\n{REGISTERS}{WAITS}\nret;\n}}\n")
    done = exercise(routines(module)[0], loaded(module))

    assert [one.finding.diagnostic.rule for one in done.found] == ["M009"]
    assert done.example is not None
    assert done.example.block[0] > 64


def test_the_block_that_a_kernel_says_is_the_one_that_goes_wrong() -> None:
    # with 128 threads, or with fewer, nobody comes to what the barrier awaits
    done = exercised(f"{INDEX} bar.sync 1, 256; st.global.u32 [%rd3], %r1;", directives=".maxntid 128")

    assert [one.finding.diagnostic.rule for one in done.found] == ["B003"]
    assert done.example is not None
    assert done.example.block == (128, 1, 1)


def test_a_race_with_another_access_where_sizes_differ_is_the_same() -> None:
    body = """.shared .align 4 .b8 s[512]; ld.param.u32 %r9, [n]; mov.u32 %r1, %tid.x; mov.u32 %r2, s; shl.b32 %r3, %r1, 2;
add.u32 %r4, %r2, %r3; xor.b32 %r5, %r3, 256; add.u32 %r5, %r2, %r5; setp.eq.u32 %p1, %r9, 128; @%p1 bra ONE;
st.shared.u32 [%r5], %r1; bra READ;
ONE: st.shared.u32 [%r5], %r1;
READ: ld.shared.u32 %r6, [%r4];
ld.param.u64 %rd1, [p]; mul.wide.u32 %rd2, %r1, 4; add.s64 %rd1, %rd1, %rd2; st.global.u32 [%rd1], %r6;"""
    done = exercised(body, ".param .u64 p, .param .u32 n", ".reqntid 128")

    assert {one.doubt for one in done.found if one.finding.diagnostic.rule == "S003"} == {""}


def test_a_branch_beyond_its_targets_is_found() -> None:
    body = "mov.u32 %r1, %tid.x; T: .branchtargets A, B; brx.idx %r1, T; A: mov.u32 %r2, 1; B: mov.u32 %r3, 1;"
    done = exercised(body, directives=".reqntid 32")

    assert [one.finding.diagnostic.rule for one in done.found] == ["R007"]


PARTS = f"{INDEX} ld.global.u32 %r2, [%rd3]; and.b32 %r2, %r2, 1; setp.eq.u32 %p1, %r2, 0;"


def test_threads_that_part_by_contents_do_so_though_none_does_by_zeros() -> None:
    done = exercised(f"{PARTS} @%p1 bra E; vote.sync.any.pred %p2, %p1, -1; bra F; E: bar.warp.sync -1; F: st.global.u32 [%rd3], 1;")

    (found,) = [one for one in done.found if one.finding.diagnostic.rule == "C005"]
    assert found.depends
    assert not found.doubt


def test_a_number_of_lanes_that_is_small() -> None:
    body = "ld.param.u32 %r9, [n]; shr.u32 %r3, %r1, 2; and.b32 %r3, %r3, 7; setp.lt.u32 %p1, %r3, %r9; mov.u32 %r4, 0;"
    together = "@!%p1 bra E; vote.sync.ballot.b32 %r4, 1, -1; E: bar.warp.sync -1; st.global.u32 [%rd3], %r4;"
    done = exercised(f"{INDEX} {body} {together}", ".param .u64 p, .param .u32 n", ".reqntid 64")

    assert {one.finding.diagnostic.rule for one in done.found} == {"C005"}


def test_equal_threads_of_ctas_that_nobody_tells_apart() -> None:
    # it counts in global memory, but its addresses do not come from there
    done = exercised(f"{INDEX} atom.global.add.u32 %r4, [%rd1], 1; st.global.u32 [%rd3+64], %r4;")

    assert {one.doubt for one in done.found} == {CTAS}


ELEMENT = "mul.wide.u32 %rd4, %r3, 4; add.s64 %rd5, %rd6, %rd4; ld.global.u32 %r4, [%rd5]; add.u32 %r7, %r7, %r4;"
STRIDES = f"mov.u32 %r5, %nctaid.x; L: add.u32 %r3, %r3, %r5; {ELEMENT} setp.lt.u32 %p1, %r3, 8; @%p1 bra L;"
"""Goes on to the elements that are as far away as there are CTAs along x."""
ROW = "mov.u32 %r6, %ctaid.y; mad.lo.u32 %r1, %r6, 1024, %r1;"


@pytest.mark.parametrize(("strides", "row", "shows"), [(STRIDES, ROW, False), ("", ROW, True), (STRIDES, "", True)])
def test_a_row_of_the_grid_that_one_cta_does_alone(strides: str, row: str, shows: bool) -> None:
    # CTAs of one row add up elements and store the sums to the same words; one does it alone if it goes on to all of the elements
    body = f"""ld.param.u64 %rd1, [p]; ld.param.u64 %rd6, [q]; mov.u32 %r1, %tid.x; {row} mov.u32 %r3, %ctaid.x; mov.u32 %r7, 0;
{ELEMENT} {strides}
mul.wide.u32 %rd2, %r1, 4; add.s64 %rd3, %rd1, %rd2; st.global.u32 [%rd3], %r7;"""
    done = exercised(body, ".param .u64 p, .param .u64 q")

    assert bool([one for one in done.found if is_of_the_kernel(one)]) == shows


@pytest.mark.parametrize(("offset", "rules"), [(0, set()), (4096, {"S002"})])
def test_arrays_that_each_block_leaves_elsewhere(offset: int, rules: set[str]) -> None:
    # made for 24 x 8 threads, which nothing says: wider blocks leave `s`, higher ones `t`, smaller ones do not write the last word
    body = f""".shared .align 4 .b8 s[768]; .shared .align 4 .b8 t[768]; mov.u32 %r1, %tid.x; mov.u32 %r2, %tid.y;
mad.lo.u32 %r5, %r2, 24, %r1; shl.b32 %r5, %r5, 2; mov.u32 %r6, t; add.u32 %r6, %r6, %r5; st.shared.u32 [%r6+{offset}], %r2;
mad.lo.u32 %r3, %r1, 8, %r2; shl.b32 %r3, %r3, 2; mov.u32 %r4, s; add.u32 %r4, %r4, %r3; st.shared.u32 [%r4], %r1;
bar.sync 0; ld.shared.u32 %r7, [t+764];
ld.param.u64 %rd1, [p]; cvt.u64.u32 %rd2, %r5; add.s64 %rd3, %rd1, %rd2; st.global.u32 [%rd3], %r7;"""
    done = exercised(body, directives=".maxntid 256")

    assert {one.finding.diagnostic.rule for one in done.found if is_of_the_kernel(one)} == rules


def test_a_block_of_fewer_than_a_warp_is_none_where_many_threads_are_said() -> None:
    # with one thread it would stay within the array
    body = f".shared .align 4 .b8 s[4]; {INDEX} mov.u32 %r2, s; shl.b32 %r3, %r1, 2; add.u32 %r2, %r2, %r3; st.shared.u32 [%r2], %r1;"
    done = exercised(f"{body} bar.sync 0; ld.shared.u32 %r4, [%r2]; st.global.u32 [%rd3], %r4;", directives=".maxntid 128")

    assert [one.finding.diagnostic.rule for one in done.found] == ["S002"]
    assert done.example is not None
    assert done.example.block == (128, 1, 1)


def test_a_race_in_the_same_variable_with_other_sizes_is_the_same() -> None:
    body = """.shared .align 4 .b8 s[512]; ld.param.u32 %r9, [n]; mov.u32 %r1, %tid.x; mov.u32 %r2, s; shl.b32 %r3, %r1, 2;
add.u32 %r4, %r2, %r3; xor.b32 %r5, %r3, 256; add.u32 %r5, %r2, %r5; setp.eq.u32 %p1, %r9, 128; @%p1 bra ONE;
st.shared.u32 [%r5], %r1; ld.shared.u32 %r6, [%r4]; bra END;
ONE: st.shared.u32 [%r5], %r1; ld.shared.u32 %r6, [%r4];
END: ld.param.u64 %rd1, [p]; mul.wide.u32 %rd2, %r1, 4; add.s64 %rd1, %rd1, %rd2; st.global.u32 [%rd1], %r6;"""
    done = exercised(body, ".param .u64 p, .param .u32 n", ".reqntid 128")

    assert {one.doubt for one in done.found if one.finding.diagnostic.rule == "S003"} == {""}


MATRICES = """.version 8.0
.target sm_90a
.address_size 64
.visible .entry k() .reqntid 128
{
.reg .pred %p; .reg .b32 %r<4>; .reg .b64 %a, %b; .reg .f32 %f<4>;
.shared .align 1024 .b8 A[2048];
mov.u32 %r1, %tid.x; shl.b32 %r2, %r1, 4; mov.u32 %r3, A; add.u32 %r2, %r2, %r3;
st.shared.v4.u32 [%r2], {%r1, %r1, %r1, %r1};
fence.proxy.async.shared::cta;
BARRIER
shr.u32 %r3, %r3, 4; cvt.u64.u32 %a, %r3; or.b64 %a, %a, DESCRIPTOR;
mov.b64 %b, %a; setp.ne.u32 %p, %r1, -1;
wgmma.fence.sync.aligned;
wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f0,%f1,%f2,%f3}, %a, %b, %p, 1, 1, 0, 0;
wgmma.commit_group.sync.aligned;
wgmma.wait_group.sync.aligned 0;
ret;
}
"""
BEYOND = "0x4000004000010000"
"""Rows of 128 bytes, swizzled: of 64 rows 8,192 bytes, of which the variable has the first 2,048."""


def matrices(barrier: str) -> Exercised:
    module = ptxkit.parse(MATRICES.replace("BARRIER", barrier).replace("DESCRIPTOR", BEYOND))
    return exercise(routines(module)[0], loaded(module))


def test_the_first_lines_of_a_matrix_that_leaves_its_variable_race() -> None:
    (one,) = matrices("").found

    assert one.finding.diagnostic.rule == "S003"
    assert one.first_lines


def test_a_matrix_that_leaves_its_variable_is_no_finding_and_the_run_refutes_nothing() -> None:
    done = matrices("bar.sync 0;")

    assert not done.found
    assert not done.is_complete


def test_a_matrix_that_includes_an_mbarrier_is_longer_than_meant() -> None:
    # the variable has no declared size, and an mbarrier lies where the matrix ends by its descriptor
    text = MATRICES.replace("DESCRIPTOR", BEYOND).replace(".shared .align 1024 .b8 A[2048];", "")
    text = text.replace(".visible", ".extern .shared .align 1024 .b8 A[];\n.visible", 1)
    init = "setp.ne.u32 %p, %r1, 0; @!%p mbarrier.init.shared.b64 [A+4096], 1; bar.sync 0;"
    module = ptxkit.parse(text.replace("BARRIER", init))
    done = exercise(routines(module)[0], loaded(module))

    assert done.example is not None
    assert not done.found
    assert not done.is_complete


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


ROWS = """.shared .align 4 .b8 s[512]; ld.param.u64 %rd1, [p]; mov.u32 %r1, %tid.x; mov.u32 %r2, %tid.y; mov.u32 %r3, %ntid.y;
mov.u32 %r4, %ctaid.x; mad.lo.u32 %r4, %r4, %r3, %r2; mad.lo.u32 %r5, %r4, 128, %r1; mul.wide.u32 %rd2, %r5, 4; add.s64 %rd3, %rd1, %rd2;
ld.global.u32 %r6, [%rd3]; mov.u32 %r7, s; shl.b32 %r8, %r1, 2; add.u32 %r7, %r7, %r8; st.shared.u32 [%r7], %r6; bar.sync 0;
setp.gt.u32 %p1, %r1, 63; @%p1 bra END; ld.shared.u32 %r6, [%r7+256]; ld.shared.u32 %r5, [%r7]; add.u32 %r6, %r6, %r5;
st.shared.u32 [%r7], %r6; st.global.u32 [%rd3], %r6; END:"""


@pytest.mark.parametrize(("directives", "is_certain"), [("", False), (".reqntid 128, 2", True)])
def test_a_block_that_may_lack_threads_shows_no_race(directives: str, is_certain: bool) -> None:
    done = exercised(ROWS, directives=directives)

    races = [one for one in done.found if one.finding.diagnostic.rule == "S003"]
    assert {bool(one.doubt) for one in races} == {not is_certain}


def test_a_warp_that_reads_what_others_have_to_write_is_not_the_block() -> None:
    body = """.shared .align 4 .b8 s[512]; ld.param.u64 %rd1, [p]; mov.u32 %r1, %tid.x; shl.b32 %r2, %r1, 2; mov.u32 %r3, s;
    add.u32 %r2, %r2, %r3; st.shared.u32 [%r2], %r1; setp.ne.s32 %p1, %r1, 0; @%p1 bra END; mov.u32 %r4, 0; mov.u32 %r5, 0;
    L: ld.shared.u32 %r6, [%r3]; add.u32 %r4, %r4, %r6; add.u32 %r3, %r3, 4; add.u32 %r5, %r5, 1; setp.ne.s32 %p2, %r5, 128; @%p2 bra L;
    st.global.u32 [%rd1], %r4; END:"""
    done = exercised(body)

    assert done.example is not None and done.example.block == (128, 1, 1)
    assert [(one.finding.diagnostic.rule, one.doubt) for one in done.found] == [("S003", "")]


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
def test_boxes_that_were_guessed_decide_about_phases_and_not_about_inits(init: str, rules: dict[str, str]) -> None:
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


@pytest.mark.parametrize(("element", "rules"), [("mov.u32 %r5, %r1;", set()), ("shr.u32 %r5, %r1, 1;", {"S003"})])
def test_a_block_of_several_rows_may_be_a_single_one(element: str, rules: set[str]) -> None:
    body = f""".shared .align 4 .b8 s[512];
ld.param.u64 %rd1, [p]; mov.u32 %r1, %tid.x; mov.u32 %r2, %tid.y; mov.u32 %r3, s; {element} mad.lo.u32 %r3, %r5, 4, %r3;
mad.lo.u32 %r4, %r2, 1024, %r1; st.shared.u32 [%r3], %r4; bar.sync 0; ld.shared.u32 %r6, [%r3];
mul.wide.u32 %rd2, %r4, 4; add.s64 %rd3, %rd1, %rd2; st.global.u32 [%rd3], %r6;"""
    done = exercised(body)

    assert {one.finding.diagnostic.rule for one in done.found if is_of_the_kernel(one)} == rules


STAGES = """.shared .align 8 .b64 bars[8];
mov.u32 %r1, %tid.x; setp.ne.u32 %p1, %r1, 0; mov.u32 %r2, bars; mov.u32 %r3, 0;
@%p1 bra DONE;
INIT: mbarrier.init.shared.b64 [%r2], 1; add.u32 %r2, %r2, 8; add.u32 %r3, %r3, 1; setp.lt.u32 %p2, %r3, 8; @%p2 bra INIT;
mov.u32 %r2, bars; mov.u32 %r3, 0; mov.u32 %r4, %ctaid.x; add.u32 %r4, %r4, LEAST;
FILL: mbarrier.arrive.expect_tx.shared.b64 _, [%r2], 16; mbarrier.arrive.expect_tx.shared.b64 _, [%r2+8], 16;
add.u32 %r2, %r2, 8; add.u32 %r3, %r3, 1; setp.lt.u32 %p2, %r3, %r4; @%p2 bra FILL;
DONE:"""


@pytest.mark.parametrize(("least", "shows"), [(1, False), (2, True)])
def test_a_grid_may_have_no_cta_that_fills_more_stages_than_there_are(least: int, shows: bool) -> None:
    # CTA i fills i + 1 stages, or i + 2, and the second fills an mbarrier that the first has filled
    done = exercised(STAGES.replace("LEAST", str(least)), "", ".reqntid 32", HEADER.replace("80", "90"))

    assert {(one.finding.diagnostic.rule, one.doubt == FAR_CTAS) for one in done.found} == {("M005", not shows)}
