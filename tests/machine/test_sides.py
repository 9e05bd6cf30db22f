"""Both sides of a short branch, executed by all lanes."""

from __future__ import annotations

from typing import Any

import pytest
from test_launching import kernel

np = pytest.importorskip("numpy")

from ptxkit.machine import Machine, sides  # noqa: E402

BOTH = "setp.lt.u32 %p1, %r1, 3; @%p1 bra LOW; mul.lo.u32 %r5, %r1, 10; bra END; LOW: add.u32 %r5, %r1, 100; END:"
ONE = "mov.u32 %r5, %r1; setp.lt.u32 %p1, %r1, 3; @%p1 bra END; mul.lo.u32 %r5, %r1, 10; END:"


def run(body: str) -> tuple[list[int], int]:
    """The results of eight threads, and how many instructions of threads were executed."""
    machine, out = Machine(), np.zeros(8, np.uint32)
    done = machine.launch(machine.load(kernel(f"{body} st.global.u32 [%rd3], %r5; ret;")), "k", out, grid=1, block=8)
    return out.tolist(), done.instructions


@pytest.mark.parametrize(
    ("body", "expected"), [(BOTH, [100, 101, 102, 30, 40, 50, 60, 70]), (ONE, [0, 1, 2, 30, 40, 50, 60, 70])], ids=["two sides", "one side"]
)
def test_each_lane_keeps_the_result_of_its_own_side(body: str, expected: list[int], monkeypatch: Any) -> None:
    together = run(body)
    monkeypatch.setattr(sides, "SHORT", 0)
    apart = run(body)

    assert together[0] == expected
    # an instruction counts for the lanes whose side it is on
    assert together == apart


def test_a_side_that_stores_is_executed_by_its_own_lanes_only() -> None:
    machine, out = Machine(), np.zeros(8, np.uint32)
    body = "setp.ge.u32 %p1, %r1, 3; @%p1 bra END; st.global.u32 [%rd3], 1; END: ret;"
    machine.launch(machine.load(kernel(body)), "k", out, grid=1, block=8)

    assert out.tolist() == [1, 1, 1, 0, 0, 0, 0, 0]
