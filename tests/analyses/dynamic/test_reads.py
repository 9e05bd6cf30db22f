"""Stores that somebody reads."""

from __future__ import annotations

import pytest

import ptxkit
from ptxkit.analyses.dynamic.reads import Reads
from ptxkit.analyses.execution.loading import loaded

KERNEL = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k()
{{
	.shared .align 4 .b8 s[256];
	.reg .b32 %r<8>;
	mov.u32 %r1, %tid.x;
	shl.b32 %r2, %r1, 2;
	mov.u32 %r3, s;
	add.u32 %r2, %r2, %r3;
	st.shared.u32 [%r2], %r1;
	st.shared.u32 [%r2+128], %r1;
	bar.sync 0;
	{read}
	ret;
}}
"""


@pytest.mark.parametrize(
    ("read", "lines"),
    [
        ("", set()),
        ("ld.shared.u32 %r4, [%r2];", {12}),
        ("ld.shared.u32 %r4, [%r2+128];", {13}),
        ("ld.shared.u8 %r4, [%r2+64];", {12, 13}),
        ("atom.shared.add.u32 %r4, [s+128], 1;", {13}),
        ("st.shared.u32 [s], 1;", set()),
    ],
)
def test_the_stores_that_are_read(read: str, lines: set[int]) -> None:
    code = loaded(ptxkit.parse(KERNEL.format(read=read)))
    reads = Reads((12, 13))
    code.machine.launch(code, "k", grid=(1, 1, 1), block=(32, 1, 1), monitors=(reads,))

    assert reads.read == lines
