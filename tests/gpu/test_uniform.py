"""What measures uniformity on a GPU, before and after the run; no GPU is needed."""

from __future__ import annotations

import random
import struct
from collections import Counter
from typing import Any

import launcher
import pytest
import uniform

from ptxkit.analyses.framework.routine import routines
from ptxkit.analyses.uniformity.levels import Level
from ptxkit.syntax import parse

WAITS = """.version 8.0
.target sm_90
.address_size 64
.entry k()
{
    .reg .pred %p<2>; .shared .align 8 .b64 bar;
    setp.eq.u32 %p1, 0, 1;
    bar.sync 0;
L:  @!%p1 mbarrier.try_wait.parity.shared::cta.b64 %p1, [bar], 0, 1000;
    @!%p1 bra L;
    ret;
}
"""
LAUNCH = {"id": "k", "entry": "k", "grid": [2, 1, 1], "block": [160, 1, 1]}


def rows(*slots: list[tuple[int, ...]]) -> bytes:
    """The rows of threads, from what each slot has for them."""
    return b"".join([struct.pack("<6Q", *words, *[0] * (6 - len(words))) for thread in zip(*slots, strict=True) for words in thread])


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (lambda thread: 5, 5),
        (lambda thread: thread // 160, 4),
        (lambda thread: thread % 160 // 128, 2),
        (lambda thread: thread % 160 // 32, 1),
        (lambda thread: thread % 160 // 16, 0),
    ],
)
def test_levels_are_measured(value: Any, expected: int) -> None:
    kept = rows([(1, value(thread), 9) for thread in range(320)])

    assert launcher.agreements(kept, uniform.SLOT, LAUNCH) == [(expected, 5, 320)]


def test_only_the_same_iterations_are_compared() -> None:
    kept = rows([(thread % 2, thread % 2 * 7, thread % 2) for thread in range(320)], [(1, 7, thread % 2) for thread in range(320)])

    assert launcher.agreements(kept, 2 * uniform.SLOT, LAUNCH) == [(5, 0, 160), (5, 0, 320)]


def test_who_leaves_a_loop_earlier_went_another_way() -> None:
    """Threads that come by twice and three times are not compared by their sums; but one left in the iteration in which another stayed."""
    parted = rows([(2, 5, 3, 0b01, 0b10) if thread % 2 else (3, 8, 6, 0b011, 0b100) for thread in range(320)])
    together = rows([(2, 5, 3, 0b01, 0b10)] * 320)

    assert launcher.agreements(parted, uniform.SLOT, LAUNCH) == [(0, 0, 320)]
    assert launcher.agreements(together, uniform.SLOT, LAUNCH) == [(5, 5, 320)]


def test_lanes_ask_one_by_one() -> None:
    module = parse(WAITS)
    (routine,) = routines(module)
    text = uniform.watched(module, "k", uniform.slots(routine, random.Random(0)), one_by_one=True)

    assert not parse(text).diagnostics
    assert "try_wait" not in text
    assert "mov.pred %pk_g, %p1;" in text
    for lane in range(32):
        assert f"setp.eq.and.u32 %pk_m, %pk_l, {lane}, !%pk_g; @%pk_m mbarrier.test_wait.parity.shared::cta.b64 %p1, [bar], 0;" in text


def test_kernels_are_watched() -> None:
    fixture = uniform.shapes_fixture()
    variants = uniform.uniform_variants(fixture, Counter())

    assert {kernel["entry"] for kernel in fixture.kernels} == {variant.only for variant in variants}
    for variant in variants:
        assert not parse(variant.text).diagnostics
        assert variant.about["measure"]


def test_contradictions_and_planted_faults(capsys: pytest.CaptureFixture[str]) -> None:
    fixture = uniform.shapes_fixture()
    (routine,) = [routine for routine in routines(parse(fixture.text)) if routine.name == "square"]
    slots = [slot for slot in uniform.slots(routine, random.Random(0)) if slot.level == Level.WARP]
    about = {"measure": True, "slots": [[slot.is_branch, int(slot.level), 0, slot.text, slot.cause] for slot in slots]}
    result = {"fixture": "f", "target": "t", "kernel": "k", "launch": "k", "verdict": "equal", "block": [32, 32, 1], "about": about}

    assert slots
    assert uniform.judged([{**result, "levels": [[1, 5, 64]] * len(slots)}])
    assert not uniform.judged([{**result, "levels": [[0, 5, 64]] * len(slots)}])
    planted = {**about, "planted": True, "slot": 0}
    assert not uniform.judged([{**result, "about": planted, "levels": [[5, 5, 64]] * len(slots)}])
    assert "0 of 1 found" in capsys.readouterr().out
