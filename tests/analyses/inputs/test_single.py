"""Kernels that one thread may execute."""

from __future__ import annotations

import pytest

import ptxkit
from ptxkit.analyses.framework.routine import routines
from ptxkit.analyses.inputs.single import suits_one_thread

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
