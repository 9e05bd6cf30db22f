"""How often loops are gone round that count from the place of the thread."""

from __future__ import annotations

import random

import pytest

import ptxkit
from ptxkit.analyses import control_flow, routines
from ptxkit.analyses.uniformity.levels import Level
from ptxkit.analyses.uniformity.trip_counts import _times
from ptxkit.analyses.uniformity.uniformity import uniformity


@pytest.mark.parametrize(
    ("start", "step", "limit", "expected"),
    [
        ("%tid.x", 128, 2048, Level.GRID),
        ("%tid.x", 128, 2080, Level.WARP),
        ("%tid.x", 128, 2060, Level.THREAD),
        ("%tid.x", 1, 2048, Level.THREAD),
        ("%laneid", 32, 1024, Level.GRID),
        ("%laneid", 32, 1000, Level.THREAD),
        ("%ctaid.x", 1, 16, Level.CTA),
    ],
)
def test_loops_that_count(start: str, step: int, limit: int, expected: Level) -> None:
    text = f""".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k() .reqntid 128
    {{ .reg .pred %p; .reg .b32 %r; .shared .b32 flag; mov.u32 %r, {start};
    L: st.shared.u32 [flag], %r; add.u32 %r, %r, {step}; setp.lt.u32 %p, %r, {limit}; @%p bra L; ret; }}"""
    (routine,) = routines(ptxkit.parse(text))
    (block,) = [block.index for block in control_flow(routine).blocks if len(block.successors) > 1]

    assert uniformity(routine).branch(block).level == expected


def test_times_are_those_of_counting() -> None:
    """Against counting, with numbers of 8 bits that may wrap around."""
    lot = random.Random(0)
    said = 0
    for _ in range(3000):
        operator = lot.choice(["lt.s", "lt.u", "eq"])
        start, limit, step = lot.randrange(256), lot.randrange(256), lot.choice([1, 2, 3, 4, 16, 32, -1, -2, -5, -32])
        is_less, holds = lot.random() < 0.5, lot.random() < 0.5
        found = _times(operator, (start,), step, limit, 8, is_less, holds)
        if found is None:
            continue
        said += 1
        number, times = start, 0
        while _holds(operator, number, limit, is_less) == holds:
            number = (number + step) % 256
            times += 1
            assert times < 1000
        assert found == (times,)
    assert said > 1000


def _holds(operator: str, number: int, limit: int, is_less: bool) -> bool:
    left, right = (number, limit) if is_less else (limit, number)
    if operator == "eq":
        return left == right
    if operator == "lt.s":
        left, right = ((one + 128) % 256 - 128 for one in (left, right))
    return left < right
