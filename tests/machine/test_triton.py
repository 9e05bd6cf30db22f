"""Launching what Triton has compiled: a compiled kernel is its PTX, signature and metadata, so these tests do without Triton."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from ptxkit.machine import Fault
from ptxkit.machine.triton import launch

SHIFT = """
.version 8.5
.target sm_90a
.address_size 64
.visible .entry shift(.param .u64 x, .param .u64 y, .param .f32 by, .param .u32 n, .param .u64 scratch, .param .u64 profile)
.reqntid 32
{
    .reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .f32 %f<4>; .reg .pred %p<2>;
    mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mad.lo.u32 %r1, %r2, 32, %r1;
    ld.param.u32 %r3, [n]; setp.ge.u32 %p1, %r1, %r3; @%p1 ret;
    ld.param.u64 %rd1, [x]; ld.param.u64 %rd2, [y]; mul.wide.u32 %rd3, %r1, 4; add.s64 %rd1, %rd1, %rd3; add.s64 %rd2, %rd2, %rd3;
    ld.global.f32 %f1, [%rd1]; ld.param.f32 %f2, [by]; add.f32 %f1, %f1, %f2; st.global.f32 [%rd2], %f1;
    ret;
}
"""


def compiled(ptx: str = SHIFT, arch: int = 90) -> Any:
    signature = {"x": "*fp32", "y": "*fp32", "by": "fp32", "n": "i32", "BLOCK": "constexpr"}
    metadata = SimpleNamespace(
        name="shift", num_warps=1, num_ctas=1, shared=0, global_scratch_size=0, tensordesc_meta=[], target=SimpleNamespace(arch=arch)
    )
    return SimpleNamespace(src=SimpleNamespace(signature=signature), metadata=metadata, asm={"ptx": ptx})


class Tensor:
    """A CPU tensor as torch has it: a view of a storage."""

    def __init__(self, array: Any, offset: int) -> None:
        self.array, self.offset = array, offset

    def data_ptr(self) -> int:
        return int(self.array.ctypes.data) + self.offset

    def untyped_storage(self) -> Any:
        return SimpleNamespace(data_ptr=lambda: self.array.ctypes.data, nbytes=lambda: self.array.nbytes)


@pytest.mark.parametrize("checks", [(), "races"])
def test_arrays_are_read_and_written_where_they_are(checks: Any) -> None:
    x, y = np.arange(70, dtype=np.float32), np.zeros(80, np.float32)
    run = launch(compiled(), 3, x, y[5:75], 0.5, 70, checks=checks)
    assert (y[5:75] == x + 0.5).all() and not y[:5].any() and not y[75:].any()
    assert run.instructions > 70 and run.findings == ()


def test_all_of_the_storage_of_a_tensor_may_be_accessed() -> None:
    x = np.arange(96, dtype=np.float32)
    launch(compiled(), 2, Tensor(x, 128), Tensor(x, 0), 1.0, 64)
    assert (x[:32] == np.arange(33, 65)).all()


def test_what_is_beyond_an_array_is_a_fault() -> None:
    x = np.zeros(1 << 20, np.float32)
    with pytest.raises(Fault) as caught:
        launch(compiled(), 3, x[:16].copy(), x, 0.5, 70)
    assert caught.value.kind == "address"


def test_two_ctas_that_write_one_element_are_a_race() -> None:
    ptx = SHIFT.replace("mad.lo.u32 %r1, %r2, 32, %r1;", "")
    x = np.arange(70, dtype=np.float32)
    assert launch(compiled(ptx), 2, x, x, 0.5, 70, checks="races").findings


def test_arguments_are_counted() -> None:
    with pytest.raises(TypeError, match="4 arguments at run time, 3 are given"):
        launch(compiled(), 1, np.zeros(4, np.float32), np.zeros(4, np.float32), 1.0)
