"""Threads whose reads have an effect."""

from __future__ import annotations

import pytest

import ptxkit
from ptxkit.analyses.dynamic.effects import Effects
from ptxkit.analyses.execution.loading import loaded

KERNEL = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k()
{{
	.shared .align 4 .b8 s[256];
	.reg .pred %p<4>;
	.reg .b32 %r<8>;
	mov.u32 %r1, %tid.x;
	and.b32 %r2, %r1, 31;
	mov.u32 %r3, s;
	mad.lo.u32 %r2, %r2, 4, %r3;
	ld.shared.u32 %r4, [%r2];
	setp.lt.u32 %p1, %r1, {threads};
	@%p1 st.shared.u32 [%r2], %r1;
	ret;
}}
"""


@pytest.mark.parametrize(("threads", "meet"), [(32, False), (33, True), (64, True)])
def test_threads_that_write_and_access_the_same_bytes(threads: int, meet: bool) -> None:
    code = loaded(ptxkit.parse(KERNEL.format(threads=threads)))
    effects = Effects((13, 15))
    code.machine.launch(code, "k", grid=(1, 1, 1), block=(64, 1, 1), monitors=(effects,))

    assert effects.meet({13, 15}) == meet
    assert not effects.meet({13})
