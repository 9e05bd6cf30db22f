"""What is known of each resident thread: its indices, and who has exited."""

from __future__ import annotations

from typing import Any

import pytest
from test_launching import HEAD

np = pytest.importorskip("numpy")

from ptxkit.machine import Machine  # noqa: E402

TEXT = f"""{HEAD}
.visible .entry k(.param .u64 out)
{{
    .reg .b32 %r<9>; .reg .b64 %rd<9>;
    ld.param.u64 %rd1, [out];
    mov.u32 %r1, %ctaid.x; mov.u32 %r2, %tid.x; mov.u32 %r3, %tid.y; mov.u32 %r4, %ntid.x; mov.u32 %r5, %ntid.y;
    mad.lo.u32 %r6, %r1, %r5, %r3; mad.lo.u32 %r6, %r6, %r4, %r2; mul.wide.u32 %rd2, %r6, 4; add.s64 %rd3, %rd1, %rd2;
    mov.u32 %r7, SPECIAL; st.global.u32 [%rd3], %r7; ret;
}}
"""


def values(special: str, block: Any, grid: int = 1) -> list[int]:
    """A special register in each thread, by CTA and by index in the CTA."""
    machine = Machine()
    out = np.full(grid * block[0] * block[1], 99, np.uint32)
    machine.launch(machine.load(TEXT.replace("SPECIAL", special)), "k", out, grid=grid, block=block)
    return out.tolist()


@pytest.mark.parametrize(
    ("special", "expected"),
    [
        ("%tid.x", [0, 1, 2, 0, 1, 2]),
        ("%tid.y", [0, 0, 0, 1, 1, 1]),
        ("%laneid", [0, 1, 2, 3, 4, 5]),
        ("%lanemask_lt", [0, 1, 3, 7, 15, 31]),
        ("%lanemask_ge", [2**32 - 1, 2**32 - 2, 2**32 - 4, 2**32 - 8, 2**32 - 16, 2**32 - 32]),
    ],
)
def test_indices_run_along_x_first(special: str, expected: list[int]) -> None:
    assert values(special, (3, 2)) == expected


def test_warps_and_ctas() -> None:
    assert values("%warpid", (40, 1), grid=2) == [0] * 32 + [1] * 8 + [0] * 32 + [1] * 8
    assert values("%ctaid.x", (3, 1), grid=2) == [0, 0, 0, 1, 1, 1]


def test_a_barrier_does_not_wait_for_threads_that_have_exited() -> None:
    text = TEXT.replace("mov.u32 %r7, SPECIAL;", ".reg .pred %p; setp.gt.u32 %p, %r2, 40; @%p exit; bar.sync 0; mov.u32 %r7, 1;")
    machine, out = Machine(), np.zeros(64, np.uint32)
    machine.launch(machine.load(text), "k", out, grid=1, block=64)

    assert out.tolist() == [1] * 41 + [0] * 23
