"""Whether a finding appears with other grids and thread blocks."""

from __future__ import annotations

import pytest
from exercising import HEADER, INDEX, REGISTERS, exercised, is_of_the_kernel

import ptxkit
from ptxkit.analyses.dynamic.findings import is_refuted
from ptxkit.analyses.dynamic.judging import (
    CLUSTERS,
    CTAS,
    FAR_CTAS,
    FEW_THREADS,
    ONE_AXIS,
    SHAPES,
    WRITERS,
)
from ptxkit.analyses.dynamic.once import once
from ptxkit.analyses.execution.contents import COUNT
from ptxkit.analyses.execution.loading import loaded
from ptxkit.analyses.framework.routine import routines
from ptxkit.analyses.inputs.launches import Sizes, example
from ptxkit.analyses.inputs.shapes import Shape


def test_a_race_that_one_thread_would_not_have() -> None:
    done = exercised("ld.param.u64 %rd1, [p]; mov.u32 %r1, %tid.x; st.global.u32 [%rd1], %r1;")

    assert [one.finding.diagnostic.name for one in done.found] == ["race-global"]
    assert done.found[0].doubt == FEW_THREADS


@pytest.mark.parametrize(("value", "one_thread"), [("mov.u32 %r4, 1;", False), ("mov.u32 %r4, %r1;", True)])
def test_one_thread_suffices_if_a_parameter_may_exclude_the_others(value: str, one_thread: bool) -> None:
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


def test_a_race_of_warps_that_one_warp_does_not_have() -> None:
    # lane 0 of each warp stores the number of its warp, which the kernel does not look at otherwise
    done = exercised(f"{INDEX} and.b32 %r2, %r1, 31; setp.ne.u32 %p1, %r2, 0; @%p1 bra L; st.global.u32 [%rd1+65536], %r1; L:")

    assert {one.doubt for one in done.found} == {SHAPES}


def test_a_race_that_one_warp_with_its_shuffle_does_not_have() -> None:
    # all lanes of a warp store the same, after a shuffle that all elements went into
    body = "ld.global.u32 %r2, [%rd3]; shfl.sync.idx.b32 %r3, %r2, 5, 31, -1; st.global.u32 [%rd1], %r3;"
    done = exercised(f"{INDEX} {body}")

    assert {one.in_order for one in done.found} == {False}


def test_a_block_that_may_be_longer_in_another_dimension_is_not_whole() -> None:
    # each row of 32 threads writes one of the words that are read
    body = """.shared .align 4 .b8 s[8]; .shared .align 4 .b8 t[128]; mov.u32 %r2, %tid.y; shl.b32 %r3, %r2, 2; mov.u32 %r4, s;
add.u32 %r3, %r3, %r4; shl.b32 %r5, %r1, 2; mov.u32 %r6, t; add.u32 %r5, %r5, %r6; st.shared.u32 [%r5], %r1;
setp.ne.u32 %p1, %r1, 0; @!%p1 st.shared.u32 [%r3], %r1; bar.sync 0; ld.shared.u32 %r7, [s+4]; st.global.u32 [%rd3], %r7;"""
    done = exercised(f"{INDEX} {body}")

    assert {one.doubt for one in done.found} == {WRITERS}


@pytest.mark.parametrize("after", ["", "setp.lt.u32 %p2, %r7, 0; @%p2 bra READ;"], ids=["at the end", "in a loop"])
def test_no_thread_writes_what_all_read_first(after: str) -> None:
    body = f""".shared .align 4 .b8 s[8192]; shl.b32 %r3, %r1, 2; mov.u32 %r2, s; add.u32 %r3, %r2, %r3;
READ: ld.shared.u32 %r7, [s+4]; bar.sync 0; st.shared.u32 [%r3], %r1; st.global.u32 [%rd3], %r7; {after}"""
    done = exercised(f"{INDEX} {body}")

    of_reads = [one for one in done.found if one.finding.diagnostic.name == "uninitialised-memory"]
    assert [one.doubt == WRITERS for one in of_reads] == [bool(after)]


