"""Loops that end, and loops that can never end."""

from __future__ import annotations

import pytest
from test_launching import every_schedule, faults, kernel, run

pytest.importorskip("numpy")

SPIN = "SPIN: ld.relaxed.gpu.global.u32 %r5, [%rd1+{0}]; setp.eq.u32 %p1, %r5, 0; @%p1 bra SPIN;"


def test_threads_that_wait_for_a_flag_that_no_thread_sets() -> None:
    fault = faults(kernel(f"{SPIN.format(128)} ret;"), count=64)

    assert fault.kind == "standstill"
    assert fault.count == 64


@every_schedule
def test_a_flag_that_another_thread_sets(schedule: str | int) -> None:
    body = f"setp.eq.u32 %p2, %r1, 63; @%p2 bra SET; {SPIN.format(252)} SET: st.relaxed.gpu.global.u32 [%rd3], 7; ret;"

    assert run(kernel(body), count=64, schedule=schedule).tolist() == [7] * 64


def test_a_flag_that_a_later_cta_sets() -> None:
    body = f"setp.eq.u32 %p2, %r2, 3; @%p2 bra SET; {SPIN.format(12)} SET: st.relaxed.gpu.global.u32 [%rd3], 7; ret;"

    assert run(kernel(body), count=4, grid=4, block=1).tolist() == [7] * 4


def test_a_loop_that_waits_for_time_to_pass() -> None:
    body = "mov.u32 %r5, %clock; LOOP: mov.u32 %r6, %clock; sub.u32 %r6, %r6, %r5; setp.lt.u32 %p1, %r6, 100000; @%p1 bra LOOP;"

    assert run(kernel(f"{body} st.global.u32 [%rd3], 7; ret;"), count=32).tolist() == [7] * 32
