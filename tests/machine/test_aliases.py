"""Functions that have another name too (`.alias`)."""

from __future__ import annotations

import pytest

np = pytest.importorskip("numpy")

from ptxkit.machine import Machine  # noqa: E402

TEXT = """.version 8.5
.target sm_90a
.address_size 64
.visible .func f(.param .u64 p);
.visible .func g(.param .u64 p) { .reg .b64 %a; ld.param.u64 %a, [p]; st.global.u32 [%a], 7; ret; }
.alias f, g;
.visible .entry k(.param .u64 out)
{
.reg .b64 %rd<2>;
ld.param.u64 %rd1, [out];
{ .param .u64 q; st.param.u64 [q], %rd1; call f, (q); }
{ .param .u64 q; st.param.u64 [q], %rd1; call g, (q); }
ret;
}
"""


def test_a_function_is_one_body_by_both_names() -> None:
    machine = Machine()
    code = machine.load(TEXT)
    out = np.zeros(1, np.uint32)
    machine.launch(code, "k", out, grid=1, block=1)

    assert code.body("f", (False, False, False)) is code.body("g", (False, False, False))
    assert out[0] == 7
