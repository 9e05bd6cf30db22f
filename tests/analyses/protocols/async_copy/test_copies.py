"""Rings of stages, however their index comes round: right ones are silent, and each way to break one is told of by its rule."""

from __future__ import annotations

import pytest

import ptxkit
from ptxkit.analyses.framework.linting import lint
from ptxkit.analyses.framework.routine import routines
from ptxkit.analyses.framework.rule import select
from ptxkit.analyses.protocols.async_copy.copies import MOST_FAILURES, copies
from ptxkit.analyses.protocols.async_copy.stage_rings import rings
from ptxkit.analyses.symex.async_groups import Operation
from ptxkit.analyses.symex.moments import Moment
from ptxkit.diagnostics import Severity

# Three stages of 2048 bytes; each of 128 threads copies 16 bytes a stage and reads those of its neighbour. `load` and `use` are the offsets
# of the stages; `start` sets them before the loop and `step` takes them on.
KERNEL = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 .ptr .global .align 16 data, .param .u32 n)
.reqntid 128, 1, 1
{{
.reg .pred %p<9>;
.reg .b32 %r<40>;
.reg .b64 %rd<9>;
.shared .align 128 .b8 ring[6144];
ld.param.u64 %rd1, [data];
ld.param.u32 %r1, [n];
mov.u32 %r2, %tid.x;
shl.b32 %r3, %r2, 4;
mov.u32 %r4, ring;
add.s32 %r5, %r4, %r3;
xor.b32 %r6, %r3, 16;
add.s32 %r7, %r4, %r6;
cp.async.cg.shared.global [%r5], [%rd1], 16;
{prologue_commit}
cp.async.cg.shared.global [%r5+2048], [%rd1], 16;
cp.async.commit_group;
mov.u32 %r8, 0;
{start}
setp.lt.s32 %p1, %r1, 1;
@%p1 bra DONE;
LOOP:
{wait}
{barrier}
add.s32 %r9, %r8, 2;
setp.ge.s32 %p2, %r9, %r1;
@%p2 bra LAST;
add.s32 %r12, %r5, %r20;
cp.async.cg.shared.global [%r12], [%rd1], 16;
{inner_commit}
LAST:
{commit}
add.s32 %r13, %r7, %r21;
ld.shared.v4.u32 {{%r30, %r31, %r32, %r33}}, [%r13];
{step}
add.s32 %r8, %r8, 1;
setp.lt.s32 %p3, %r8, %r1;
@%p3 bra LOOP;
DONE:
cp.async.wait_all;
ret;
}}
"""

IDIOMS = {
    "selection": (
        "mov.u32 %r20, 4096;\nmov.u32 %r21, 0;",
        "setp.eq.s32 %p5, %r20, 4096;\nadd.s32 %r22, %r20, 2048;\nselp.b32 %r20, 0, %r22, %p5;\n"
        "setp.eq.s32 %p6, %r21, 4096;\nadd.s32 %r23, %r21, 2048;\nselp.b32 %r21, 0, %r23, %p6;",
    ),
    "index selected": (
        "mov.u32 %r24, 2;\nmov.u32 %r25, 0;\nmov.u32 %r20, 4096;\nmov.u32 %r21, 0;",
        "add.s32 %r24, %r24, 1;\nsetp.lt.s32 %p5, %r24, 3;\nselp.b32 %r24, %r24, 0, %p5;\nshl.b32 %r20, %r24, 11;\n"
        "add.s32 %r25, %r25, 1;\nsetp.gt.s32 %p6, %r25, 2;\nselp.b32 %r25, 0, %r25, %p6;\nshl.b32 %r21, %r25, 11;",
    ),
    "branch": (
        "mov.u32 %r20, 4096;\nmov.u32 %r21, 0;",
        "add.s32 %r20, %r20, 2048;\nsetp.ne.s32 %p5, %r20, 6144;\n@%p5 bra A;\nmov.u32 %r20, 0;\nA:\n"
        "add.s32 %r21, %r21, 2048;\nsetp.ne.s32 %p6, %r21, 6144;\n@%p6 bra B;\nmov.u32 %r21, 0;\nB:",
    ),
    "branch on a counter of its own": (
        "mov.u32 %r24, 2;\nmov.u32 %r25, 0;\nmov.u32 %r20, 4096;\nmov.u32 %r21, 0;",
        "setp.eq.s32 %p5, %r24, 2;\n@%p5 bra A;\nadd.s32 %r20, %r20, 2048;\nadd.s32 %r24, %r24, 1;\nbra.uni B;\n"
        "A:\nadd.s32 %r20, %r20, -4096;\nmov.u32 %r24, 0;\nB:\n"
        "setp.eq.s32 %p6, %r25, 2;\n@%p6 bra C;\nadd.s32 %r21, %r21, 2048;\nadd.s32 %r25, %r25, 1;\nbra.uni D;\n"
        "C:\nadd.s32 %r21, %r21, -4096;\nmov.u32 %r25, 0;\nD:",
    ),
    "remainder": (
        "mov.u32 %r24, 2;\nmov.u32 %r20, 4096;\nmov.u32 %r21, 0;",
        "add.s32 %r24, %r24, 1;\nrem.u32 %r25, %r24, 3;\nshl.b32 %r20, %r25, 11;\n"
        "add.s32 %r26, %r24, 1;\nrem.u32 %r27, %r26, 3;\nshl.b32 %r21, %r27, 11;",
    ),
    "multiplication": (
        "mov.u32 %r24, 2;\nmov.u32 %r20, 4096;\nmov.u32 %r21, 0;",
        "add.s32 %r24, %r24, 1;\nmul.wide.u32 %rd2, %r24, -1431655765;\nshr.u64 %rd3, %rd2, 33;\ncvt.u32.u64 %r25, %rd3;\n"
        "mad.lo.s32 %r20, %r25, -3, %r24;\nshl.b32 %r20, %r20, 11;\n"
        "add.s32 %r26, %r24, 1;\nmul.hi.u32 %r27, %r26, -1431655765;\nshr.u32 %r27, %r27, 1;\n"
        "mad.lo.s32 %r21, %r27, -3, %r26;\nshl.b32 %r21, %r21, 11;",
    ),
}


def kernel(idiom: str = "selection", **parts: str) -> str:
    start, step = IDIOMS[idiom]
    given = {
        "prologue_commit": "cp.async.commit_group;",
        "wait": "cp.async.wait_group 1;",
        "barrier": "bar.sync 0;",
        "inner_commit": "",
        "commit": "cp.async.commit_group;",
        "start": start,
        "step": step,
    }
    return KERNEL.format(**{**given, **parts})


def told(text: str) -> set[str]:
    found = lint(ptxkit.parse(text), select(["A"]))
    return {one.rule for one in found if one.severity is not Severity.INFO}


@pytest.mark.parametrize("idiom", IDIOMS)
class TestIdioms:
    def test_a_right_ring_is_silent(self, idiom: str) -> None:
        assert told(kernel(idiom)) == set()

    def test_it_has_three_stages(self, idiom: str) -> None:
        (routine,) = routines(ptxkit.parse(kernel(idiom)))

        assert [sorted(ring.offsets) for ring in rings(routine).rings] == [[0], [2048], [0, 2048, 4096]]
        assert copies(routine).blind == frozenset()

    def test_a_weak_wait_is_found(self, idiom: str) -> None:
        assert told(kernel(idiom, wait="cp.async.wait_group 2;")) == {"A003"}

    def test_a_group_for_some_iterations_only_is_found(self, idiom: str) -> None:
        assert told(kernel(idiom, inner_commit="cp.async.commit_group;", commit="")) == {"A008"}


class TestVariants:
    @pytest.mark.parametrize(
        ("parts", "rule"),
        [
            ({"wait": ""}, "A001"),
            ({"commit": ""}, "A008"),
            ({"barrier": "", "wait": "bar.sync 0;\ncp.async.wait_group 1;"}, "A005"),
            ({"wait": "cp.async.wait_group 9;"}, "A003"),
        ],
        ids=lambda value: str(value),
    )
    def test_its_rule_tells(self, parts: dict[str, str], rule: str) -> None:
        assert rule in told(kernel(**parts))

    def test_a_missing_group_of_the_prologue(self) -> None:
        assert told(kernel(prologue_commit=""))

    def test_a_missing_barrier(self) -> None:
        assert told(kernel(barrier="")) == {"A005", "A010"}

    def test_a_stronger_wait_is_fine(self) -> None:
        assert told(kernel(wait="cp.async.wait_group 0;")) == set()

    def test_a_witness_names_inputs_that_go_wrong(self) -> None:
        (finding,) = lint(ptxkit.parse(kernel(commit="", inner_commit="cp.async.commit_group;")), select(["A008"]))

        assert "n = " in " ".join(finding.notes)
        assert finding.related[0].message == "started here"


BULK = """.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 .ptr .global .align 16 data, .param .u32 n)
.reqntid 64, 1, 1
{{
.reg .pred %p<9>;
.reg .b32 %r<20>;
.reg .b64 %rd<4>;
.shared .align 128 .b8 out[2048];
ld.param.u64 %rd1, [data];
ld.param.u32 %r1, [n];
mov.u32 %r2, %tid.x;
setp.ne.s32 %p1, %r2, 0;
shl.b32 %r3, %r2, 4;
mov.u32 %r4, out;
mov.u32 %r5, 0;
LOOP:
and.b32 %r6, %r5, 1;
shl.b32 %r6, %r6, 10;
add.s32 %r7, %r4, %r6;
@%p1 bra WRITE;
{wait}
WRITE:
{barrier}
add.s32 %r8, %r7, %r3;
st.shared.v4.u32 [%r8], {{%r2, %r2, %r2, %r2}};
fence.proxy.async.shared::cta;
bar.sync 0;
@%p1 bra NEXT;
cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r7], 1024;
{commit}
NEXT:
add.s32 %r5, %r5, 1;
setp.lt.s32 %p2, %r5, %r1;
@%p2 bra LOOP;
@%p1 bra END;
{last}
END:
ret;
}}
"""


# Blocks take tiles by turns; of each, every thread copies 16 bytes, if two masks that it is given have a bit in common, and else zeros.
TURNS = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 .ptr .global .align 16 data, .param .u32 n, .param .u32 rows, .param .u32 columns)
.reqntid 128, 1, 1
{{
.reg .pred %p<9>;
.reg .b32 %r<40>;
.reg .b64 %rd<9>;
.shared .align 128 .b8 tile[2048];
ld.param.u64 %rd1, [data];
ld.param.u32 %r1, [n];
ld.param.u32 %r2, [rows];
ld.param.u32 %r3, [columns];
mov.u32 %r4, %tid.x;
shl.b32 %r5, %r4, 4;
mov.u32 %r6, tile;
add.s32 %r7, %r6, %r5;
xor.b32 %r8, %r5, 16;
add.s32 %r9, %r6, %r8;
mov.u32 %r10, %ctaid.x;
mov.u32 %r11, %nctaid.x;
setp.ge.u32 %p1, %r10, %r1;
@%p1 bra DONE;
LOOP:
shl.b32 %r12, %r2, 3;
and.b32 %r12, %r12, %r10;
setp.eq.s32 %p2, %r12, 0;
shl.b32 %r13, %r3, 2;
and.b32 %r13, %r13, %r10;
setp.eq.s32 %p3, %r13, 0;
or.pred %p4, %p2, %p3;
selp.b32 %r14, 0, 16, %p4;
cp.async.cg.shared.global [%r7], [%rd1], 16, %r14;
cp.async.commit_group;
{wait}
{barrier}
ld.shared.v4.u32 {{%r30, %r31, %r32, %r33}}, [%r9];
{last}
add.s32 %r10, %r10, %r11;
setp.lt.u32 %p5, %r10, %r1;
@%p5 bra LOOP;
DONE:
ret;
}}
"""


