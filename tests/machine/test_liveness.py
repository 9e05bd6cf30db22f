"""What is kept of registers before and after liveness is known, and as which dtype."""

from __future__ import annotations

from typing import Any

import pytest
from test_launching import kernel

np = pytest.importorskip("numpy")

from ptxkit.machine import Machine, liveness  # noqa: E402

DIVERGING = """
    mov.u32 %r7, 0; mov.b32 %r8, 0f3F800000; and.b32 %r5, %r1, 3; setp.eq.u32 %p2, %r5, 2; mov.u32 %r9, 77;
    LOOP: add.u32 %r7, %r7, %r5;
    @%p2 add.f32 %r8, %r8, 0f3F800000;
    setp.gt.u32 %p1, %r7, 20; @%p1 bra OUT;
    add.u32 %r5, %r5, 1; setp.lt.u32 %p3, %r5, 12; @%p3 bra LOOP;
    mov.u32 %r9, %r5; bra.uni END;
    OUT: { .reg .b32 %r<3>; mov.u32 %r1, 5; mad.lo.u32 %r2, %r1, 100, 1; add.u32 %r9, %r9, %r2; shl.b32 %r9, %r9, 1; }
    END: bar.sync 0;
    shfl.sync.bfly.b32 %r10, %r9, 1, 31, -1;
    cvt.rzi.u32.f32 %r11, %r8; add.u32 %r10, %r10, %r11; add.u32 %r10, %r10, %r5;
    st.global.u32 [%rd3], %r10; ret;"""


@pytest.mark.parametrize("asks", [0, 1, 1000])
@pytest.mark.parametrize("schedule", ["lockstep", "late", 3])
def test_a_long_kernel_computes_the_same_before_liveness_is_worked_out(monkeypatch: Any, schedule: Any, asks: int) -> None:
    """Never, after some questions, and at the first one."""

    def run() -> Any:
        out = np.zeros(64, np.uint32)
        machine = Machine()
        run = machine.launch(machine.load(kernel(DIVERGING)), "k", out, grid=1, block=64, schedule=schedule)
        return out.tolist(), run.instructions

    expected = run()
    monkeypatch.setattr(liveness, "MANY", 0)
    monkeypatch.setattr(liveness, "MANY_ASK", asks)
    assert run() == expected


def test_members_of_sparse_families_have_numbers(monkeypatch: Any) -> None:
    """A family of a hundred thousand of which few are named takes few registers."""
    monkeypatch.setattr(liveness, "MANY", 0)
    text = kernel(DIVERGING).replace("%r<40>", "%r<100000>")
    machine = Machine()
    loaded = machine.load(text)
    assert len(loaded.program("k", False, False).entry.types) < 200
    out, other = np.zeros(64, np.uint32), np.zeros(64, np.uint32)
    machine.launch(loaded, "k", out, grid=1, block=64)
    machine.launch(machine.load(kernel(DIVERGING)), "k", other, grid=1, block=64)
    assert (out == other).all()


def test_as_which_dtype_a_register_is_kept() -> None:
    """As most instructions use it, unless it may be read before it is written."""
    body = """mov.b32 %r8, 0f00000000; mov.u32 %r7, 0;
    LOOP: fma.rn.f32 %r8, %r8, %r8, 0f3F800000; add.f32 %r8, %r8, %r9; add.u32 %r7, %r7, 1;
    setp.lt.u32 %p1, %r7, 3; @%p1 bra LOOP; st.global.b32 [%rd3], %r8; ret;"""
    machine = Machine()
    loaded = machine.load(kernel(body))
    out = np.zeros(32, np.uint32)
    machine.launch(loaded, "k", out, grid=1, block=32)
    entry = loaded.program("k", False, False).entry
    scope = entry.sites[0].scope
    assert entry.dtypes[entry.named(scope, "%r8")[0]] == np.float32
    assert entry.dtypes[entry.named(scope, "%r9")[0]] == np.uint32
    assert (out.view(np.float32) == np.float32(5)).all()