def test_accesses_that_only_a_shuffle_orders() -> None:
    body = """.shared .align 4 .b8 s[128];
mov.u32 %r1, %tid.x; mov.u32 %r2, s; shl.b32 %r3, %r1, 2; add.u32 %r4, %r2, %r3; st.shared.u32 [%r4], %r1;
shfl.sync.idx.b32 %r5, %r1, 0, 31, -1; xor.b32 %r3, %r3, 4; add.u32 %r4, %r2, %r3; ld.shared.u32 %r6, [%r4];
ld.param.u64 %rd1, [p]; mul.wide.u32 %rd2, %r1, 4; add.s64 %rd1, %rd1, %rd2; st.global.u32 [%rd1], %r6;"""
    done = exercised(body, directives=".reqntid 32")

    assert [one.in_order for one in done.found] == [False]


def test_the_same_thread_of_ctas_that_the_kernel_does_not_distinguish() -> None:
    # it counts in global memory, but its addresses do not come from there
    done = exercised(f"{INDEX} atom.global.add.u32 %r4, [%rd1], 1; st.global.u32 [%rd3+64], %r4;")

    assert {one.doubt for one in done.found} == {CTAS}


ELEMENT = "mul.wide.u32 %rd4, %r3, 4; add.s64 %rd5, %rd6, %rd4; ld.global.u32 %r4, [%rd5]; add.u32 %r7, %r7, %r4;"
STRIDES = f"mov.u32 %r5, %nctaid.x; L: add.u32 %r3, %r3, %r5; {ELEMENT} setp.lt.u32 %p1, %r3, 8; @%p1 bra L;"
"""Goes on to the elements that are as far away as there are CTAs along x."""
ROW = "mov.u32 %r6, %ctaid.y; mad.lo.u32 %r1, %r6, 1024, %r1;"


@pytest.mark.parametrize(("strides", "row", "shows"), [(STRIDES, ROW, False), ("", ROW, True), (STRIDES, "", True)])
def test_one_cta_may_do_the_work_of_a_row_of_the_grid(strides: str, row: str, shows: bool) -> None:
    # CTAs of one row add up elements and store the sums to the same words; one does it alone if it goes on to all of the elements
    body = f"""ld.param.u64 %rd1, [p]; ld.param.u64 %rd6, [q]; mov.u32 %r1, %tid.x; {row} mov.u32 %r3, %ctaid.x; mov.u32 %r7, 0;
{ELEMENT} {strides}
mul.wide.u32 %rd2, %r1, 4; add.s64 %rd3, %rd1, %rd2; st.global.u32 [%rd3], %r7;"""
    done = exercised(body, ".param .u64 p, .param .u64 q")

    assert bool([one for one in done.found if is_of_the_kernel(one)]) == shows


@pytest.mark.parametrize(("counted", "shows"), [("%nctaid.y", False), ("1", True)])
def test_an_axis_that_only_counts_the_ctas_that_meet_may_have_one(counted: str, shows: bool) -> None:
    # each thread doubles its element; what an update returns decides no address. CTAs along y would double the same one
    body = f"""ld.param.u64 %rd1, [p]; ld.param.u64 %rd6, [q]; mov.u32 %r1, %tid.x; mov.u32 %r6, %ctaid.x; mad.lo.u32 %r1, %r6, 1024, %r1;
mov.u32 %r5, %nctaid.x; mov.u32 %r2, {counted}; mul.lo.u32 %r5, %r5, %r2; mov.u32 %r3, %ctaid.y; add.u32 %r5, %r5, %r3;
atom.global.add.u32 %r4, [%rd6], %r5;
mul.wide.u32 %rd2, %r1, 4; add.s64 %rd3, %rd1, %rd2; ld.global.u32 %r7, [%rd3]; add.u32 %r7, %r7, %r7;
st.global.u32 [%rd3], %r7;"""
    done = exercised(body, ".param .u64 p, .param .u64 q")

    assert bool([one for one in done.found if is_of_the_kernel(one)]) == shows


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