class TestTurns:
    @pytest.mark.parametrize(
        ("changed", "rules"),
        [
            ({}, set()),
            ({"wait": "cp.async.wait_group 1;"}, {"A003"}),
            ({"wait": ""}, {"A001"}),
            ({"barrier": ""}, {"A005"}),
            ({"last": ""}, {"A010"}),
        ],
    )
    def test_what_is_broken_is_told_of(self, changed: dict[str, str], rules: set[str]) -> None:
        assert told(self.text(**changed)) == rules

    def test_all_turns_are_followed(self) -> None:
        (routine,) = routines(ptxkit.parse(self.text()))

        assert copies(routine).coverage.complete
        assert copies(routine).blind == frozenset()

    def text(self, **parts: str) -> str:
        return TURNS.format(**{"wait": "cp.async.wait_group 0;", "barrier": "bar.sync 0;", "last": "bar.sync 0;", **parts})


# One warp, if it is told to, goes a way of its own; then each thread overwrites what one of the other warp has.
PARTLY = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 .ptr .global .align 16 data, .param .u32 apart)
.reqntid 64, 1, 1
{{
.reg .pred %p<9>;
.reg .b32 %r<40>;
.reg .b64 %rd<9>;
.shared .align 128 .b8 tile[1024];
ld.param.u64 %rd1, [data];
ld.param.u32 %r1, [apart];
mov.u32 %r4, %tid.x;
shl.b32 %r5, %r4, 4;
mov.u32 %r6, tile;
add.s32 %r7, %r6, %r5;
xor.b32 %r8, %r5, 512;
add.s32 %r9, %r6, %r8;
cp.async.cg.shared.global [%r7], [%rd1], 16;
cp.async.commit_group;
setp.lt.u32 %p1, %r4, 32;
setp.ne.s32 %p2, %r1, 0;
and.pred %p3, %p1, %p2;
@!%p3 bra ON;
bar.warp.sync -1;
ON:
{wait}
bar.sync 0;
st.shared.v4.u32 [%r9], {{%r4, %r4, %r4, %r4}};
ret;
}}
"""


@pytest.mark.parametrize(("wait", "rules"), [("cp.async.wait_all;", set()), ("", {"A001"})])
def test_who_goes_a_way_by_its_place_and_by_what_is_given(wait: str, rules: set[str]) -> None:
    assert told(PARTLY.format(wait=wait)) == rules


# An odd number is no double one: nobody takes the way on which this reads first what it copied.
NEVER = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 .ptr .global .align 16 data, .param .u32 n)
.reqntid 32, 1, 1
{{
.reg .pred %p<9>;
.reg .b32 %r<40>;
.reg .b64 %rd<9>;
.shared .align 128 .b8 tile[512];
ld.param.u64 %rd1, [data];
ld.param.u32 %r1, [n];
mov.u32 %r4, %tid.x;
shl.b32 %r5, %r4, 4;
mov.u32 %r6, tile;
add.s32 %r7, %r6, %r5;
cp.async.cg.shared.global [%r7], [%rd1], 16;
cp.async.commit_group;
and.b32 %r10, %r1, 1;
rem.u32 %r11, %r1, 4;
setp.eq.s32 %p1, %r10, 1;
setp.eq.s32 %p2, %r11, 2;
and.pred %p3, %p1, %p2;
@!%p3 bra OTHERWISE;
{reads}
cp.async.wait_all;
ret;
OTHERWISE:
{wait}
ld.shared.u32 %r12, [%r7];
cp.async.wait_all;
ret;
}}
"""


