"""Special registers whose values follow from the launch (ISA chapter 10)."""

import numpy as np

from ptxkit.machine import Machine

SIZES = """
.version 8.5
.target sm_90
.address_size 64
.extern .shared .align 16 .b8 dynamic[];
.visible .entry sizes(.param .u64 out)
{
    .shared .align 4 .b8 tile[100];
    .reg .b32 %r<4>;
    .reg .b64 %a;
    ld.param.u64 %a, [out];
    st.shared.u32 [tile], 1;
    mov.u32 %r0, dynamic;
    mov.u32 %r0, %total_smem_size;
    mov.u32 %r1, %aggr_smem_size;
    mov.u32 %r2, %dynamic_smem_size;
    st.global.u32 [%a], %r0;
    st.global.u32 [%a+4], %r1;
    st.global.u32 [%a+8], %r2;
    ret;
}
"""


def test_sizes_of_shared_memory_without_and_with_what_the_system_keeps() -> None:
    machine = Machine("sm_90")
    out = np.zeros(3, np.uint32)
    machine.launch(machine.load(SIZES), "sizes", out, grid=1, block=1, shared=64)
    total = 256  # 100 bytes of `tile`, 64 of `dynamic`, which starts at a multiple of 16
    assert out.tolist() == [total, total + 1024, 64]
