"""Equal names for what is equal."""

from __future__ import annotations

import pytest
from sample import kernel

from ptxkit.analyses.symbolic.environment import settler
from ptxkit.analyses.symbolic.values import values

BEFORE = ".const .align 4 .b32 table[8];"


@pytest.mark.parametrize(
    ("one", "other", "settled"),
    [
        # nothing writes there while the kernel runs
        ("ld.const.u32 %r1, [table+4];", "ld.const.u32 %r2, [table+4];", True),
        ("ld.const.u32 %r1, [table+4];", "ld.const.u32 %r2, [table+8];", False),
        ("ld.global.nc.u32 %r1, [%d1];", "ld.global.nc.u32 %r2, [%d1];", True),
        ("ld.global.u32 %r1, [%d1];", "ld.global.u32 %r2, [%d1];", False),
        # all threads of a warp find out the same
        ("elect.sync %r1|%p1, -1;", "elect.sync %r2|%p2, -1;", True),
        ("mov.u32 %r1, %clock;", "mov.u32 %r2, %clock;", False),
    ],
)
def test_two_values(one: str, other: str, settled: bool) -> None:
    routine = kernel(f"ld.param.u64 %d1, [p];\n{one}\n{other}\nret;", BEFORE)
    known = values(routine)
    first, second = known.written(1)[0], known.written(2)[0]

    assert first is not second
    assert (settler(routine).term(first) is settler(routine).term(second)) is settled


def test_a_broadcast_of_what_all_hold_is_that() -> None:
    routine = kernel("mov.u32 %r1, %ctaid.x;\nshfl.sync.idx.b32 %r2, %r1, 0, 31, -1;\nadd.u32 %r3, %r2, 1;\nret;")
    known = values(routine)

    assert str(settler(routine).term(known.written(2)[0])) == "%ctaid.x + 1"


def test_a_broadcast_of_what_differs_is_its_own() -> None:
    routine = kernel("mov.u32 %r1, %tid.x;\nshfl.sync.idx.b32 %r2, %r1, 0, 31, -1;\nret;")
    (term,) = values(routine).written(1)

    assert settler(routine).term(term) is term