@pytest.mark.parametrize(("wait", "rules"), [("cp.async.wait_all;", set()), ("", {"A001"})])
def test_inputs_are_looked_for_on_other_paths_where_one_has_none(wait: str, rules: set[str]) -> None:
    reads = "\n".join([f"ld.shared.u32 %r{20 + place}, [%r7];" for place in range(2 * MOST_FAILURES)])

    assert told(NEVER.format(wait=wait, reads=reads)) == rules


class TestBulkStores:
    RIGHT = {
        "wait": "cp.async.bulk.wait_group.read 1;",
        "barrier": "bar.sync 0;",
        "commit": "cp.async.bulk.commit_group;",
        "last": "cp.async.bulk.wait_group 0;",
    }

    def told(self, **parts: str) -> set[str]:
        return told(BULK.format(**{**self.RIGHT, **parts}))

    def test_a_right_one_is_silent(self) -> None:
        assert self.told() == set()

    def test_reading_is_enough_at_the_end(self) -> None:
        assert self.told(last="cp.async.bulk.wait_group.read 0;") == set()

    @pytest.mark.parametrize(
        ("parts", "rule"),
        [
            ({"wait": ""}, "A011"),
            ({"wait": "cp.async.bulk.wait_group.read 2;"}, "A011"),
            ({"commit": ""}, "A012"),
            ({"barrier": ""}, "A013"),
            ({"last": ""}, "A014"),
            ({"wait": "cp.async.wait_group 0;", "last": "cp.async.wait_group 0;"}, "A015"),
        ],
        ids=lambda value: str(value),
    )
    def test_its_rule_tells(self, parts: dict[str, str], rule: str) -> None:
        assert self.told(**parts) == {rule}


