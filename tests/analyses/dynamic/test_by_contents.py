"""Whether a finding depends on the contents of memory, and whether it matters."""

from __future__ import annotations

import pytest
from exercising import INDEX, exercised

from ptxkit.analyses.dynamic.judging import (
    BITS,
    CHECKED,
    CONTENTS,
    OTHER_CONTENTS,
    TABLES,
    TAGGED,
    UNREAD,
)


def test_a_race_that_needs_other_contents_is_marked() -> None:
    # thread i adds to the element that p names: a race where two name the same
    body = "ld.global.u32 %r2, [%rd3]; and.b32 %r2, %r2, 1; mul.wide.u32 %rd4, %r2, 4; add.s64 %rd5, %rd1, %rd4;"
    done = exercised(f"{INDEX} {body} st.global.u32 [%rd5+65536], %r1;")

    assert {one.doubt for one in done.found} == {TABLES}


LEADERS = """.shared .align 4 .b8 s[8]; ld.global.u32 %r2, [%rd3]; and.b32 %r3, %r1, 31; setp.ne.u32 %p1, %r3, 0;
@!%p1 st.shared.u32 [s], %r2; bar.sync 0; {after} st.global.u32 [%rd3], %r2;"""


@pytest.mark.parametrize(("after", "is_read"), [("ld.shared.u32 %r2, [s];", True), ("ld.shared.u32 %r2, [s+4];", False)])
def test_several_threads_may_store_what_no_thread_reads(after: str, is_read: bool) -> None:
    done = exercised(f"{INDEX} {LEADERS.format(after=after)}", directives=".reqntid 128")

    assert {one.doubt == UNREAD for one in done.found if one.finding.diagnostic.name == "smem-race"} == {not is_read}


GREATEST = """ld.param.u32 %r9, [n]; mov.b32 %r2, 0; mov.u32 %r3, %r1; shl.b32 %r8, %r1, 3; setp.lt.u32 %p1, %r8, %r9;
shl.b32 %r7, %r1, 5; cvt.u64.u32 %rd6, %r7; add.s64 %rd6, %rd1, %rd6; @%p1 ld.global.u32 %r2, [%rd6]; add.u32 %r7, %r1, %r2;
shfl.sync.bfly.b32 %r4, %r2, 1, 31, -1; shfl.sync.bfly.b32 %r5, %r3, 1, 31, -1; setp.gt.u32 %p1, %r2, %r4;
selp.b32 %r3, %r3, %r5, %p1; shr.u32 %r6, %r1, 1; mul.wide.u32 %rd4, %r6, 4; add.s64 %rd5, %rd1, %rd4; st.global.u32 [%rd5+65536], {};"""


@pytest.mark.parametrize(("stored", "shows"), [("%r3", False), ("%r7", True)])
def test_a_thread_may_store_any_of_several_equal_elements(stored: str, shows: bool) -> None:
    # the index of the greater of two elements: threads beyond the last one have none, and choose each other's
    done = exercised(f"{INDEX} {GREATEST.format(stored)}", ".param .u64 p, .param .u32 n", ".reqntid 256")

    assert [(one.depends, one.doubt) for one in done.found] == [(True, "") if shows else (False, OTHER_CONTENTS)]


@pytest.mark.parametrize(("index", "is_by_table"), [("ld.global.u32 %r2, [%rd3];", True), ("mov.u32 %r2, %r1;", False)])
def test_a_table_decides_which_elements_threads_access(index: str, is_by_table: bool) -> None:
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


@pytest.mark.parametrize(("swap", "is_checked"), [("cas.b32 %r4, [%rd1], %r2, %r3;", True), ("exch.b32 %r4, [%rd1], %r3;", False)])
def test_a_load_before_a_compare_and_swap(swap: str, is_checked: bool) -> None:
    # as the CUDA guide adds to what has no atomic addition
    again = "setp.ne.u32 %p1, %r2, %r4; mov.u32 %r2, %r4; @%p1 bra L;"
    body = f"ld.global.u32 %r2, [%rd1];\nL: add.u32 %r3, %r2, 1;\natom.global.{swap}\n{again if is_checked else ''}"
    done = exercised(f"{INDEX} st.global.u32 [%rd3+65536], %r1;\n{body}", directives=".reqntid 64")

    assert done.found
    assert {one.doubt == CHECKED for one in done.found} == {is_checked}


def test_a_race_that_depends_on_equal_contents() -> None:
    # who reads the same number as element 1 reads what others update: with zeros all do
    body = """ld.param.u64 %rd1, [p]; mov.u32 %r1, %tid.x; mov.u32 %r6, %ctaid.x; mov.u32 %r7, %ntid.x; mad.lo.u32 %r1, %r6, %r7, %r1;
mul.wide.u32 %rd2, %r1, 4; add.s64 %rd3, %rd1, %rd2; ld.global.u32 %r2, [%rd3]; ld.global.u32 %r3, [%rd1+4];
atom.global.add.u32 %r4, [%rd3+65536], %r2;
setp.ne.u32 %p1, %r2, %r3; @%p1 bra END; ld.global.u32 %r5, [%rd1+65540]; st.global.u32 [%rd3+131072], %r5; END:"""
    done = exercised(body)

    assert {one.doubt for one in done.found} <= {OTHER_CONTENTS, TABLES}


