"""`a[3]` as an operand is the address of an element: what the same addresses written as `a+24` hold."""

from __future__ import annotations

import numpy as np

from ptxkit.machine import Machine

TEXT = """
.version 8.7
.target sm_90a
.address_size 64
.global .align 8 .b64 table[4];
.visible .entry k(.param .u64 out, .param .align 4 .b32 words[4])
{
    .reg .b64 %out, %a, %b, %one; .reg .b32 %t, %w;
    .shared .align 8 .b64 all[64];
    ld.param.u64 %out, [out];
    mov.u32 %t, %tid.x;
    cvt.u64.u32 %one, %t;
    st.shared.u64 all[%t+2], %one;
    ld.shared.u64 %one, [all+40];
    st.global.u64 table[3], %one;
    ld.global.u64 %one, [table+24];
    st.global.u64 [%out], %one;
    mov.u64 %a, table[2];
    mov.u64 %b, table;
    sub.u64 %a, %a, %b;
    st.global.u64 [%out+8], %a;
    mov.u64 %a, all[%t];
    mov.u64 %b, all;
    sub.u64 %a, %a, %b;
    mad.wide.u32 %b, %t, 8, %out;
    st.global.u64 [%b+16], %a;
    ld.param.u32 %w, words[2];
    cvt.u64.u32 %a, %w;
    st.global.u64 [%b+272], %a;
    ret;
}
"""


def test_elements_lie_at_their_index_times_their_size() -> None:
    out = np.zeros(66, np.uint64)
    machine = Machine("sm_90a")

    machine.launch(machine.load(TEXT), "k", out, np.arange(7, 11, dtype=np.uint32).tobytes(), grid=1, block=32)

    assert out[:2].tolist() == [3, 16]
    assert out[2:34].tolist() == [8 * i for i in range(32)]
    assert set(out[34:].tolist()) == {9}