MATRICES = """.version 8.5
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 p)
.reqntid 128
{
.reg .b32 %r<8>; .reg .b64 %rd<4>; .reg .f32 %f<8>;
.shared .align 1024 .b8 tile[8192];
ld.param.u64 %rd1, [p];
mov.u32 %r1, %tid.x;
shl.b32 %r1, %r1, 4;
mov.u32 %r2, tile;
add.u32 %r3, %r2, %r1;
cp.async.cg.shared.global [%r3], [%rd1], 16;
cp.async.commit_group;
cp.async.cg.shared.global [%r3+4096], [%rd1], 16;
cp.async.commit_group;
cp.async.wait_group LEFT;
fence.proxy.async.shared::cta;
bar.sync 0;
add.u32 %r2, %r2, 4096;
bfe.u32 %r4, %r2, 4, 14;
cvt.u64.u32 %rd2, %r4;
or.b64 %rd2, %rd2, 4611686293305360384;
wgmma.fence.sync.aligned;
wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f0, %f1, %f2, %f3}, %rd2, %rd2, 1, 1, 1, 0, 0;
wgmma.commit_group.sync.aligned;
wgmma.wait_group.sync.aligned 0;
ret;
}
"""


@pytest.mark.parametrize(("left", "rules"), [("0", set()), ("1", {"A001"})])
def test_what_tensor_cores_read_is_waited_for(left: str, rules: set[str]) -> None:
    found = lint(ptxkit.parse(MATRICES.replace("LEFT", left)), select(["A"]))

    assert {one.rule for one in found if one.severity is not Severity.INFO} == rules


