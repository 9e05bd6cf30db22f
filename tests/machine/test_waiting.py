"""Lanes that wait for others: at barriers, and at instructions that lanes of a warp execute together."""

from __future__ import annotations

import pytest
from test_launching import every_schedule, faults, kernel, run

pytest.importorskip("numpy")


@every_schedule
def test_a_consumer_waits_for_producers_that_do_not(schedule: str | int) -> None:
    """Warp 0 arrives and goes on; warp 1 waits for both."""
    before = ".shared .align 4 .b8 s[128];\n"
    at = "mov.u32 %r5, s; and.b32 %r6, %r1, 31; shl.b32 %r7, %r6, 2; add.u32 %r5, %r5, %r7;"
    produce = "mul.lo.u32 %r8, %r6, 3; st.shared.u32 [%r5], %r8; bar.arrive 1, 64; ret;"
    consume = "WAIT: bar.sync 1, 64; ld.shared.u32 %r9, [%r5]; st.global.u32 [%rd3], %r9; ret;"
    text = kernel(f"{at} setp.ge.u32 %p1, %r1, 32; @%p1 bra WAIT; {produce} {consume}", before=before)

    assert run(text, count=64, schedule=schedule).tolist() == [0] * 32 + [3 * lane for lane in range(32)]


@every_schedule
def test_a_collective_waits_for_lanes_that_leave_a_loop_later(schedule: str | int) -> None:
    """Lane i iterates i times; the sum over the warp includes all lanes."""
    loop = "mov.u32 %r5, 0; LOOP: setp.ge.u32 %p1, %r5, %r1; @%p1 bra OUT; add.u32 %r5, %r5, 1; bra LOOP; OUT:"
    text = kernel(f"{loop} redux.sync.add.u32 %r6, %r5, -1; st.global.u32 [%rd3], %r6; ret;")

    assert run(text, count=32, schedule=schedule).tolist() == [31 * 32 // 2] * 32


def test_lanes_with_disjoint_masks_do_not_wait_for_each_other() -> None:
    body = """and.b32 %r5, %r1, 1; setp.eq.u32 %p1, %r5, 0; @%p1 bra EVEN;
    redux.sync.add.u32 %r6, %r1, 0xAAAAAAAA; bra END; EVEN: redux.sync.add.u32 %r6, %r1, 0x55555555; END: st.global.u32 [%rd3], %r6; ret;"""

    assert run(kernel(body), count=32).tolist() == [240, 256] * 16


def test_a_barrier_for_more_threads_than_come_is_a_deadlock() -> None:
    assert faults(kernel("bar.sync 0, 96; ret;"), count=64).kind == "deadlock"