@pytest.mark.parametrize(("filled_by", "shows"), [("%r4", False), ("%r9", True)])
def test_a_grid_may_have_no_cta_but_the_one_that_fills_shared_memory(filled_by: str, shows: bool) -> None:
    # the first element goes through shared memory: in the first CTA, or in none
    element = f"{INDEX} mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mad.lo.u32 %r4, %r2, %r3, %r1; add.u32 %r9, %r4, 1;"
    fill = f"setp.ne.u32 %p1, {filled_by}, 0; @%p1 bra L; ld.global.u32 %r5, [%rd1]; st.shared.u32 [s], %r5; L: bar.sync 0;"
    store = "ld.shared.u32 %r6, [s]; mul.wide.u32 %rd4, %r4, 4; add.s64 %rd5, %rd1, %rd4; st.global.u32 [%rd5+8192], %r6;"
    done = exercised(f".shared .align 4 .b8 s[4]; {element} {fill} {store}", directives=".reqntid 32")

    assert {one.doubt == FAR_CTAS for one in done.found if one.finding.diagnostic.rule == "R008"} == {not shows}


@pytest.mark.parametrize(("length", "shows"), [(128, False), (64, True)])
def test_what_one_axis_steps_over_is_as_long_as_the_other_has_ctas(length: int, shows: bool) -> None:
    # CTA (1, 0) stores where CTA (0, 1) does: the grid has one CTA along x. If tiles are shorter than CTAs, neighbours race
    body = f"""ld.param.u64 %rd1, [p]; mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ctaid.y;
add.u32 %r4, %r3, %r2; mad.lo.u32 %r4, %r4, {length}, %r1; mad.lo.u32 %r5, %r2, 7, %r3;
mul.wide.u32 %rd2, %r4, 4; add.s64 %rd3, %rd1, %rd2; st.global.u32 [%rd3], %r5;"""
    done = exercised(body, directives=".reqntid 128")

    assert {(one.finding.diagnostic.name, one.doubt == ONE_AXIS) for one in done.found} == {("race-global", not shows)}


@pytest.mark.parametrize(("count", "doubts"), [(32, {CLUSTERS}), (16, {""})])
def test_a_cluster_of_a_size_that_is_not_specified_may_have_one_cta(count: int, doubts: set[str]) -> None:
    # all threads arrive at an mbarrier of the first CTA of their cluster, which is for 32: one CTA of a warp has as many
    body = f""".shared .align 8 .b64 bar; mov.u32 %r1, %tid.x; mov.u32 %r2, bar; setp.ne.u32 %p1, %r1, 0;
@!%p1 mbarrier.init.shared.b64 [%r2], {count}; fence.mbarrier_init.release.cluster; barrier.cluster.arrive; barrier.cluster.wait;
mapa.shared::cluster.u32 %r3, %r2, 0; mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r3]; barrier.cluster.arrive;
barrier.cluster.wait;"""
    done = exercised(body, directives=".reqntid 32")

    assert {one.doubt for one in done.found if one.finding.diagnostic.rule == "M005"} == doubts


def test_unwritten_memory_that_the_launch_reads_too_says_nothing_about_the_threads_of_another() -> None:
    # the fifth row of threads writes to the words of the first one; all of them read a word that nobody writes
    body = f"""{INDEX} .shared .align 4 .b8 u[4]; .shared .align 4 .b8 s[512]; mov.u32 %r2, %tid.y; ld.shared.u32 %r3, [u];
and.b32 %r4, %r2, 3; mad.lo.u32 %r4, %r4, 32, %r1; shl.b32 %r4, %r4, 2; mov.u32 %r5, s; add.u32 %r5, %r5, %r4; st.shared.u32 [%r5], %r2;
st.global.u32 [%rd3], %r3;"""
    module = ptxkit.parse(f"{HEADER}.visible .entry k(.param .u64 p)\n{{\n{REGISTERS}{body}\nret;\n}}\n")
    routine, code = routines(module)[0], loaded(module)
    eight, four = [once(code, example(routine, Shape((32, rows, 1), (1, 1, 1), None), Sizes()), COUNT, 10_000, 10.0) for rows in (8, 4)]
    race = next(one for one in eight.wrong if one.diagnostic.name == "smem-race")

    assert is_refuted(race, four, eight)
    assert not is_refuted(race, four)