@pytest.mark.parametrize(("barrier", "rules"), [("bar.sync 0;\n", set()), ("", {"A005"})])
def test_what_other_warps_copied_for_a_tensor_core_needs_a_barrier(barrier: str, rules: set[str]) -> None:
    text = MATRICES.replace("LEFT", "0").replace("bar.sync 0;\n", barrier)

    assert {one.rule for one in lint(ptxkit.parse(text), select(["A"])) if one.severity is not Severity.INFO} == rules


OVERWRITTEN = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 p, .param .u32 n)
.reqntid 128
{{
.reg .b32 %r<8>; .reg .b64 %rd<4>; .reg .pred %p<4>;
.shared .align 16 .b8 tile[4096];
ld.param.u64 %rd1, [p];
ld.param.u32 %r4, [n];
mov.u32 %r1, %tid.x;
shl.b32 %r1, %r1, 4;
mov.u32 %r2, tile;
add.u32 %r3, %r2, %r1;
setp.gt.s32 %p1, %r4, 3;
selp.b32 %r5, 16, 0, %p1;
cp.async.cg.shared.global [%r3], [%rd1], 16, %r5;
cp.async.commit_group;
{wait}
bar.sync 0;
st.shared.u32 [%r3+{at}], %r1;
cp.async.wait_group 0;
ret;
}}
"""


@pytest.mark.parametrize(
    ("wait", "at", "rules"),
    [("cp.async.wait_group 0;", 0, set()), ("", 0, {"A001"}), ("cp.async.wait_group 1;", 0, {"A003"}), ("", 2048, set())],
)
def test_what_a_copy_writes_is_not_overwritten_meanwhile(wait: str, at: int, rules: set[str]) -> None:
    found = lint(ptxkit.parse(OVERWRITTEN.format(wait=wait, at=at)), select(["A"]))

    assert {one.rule for one in found if one.severity is not Severity.INFO} == rules


@pytest.mark.parametrize(("barrier", "rules"), [("bar.sync 0;", set()), ("", {"A005"})])
def test_others_overwrite_it_behind_a_barrier(barrier: str, rules: set[str]) -> None:
    between = f"{barrier}\nxor.b32 %r1, %r1, 512;\nadd.u32 %r3, %r2, %r1;"
    text = OVERWRITTEN.format(wait="cp.async.wait_group 0;", at=0).replace("bar.sync 0;", between)

    assert {one.rule for one in lint(ptxkit.parse(text), select(["A"])) if one.severity is not Severity.INFO} == rules


ITERATION = """.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 p)
.reqntid 32
{{
.reg .b32 %r<8>; .reg .b64 %rd<4>; .reg .pred %p<4>;
.shared .align 128 .b8 out[1024];
ld.param.u64 %rd1, [p];
mov.u32 %r1, %tid.x;
setp.ne.s32 %p1, %r1, 0;
mov.u32 %r2, out;
TILE:
st.shared.u32 [%r2], %r1;
@%p1 bra NEXT;
cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r2], 512;
cp.async.bulk.commit_group;
{wait}
ld.global.u32 %r3, [%rd1];
setp.lt.s32 %p3, %r3, 8;
@%p3 bra SKIP;
cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r2+512], 512;
{commit}
{skipped}
SKIP:
{last}
NEXT:
ld.global.u32 %r4, [%rd1+4];
setp.ne.s32 %p2, %r4, 0;
@%p2 bra TILE;
@%p1 bra END;
cp.async.bulk.wait_group.read 0;
END:
ret;
}}
"""


class TestLoadedNumbers:
    """A path that what was loaded chooses: a wait, or a commit that it counts, may be come by whenever the copy is."""

    @pytest.mark.parametrize(
        ("parts", "rules"),
        [
            ({"wait": "cp.async.bulk.wait_group.read 0;"}, set()),
            ({"commit": "cp.async.bulk.commit_group;", "last": "cp.async.bulk.wait_group.read 1;"}, set()),
            ({"commit": "cp.async.bulk.commit_group;", "skipped": "cp.async.bulk.wait_group.read 1;"}, set()),
            ({"last": "cp.async.bulk.wait_group.read 1;"}, {"A011"}),
        ],
    )
    def test_only_what_no_other_way_counts_is_told_of(self, parts: dict[str, str], rules: set[str]) -> None:
        given = {"wait": "", "commit": "", "skipped": "", "last": ""}
        found = lint(ptxkit.parse(ITERATION.format(**{**given, **parts})), select(["A011"]))

        assert {one.rule for one in found} == rules

    @pytest.mark.parametrize(("skipped", "severities"), [("", [Severity.WARNING]), ("cp.async.bulk.wait_group.read 0;", [])])
    def test_without_inputs_all_paths_must_agree(self, skipped: str, severities: list[Severity], monkeypatch: pytest.MonkeyPatch) -> None:
        def none(moment: Moment, *operations: Operation, **_: object) -> None:
            """No inputs are found."""

        monkeypatch.setattr(Moment, "model", none)
        text = ITERATION.format(wait="", commit="cp.async.bulk.commit_group;", skipped=skipped, last="")
        found = lint(ptxkit.parse(text), select(["A011"]))

        assert [one.severity for one in found] == severities


# The first warp copies under many conditions that are loaded, the second stores what it has written.
ROLES = """.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 p)
.reqntid 64
{{
.reg .b32 %r<8>; .reg .b64 %rd<4>; .reg .pred %p<4>;
.shared .align 128 .b8 in[1024];
.shared .align 128 .b8 out[1024];
ld.param.u64 %rd1, [p];
mov.u32 %r1, %tid.x;
mov.u32 %r2, out;
setp.lt.u32 %p1, %r1, 32;
@!%p1 bra STORE;
{copies}
cp.async.wait_all;
ret;
STORE:
setp.ne.u32 %p1, %r1, 32;
@%p1 bra END;
TILE:
{wait}
st.shared.u32 [%r2], %r1;
cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r2], 512;
cp.async.bulk.commit_group;
ld.global.u32 %r4, [%rd1+4];
setp.ne.s32 %p2, %r4, 0;
@%p2 bra TILE;
cp.async.bulk.wait_group.read 0;
END:
ret;
}}
"""


@pytest.mark.parametrize(("wait", "rules"), [("cp.async.bulk.wait_group.read 0;", set()), ("", {"A011"})])
def test_many_paths_of_another_queue_hide_no_store(wait: str, rules: set[str]) -> None:
    one = """ld.global.u32 %r3, [%rd1+{n}];
