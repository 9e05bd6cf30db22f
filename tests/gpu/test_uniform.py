"""What measures uniformity on a GPU, before and after the run; no GPU is needed."""

from __future__ import annotations

import random
import struct
from collections import Counter
from typing import Any

import launcher
import pytest
import uniform

from ptxkit.analyses.levels import Level
from ptxkit.analyses.routine import routines
from ptxkit.syntax.parsing import parse

LAUNCH = {"id": "k", "entry": "k", "grid": [2, 1, 1], "block": [160, 1, 1]}


def rows(*slots: list[tuple[int, int, int]]) -> bytes:
    """The rows of threads, from what each slot has for them."""
    return b"".join([struct.pack("<4Q", *words, 0) for thread in zip(*slots, strict=True) for words in thread])


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

    assert launcher.agreements(kept, 32, LAUNCH) == [(expected, 5, 320)]


def test_only_the_same_iterations_are_compared() -> None:
    kept = rows([(thread % 2, thread % 2 * 7, thread % 2) for thread in range(320)], [(1, 7, thread % 2) for thread in range(320)])

    assert launcher.agreements(kept, 64, LAUNCH) == [(5, 0, 160), (5, 0, 320)]


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