def test_a_race_of_stores_of_synthesized_values_depends_on_contents() -> None:
    stored = "and.b32 %r2, %r1, 1; mul.wide.u32 %rd2, %r2, 4; add.s64 %rd2, %rd1, %rd2; st.global.u32 [%rd2+65536], {};"
    read = exercised(f"{INDEX} ld.global.u32 %r3, [%rd3]; {stored.format('%r3')}")
    own = exercised(f"{INDEX} {stored.format('%r1')}")

    assert {one.depends for one in read.found} == {True}
    assert {one.depends for one in own.found} == {False}


PARTS = f"{INDEX} ld.global.u32 %r2, [%rd3]; and.b32 %r2, %r2, 1; setp.eq.u32 %p1, %r2, 0;"


def test_threads_that_diverge_on_contents_but_not_on_zeros() -> None:
    done = exercised(f"{PARTS} @%p1 bra E; vote.sync.any.pred %p2, %p1, -1; bra F; E: bar.warp.sync -1; F: st.global.u32 [%rd3], 1;")

    (found,) = [one for one in done.found if one.finding.diagnostic.rule == "C005"]
    assert found.depends
    assert not found.doubt


@pytest.mark.parametrize(
    ("kept", "doubts"),
    [("and.b32 %r2, %r2, 31;", {""}), ("and.b32 %r2, %r2, 15;", set()), ("add.s32 %r2, %r2, 8;", {CONTENTS})],
    ids=["a mask that is too large", "one that is not", "no mask"],
)
def test_an_index_from_memory_that_the_kernel_keeps_below_a_constant_must_be_in_its_array(kept: str, doubts: set[str]) -> None:
    shared = ".shared .align 4 .b8 s[64]; mov.u32 %r4, s; ld.global.u32 %r2, [%rd3];"
    updated = "shl.b32 %r2, %r2, 2; add.s32 %r4, %r4, %r2; atom.shared.add.u32 %r5, [%r4], 1;"
    done = exercised(f"{INDEX} {shared} {kept} {updated}", directives=".reqntid 32")

    assert {one.doubt for one in done.found if one.finding.diagnostic.rule == "S002"} == doubts


STRUCTURE = """ld.param.u64 %rd1, [p]; mov.u32 %r1, %tid.x; mul.wide.u32 %rd2, %r1, 8; add.s64 %rd3, %rd1, %rd2; mov.u32 %r3, 0;
and.b32 %r4, %r1, 1; setp.eq.s32 %p1, %r4, 0; @%p1 bra STORE; mov.u32 %r2, %r1; mov.u32 %r3, 1; STORE: st.global.u32 [%rd3], %r2;"""


def test_a_member_of_a_structure_may_hold_nothing() -> None:
    tagged = exercised(STRUCTURE + " st.global.u32 [%rd3+4], %r3;")
    alone = exercised(STRUCTURE)

    assert [(one.finding.diagnostic.rule, one.doubt) for one in tagged.found] == [("R001", TAGGED)]
    assert [(one.finding.diagnostic.rule, one.doubt) for one in alone.found] == [("R001", "")]


@pytest.mark.parametrize(
    ("update", "is_found"),
    [
        ("and.b32 %r2, %r2, 255; or.b32 %r2, %r2, 256;", False),
        ("bfi.b32 %r2, %r1, %r2, 8, 24;", False),
        ("add.u32 %r2, %r2, 256;", True),
    ],
    ids=["mask", "bfi", "sum"],
)
def test_a_word_of_which_some_bits_are_set(update: str, is_found: bool) -> None:
    body = f"{INDEX} .local .b32 word; ld.local.u32 %r2, [word]; {update} st.local.u32 [word], %r2; ld.local.u32 %r3, [word];"
    done = exercised(f"{body} shr.u32 %r3, %r3, 8; st.global.u32 [%rd3], %r3;")

    assert {one.doubt for one in done.found} <= {"", BITS}
    assert any(not one.doubt for one in done.found) == is_found


SELECTED = """.reg .f32 %f<4>; ld.param.f32 %f1, [a]; ld.global.f32 %f2, [%rd3]; setp.ge.f32 %p1, %f2, %f1;
vote.sync.ballot.b32 %r2, %p1, -1; @!%p1 bra END; {lanes}
shfl.sync.idx.b32 %r4, %r1, %r3, 31, %r2;
st.global.u32 [%rd3+65536], %r4; END:"""


@pytest.mark.parametrize(
    ("lanes", "shows"),
    [
        ("mov.u32 %r3, 0;", True),
        ("brev.b32 %r3, %r2; bfind.shiftamt.u32 %r3, %r3;", False),
        ("ld.global.u32 %r3, [%rd3+65536];", False),
    ],
    ids=["lane 0", "the first of them", "a lane from memory"],
)
def test_a_vote_may_leave_out_the_lane_that_a_shuffle_reads(lanes: str, shows: bool) -> None:
    # the lanes that pass shuffle among themselves: which ones pass is up to memory, and all choices must work
    done = exercised(f"{INDEX} {SELECTED.format(lanes=lanes)}", ".param .u64 p, .param .f32 a", ".reqntid 64")

    assert [one.finding.diagnostic.name for one in done.found if not one.doubt] == ["shfl-from-inactive-lane"] * shows