setp.lt.s32 %p3, %r3, 8;
@%p3 bra NEXT{n};
cp.async.cg.shared.global [in+{n}], [%rd1], 16;
NEXT{n}:
"""
    text = ROLES.format(copies="".join([one.format(n=16 * n) for n in range(32)]), wait=wait)

    assert not copies(routines(ptxkit.parse(text))[0]).coverage.complete
    assert told(text) == rules


TWICE = """.version 8.0
.target sm_80
.address_size 64
.const .align 4 .b32 wanted;
.visible .entry k(.param .u64 p)
.reqntid 128
{
.reg .b32 %r<8>; .reg .b64 %rd<4>; .reg .pred %p<4>;
.shared .align 16 .b8 tile[2048];
ld.param.u64 %rd1, [p];
mov.u32 %r1, %tid.x;
shl.b32 %r1, %r1, 4;
mov.u32 %r2, tile;
add.u32 %r3, %r2, %r1;
ld.LOAD %r4, [FIRST];
setp.eq.s32 %p1, %r4, 0;
@%p1 bra A;
cp.async.cg.shared.global [%r3], [%rd1], 16;
cp.async.commit_group;
A:
ld.LOAD %r5, [THEN];
setp.eq.s32 %p2, %r5, 0;
@%p2 bra B;
cp.async.wait_group 0;
B:
ld.shared.u32 %r6, [%r3];
ret;
}
"""


@pytest.mark.parametrize(
    ("load", "first", "then", "rules"),
    [
        ("const.u32", "wanted", "wanted", set()),
        ("global.nc.u32", "%rd1", "%rd1", set()),
        ("global.nc.u32", "%rd1", "%rd1+4", {"A001"}),
        ("global.u32", "%rd1", "%rd1", {"A001"}),
    ],
)
def test_what_nothing_writes_is_the_same_when_it_is_loaded_again(load: str, first: str, then: str, rules: set[str]) -> None:
    found = lint(ptxkit.parse(TWICE.replace("LOAD", load).replace("FIRST", first).replace("THEN", then)), select(["A"]))

    assert {one.rule for one in found if one.severity is Severity.ERROR} == rules


AHEAD = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 p, .param .u32 n, .param .u32 m)
.reqntid 128
{
.reg .b32 %r<12>; .reg .b64 %rd<4>; .reg .pred %p<4>;
.shared .align 16 .b8 ring[4096];
ld.param.u64 %rd1, [p];
ld.param.u32 %r1, [n];
ld.param.u32 %r11, [m];
mov.u32 %r2, %tid.x;
shl.b32 %r2, %r2, 4;
mov.u32 %r3, ring;
add.u32 %r3, %r3, %r2;
cp.async.cg.shared.global [%r3], [%rd1], 16;
cp.async.commit_group;
mov.u32 %r4, 0;
mov.u32 %r5, 2048;
LOOP:
add.u32 %r4, %r4, 1;
setp.lt.u32 %p1, %r4, SIZE;
selp.b32 %r6, 16, 0, %p1;
add.u32 %r7, %r3, %r5;
cp.async.cg.shared.global [%r7], [%rd1], 16, %r6;
cp.async.commit_group;
cp.async.wait_group 1;
xor.b32 %r5, %r5, 2048;
add.u32 %r8, %r3, %r5;
ld.shared.u32 %r9, [%r8];
setp.lt.u32 %p2, %r4, %r1;
@%p2 bra LOOP;
ld.shared.u32 %r9, [%r3];
ld.shared.u32 %r10, [%r3+2048];
ret;
}
"""


