"""Kernels that few threads may execute."""

from __future__ import annotations

import pytest

import ptxkit
from ptxkit.analyses.framework.routine import routines
from ptxkit.analyses.inputs.single import group, suits_one_thread

KERNEL = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 p, .param .u32 n)
{{
.reg .pred %p<4>; .reg .b32 %r<16>; .reg .b64 %rd<8>;
.shared .align 4 .b8 s[4096];
ld.param.u64 %rd1, [p]; ld.param.u32 %r1, [n]; mov.u32 %r2, %tid.x; mov.u32 %r3, %ntid.x;
L: setp.ge.u32 %p1, %r2, %r1; @%p1 bra END;
ld.global.u32 %r4, [%rd1]; mov.u32 %r5, %r2;
{}
st.global.u32 [%rd1+4], %r4;
add.u32 %r2, %r2, %r3; bra L;
END: ret;
}}
"""


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("add.u32 %r4, %r4, 1;", True),
        ("setp.eq.u32 %p2, %r4, 0; @%p2 bra END;", True),
        # each thread has a word of shared memory of its own, and all words are equal
        ("mov.u32 %r6, s; mad.lo.u32 %r6, %r5, 4, %r6; st.shared.u32 [%r6], %r4;", True),
        ("mov.u32 %r6, s; mad.lo.u32 %r6, %r5, 4, %r6; st.shared.u32 [%r6], %r5;", False),
        ("add.u32 %r4, %r4, %r5;", False),
        ("mul.wide.u32 %rd2, %r5, 4; add.s64 %rd2, %rd1, %rd2; ld.global.u32 %r4, [%rd2];", False),
        ("setp.eq.u32 %p2, %r5, 0; @%p2 bra END;", False),
        ("atom.global.add.u32 %r4, [%rd1], 1;", False),
        ("bar.warp.sync 1;", False),
    ],
)
def test_what_depends_on_the_thread(body: str, expected: bool) -> None:
    assert suits_one_thread(routines(ptxkit.parse(KERNEL.format(body)))[0]) is expected


GROUPS = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 p)
{{
.reg .pred %p<4>; .reg .b32 %r<16>; .reg .b64 %rd<8>;
ld.param.u64 %rd1, [p]; mov.u32 %r1, %tid.x; mov.u32 %r2, %tid.y; mov.u32 %r3, %ntid.x; mad.lo.u32 %r1, %r2, %r3, %r1;
and.b32 %r4, %r1, 7; mov.u32 %r5, %laneid; and.b32 %r6, %r5, -8; mov.u32 %r7, 255; shl.b32 %r7, %r7, %r6;
setp.ne.u32 %p1, %r4, 0; mov.u32 %r8, 0; @%p1 bra ALL;
atom.global.add.u32 %r8, [%rd1], 1;
ALL: shfl.sync.idx.b32 %r9, %r8, 0, 6175, %r7;
{}
st.global.u32 [%rd1+4], %r9;
ret;
}}
"""


@pytest.mark.parametrize(
    ("body", "threads"),
    [
        ("", 8),
        ("and.b32 %r10, %r1, 31; mul.wide.u32 %rd2, %r10, 4; add.s64 %rd2, %rd1, %rd2; st.global.u32 [%rd2+8], %r9;", 32),
        ("shr.u32 %r10, %r1, 3; mul.wide.u32 %rd2, %r10, 4; add.s64 %rd2, %rd1, %rd2; st.global.u32 [%rd2+8], %r9;", 0),
        ("setp.eq.u32 %p2, %r5, 9; @%p2 ret;", 0),
        ("and.b32 %r10, %r1, 5; add.u32 %r9, %r9, %r10;", 0),
        ("mov.u32 %r10, %ctaid.x; add.u32 %r9, %r9, %r10;", 0),
        ("shfl.sync.idx.b32 %r9, %r5, 0, 6175, %r7;", 0),
        ("bar.sync 0;", 0),
    ],
)
def test_threads_of_a_group(body: str, threads: int) -> None:
    assert group(routines(ptxkit.parse(GROUPS.format(body)))[0]) == threads


def test_groups_that_nothing_tells_apart_do_not_race() -> None:
    apart = "shr.u32 %r10, %r1, 3; setp.gt.u32 %p2, %r10, 64; @%p2 ret;"

    assert not ptxkit.lint(GROUPS.format(""))
    assert [one.rule for one in ptxkit.lint(GROUPS.format(apart))] == ["G006"]
