"""What `benchmarks/machine_fuzz.py` found: a fault, where there was a traceback."""

from __future__ import annotations

import numpy as np
import pytest

from ptxkit.machine import Fault, Machine

SIGNALS_GLOBAL_MEMORY = """
.version 8.7
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 buffer)
{
    .reg .b32 %r; .reg .b64 %a, %b; .shared .align 16 .b8 s[64];
    ld.param.u64 %b, [buffer];
    mov.u64 %a, s; cvta.shared.u64 %a, %a; mov.b32 %r, 5;
    st.async.mbarrier::complete_tx::bytes.b32 [%a], %r, [%b];
    ret;
}
"""


def test_an_asynchronous_store_that_signals_global_memory_is_a_fault() -> None:
    machine = Machine("sm_90a")
    with pytest.raises(Fault, match="not in shared memory"):
        machine.launch(machine.load(SIGNALS_GLOBAL_MEMORY), "k", np.zeros(8, np.uint64), grid=1, block=32)