@pytest.mark.parametrize(("size", "severities"), [("%r1", []), ("%r11", [Severity.INFO]), ("99999", [Severity.INFO])])
def test_copies_ahead_of_a_loop_may_be_of_no_bytes(size: str, severities: list[Severity]) -> None:
    found = lint(ptxkit.parse(AHEAD.replace("SIZE", size)), select(["A"]))

    assert [one.severity for one in found if one.rule == "A003"] == severities


@pytest.mark.parametrize(("bytes_", "severity"), [(", 16, %r6;", Severity.INFO), (", 16;", Severity.ERROR)])
def test_so_may_copies_before_a_loop_that_does_not_come_to_them(bytes_: str, severity: Severity) -> None:
    # two rounds are copied ahead, and whether there is one is asked at the top
    text = AHEAD.replace("SIZE", "%r11").replace(
        "mov.u32 %r5, 2048;\n",
        "setp.ne.u32 %p1, %r11, 0;\nselp.b32 %r6, 16, 0, %p1;\ncp.async.cg.shared.global [%r3+2048], [%rd1]" + bytes_ + "\n"
        "cp.async.commit_group;\nmov.u32 %r5, 0;\ncp.async.wait_group 1;\nsetp.eq.u32 %p2, %r1, 0;\n@%p2 bra DONE;\n",
    )
    text = text.replace("@%p2 bra LOOP;\n", "@%p2 bra LOOP;\nDONE:\n")

    found = lint(ptxkit.parse(text), select(["A"]))

    first = text[: text.index("cp.async.wait_group")].count("\n") + 1
    assert [one.severity for one in found if one.rule == "A003" and one.span.line == first] == [severity]


