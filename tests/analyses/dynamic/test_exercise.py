"""Kernels exercised with example launches: what is found."""

from __future__ import annotations

import pytest
from exercising import HEADER, INDEX, REGISTERS, exercised, is_of_the_kernel

import ptxkit
from ptxkit.analyses.dynamic.by_sizes import NOT_TRIED
from ptxkit.analyses.dynamic.exercise import hands_over, with_other_contents
from ptxkit.analyses.dynamic.findings import is_race
from ptxkit.analyses.dynamic.judging import (
    OTHER_CONTENTS,
    SIZES,
)
from ptxkit.analyses.dynamic.runs import USUAL, Runs
from ptxkit.analyses.execution.contents import COUNT
from ptxkit.analyses.execution.loading import loaded
from ptxkit.analyses.framework.routine import routines
from ptxkit.analyses.inputs.launches import Sizes
from ptxkit.analyses.inputs.shapes import shapes


def test_a_correct_kernel_runs_to_its_end() -> None:
    done = exercised(f"{INDEX} st.global.u32 [%rd3], %r1;")

    assert done.is_complete
    assert not done.found


def test_arrays_are_as_large_as_it_takes() -> None:
    done = exercised(f"{INDEX} st.global.u32 [%rd3+8000000], %r1;")

    assert done.is_complete
    assert not done.found


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


def test_flags_that_are_zero_at_first() -> None:
    # CTA 0 stores and sets a flag without a release, CTA 1 reads what was stored if it sees the flag
    body = """ld.param.u64 %rd1, [p]; mov.u32 %r1, %ctaid.x; mov.u32 %r4, 1; setp.eq.u32 %p1, %r1, 1; @%p1 bra READ;
st.global.u32 [%rd1+4], %r4; st.relaxed.gpu.global.u32 [%rd1], %r4; ret;
READ: ld.relaxed.gpu.global.u32 %r2, [%rd1]; setp.ne.u32 %p2, %r2, 1; @%p2 bra END;
ld.global.u32 %r3, [%rd1+4]; st.global.u32 [%rd1+8], %r3; END:"""
    done = exercised(body.replace("[%rd1]", "[%rd1+128]"))

    assert {one.finding.diagnostic.name for one in done.found} == {"race-global"}


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


def test_a_kernel_that_synchronizes_its_grid_is_launched_cooperatively() -> None:
    # cooperative groups trap without the memory that such a launch gets
    body = """mov.u32 %r1, %envreg2; setp.eq.u32 %p1, %r1, 0; @!%p1 bra GO; trap;
GO: mov.u32 %r2, %tid.x; shl.b32 %r3, %r2, 2; st.shared.u32 [%r3], %r2; xor.b32 %r3, %r3, 4; ld.shared.u32 %r4, [%r3];
st.global.u32 [%rd1], %r4;"""
    done = exercised(f".shared .b32 tile[64]; {INDEX} {body}", directives=".reqntid 64")

    assert done.example is not None and done.example.cooperative
    assert done.example.launch.cooperative
    assert any(is_race(one.finding) and one.finding.witness["space"] == "shared" for one in done.found)


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


def test_a_branch_beyond_its_targets_is_found() -> None:
    body = "mov.u32 %r1, %tid.x; T: .branchtargets A, B; brx.idx %r1, T; A: mov.u32 %r2, 1; B: mov.u32 %r3, 1;"
    done = exercised(body, directives=".reqntid 32")

    assert [one.finding.diagnostic.rule for one in done.found] == ["R007"]


def test_a_number_of_lanes_that_is_small() -> None:
    body = "ld.param.u32 %r9, [n]; shr.u32 %r3, %r1, 2; and.b32 %r3, %r3, 7; setp.lt.u32 %p1, %r3, %r9; mov.u32 %r4, 0;"
    together = "@!%p1 bra E; vote.sync.ballot.b32 %r4, 1, -1; E: bar.warp.sync -1; st.global.u32 [%rd3], %r4;"
    done = exercised(f"{INDEX} {body} {together}", ".param .u64 p, .param .u32 n", ".reqntid 64")

    assert {one.finding.diagnostic.rule for one in done.found} == {"C005"}


WAITS = """mov.u32 %r1, %tid.x; setp.eq.u32 %p1, %r1, 0; @%p1 bra SENDER; setp.ne.u32 %p1, %r1, 32; @%p1 bra DONE;
WAIT: ld.volatile.shared.u32 %r2, [full]; setp.eq.u32 %p1, %r2, 0; @%p1 bra WAIT;
ld.shared.u32 %r3, [data]; ld.param.u64 %rd1, [p]; st.global.u32 [%rd1], %r3; bra DONE;
SENDER: mov.u32 %r3, %clock; st.shared.u32 [data], %r3; st.volatile.shared.u32 [full], 1;
DONE:"""


def test_threads_that_wait_in_shared_memory_for_others_that_come_later() -> None:
    cleared = "mov.u32 %r1, %tid.x; setp.ne.u32 %p1, %r1, 0; @%p1 bra SET; st.shared.u32 [full], 0; SET: bar.sync 0;"
    done = exercised(f".shared .u32 data; .shared .u32 full; {cleared} {WAITS}", directives=".reqntid 64")

    assert {one.finding.diagnostic.rule for one in done.found if is_of_the_kernel(one)} == {"S003"}


@pytest.mark.parametrize(
    ("decided", "attempts"),
    [("add.u32 %r3, %r3, 1;", 0), ("ld.shared.u32 %r3, [data];", 1), ("bar.sync 0;", 2)],
    ids=["arithmetic", "a read of shared memory", "a barrier"],
)
def test_other_contents_are_tried_if_a_branch_on_them_decides_something(decided: str, attempts: int) -> None:
    body = f""".shared .u32 data; ld.param.u64 %rd1, [p]; mov.u32 %r3, 0; st.shared.u32 [data], %r3; bar.sync 0;
ld.global.u32 %r1, [%rd1]; setp.gt.u32 %p1, %r1, 7; @%p1 bra SKIP; {decided} SKIP: st.global.u32 [%rd1+4], %r3;"""
    module = ptxkit.parse(f"{HEADER}.visible .entry k(.param .u64 p) .reqntid 32\n{{\n{REGISTERS}{body}\nret;\n}}\n")
    routine = routines(module)[0]
    runs = Runs(routine, loaded(module), 60)

    ran = runs.within(shapes(routine)[0], Sizes(), USUAL)

    assert len(list(with_other_contents(routine, ran))) == attempts
