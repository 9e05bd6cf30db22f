"""Which doubts remain about a finding."""

from __future__ import annotations

import pytest
from exercising import HEADER, INDEX, REGISTERS, counted, exercised

import ptxkit
from ptxkit.analyses.dynamic.exercise import Exercised, exercise
from ptxkit.analyses.execution.loading import loaded
from ptxkit.analyses.framework.routine import routines


def test_a_finding_in_doubt_from_the_start_takes_no_further_runs(monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_a_race_with_another_access_where_sizes_differ_is_the_same() -> None:
    body = """.shared .align 4 .b8 s[512]; ld.param.u32 %r9, [n]; mov.u32 %r1, %tid.x; mov.u32 %r2, s; shl.b32 %r3, %r1, 2;
add.u32 %r4, %r2, %r3; xor.b32 %r5, %r3, 256; add.u32 %r5, %r2, %r5; setp.eq.u32 %p1, %r9, 128; @%p1 bra ONE;
st.shared.u32 [%r5], %r1; bra READ;
ONE: st.shared.u32 [%r5], %r1;
READ: ld.shared.u32 %r6, [%r4];
ld.param.u64 %rd1, [p]; mul.wide.u32 %rd2, %r1, 4; add.s64 %rd1, %rd1, %rd2; st.global.u32 [%rd1], %r6;"""
    done = exercised(body, ".param .u64 p, .param .u32 n", ".reqntid 128")

    assert {one.doubt for one in done.found if one.finding.diagnostic.rule == "S003"} == {""}


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