def test_copies_ahead_that_are_always_of_bytes_are_waited_for() -> None:
    found = lint(ptxkit.parse(AHEAD.replace(", 16, %r6;", ", 16;").replace("SIZE", "%r1")), select(["A"]))

    assert [(one.rule, one.severity) for one in found if one.rule == "A003"] == [("A003", Severity.ERROR)]


def test_inputs_are_looked_for_a_few_times_only(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def none(moment: Moment, *operations: Operation, **_: object) -> None:
        asked.append(moment.instruction)

    monkeypatch.setattr(Moment, "model", none)
    repeated = "\n".join(["add.s32 %r12, %r5, %r20;", "cp.async.cg.shared.global [%r12], [%rd1], 16;"] * 20)
    text = kernel(barrier="").replace("LAST:\n", repeated + "\nLAST:\n")
    copies(routines(ptxkit.parse(text))[0])

    assert 0 < len(asked) <= MOST_FAILURES


def test_a_wait_that_leaves_every_group_says_so() -> None:
    text = """.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 p)
.reqntid 1
{
.reg .b32 %r<4>; .reg .b64 %rd<4>; .shared .align 16 .b8 s[64];
ld.param.u64 %rd1, [p];
mov.u32 %r1, s;
st.shared.u32 [%r1], %r1;
fence.proxy.async.shared::cta;
cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r1], 64;
cp.async.bulk.commit_group;
cp.async.bulk.wait_group.read 2;
st.shared.u32 [%r1], %r2;
ret;
}
"""
    said = [related.message for one in ptxkit.lint(text) for related in one.related]

    assert "this leaves every group in flight, until they have read their sources" in said
