"""Idioms that no rule was made for: correct kernels of `fixtures/idioms`, and the same with one mistake each."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

import pytest

import ptxkit
from ptxkit.analyses import lint
from ptxkit.diagnostics import Diagnostic, Severity

FOLDER = Path(__file__).resolve().parents[3] / "fixtures" / "idioms"
SLOW = ("aggregation", "barrier_objects", "bulk_rings", "mended", "odd_tiles", "persistent", "roles", "split_k", "stages")
"""Those that are linted with `PTXKIT_TEST_ALL=1` only."""
CORRECT = sorted(
    path.name
    for path in FOLDER.glob("*.ptx")
    if not path.name.startswith("mistakes") and (os.environ.get("PTXKIT_TEST_ALL") or not path.name.startswith(SLOW))
)
SECONDS = 600.0
"""So long the kernels of a module may take: what is found must not depend on what else the computer does."""
MISTAKES = {
    "lookback_no_fence": "G006",
    "persistent_no_barrier": "S003",
    "compact_no_barrier": "S003",
    "named_count": "S003",
    "stencil3d": "S003",
    "histogram_not_zeroed": "R008",
    "reduce": "S003",
    "plain_increment": "G006",
    "sum_of_ctas": "G006",
    "shift": "G006",
    "barrier_in_branch": "C001",
    "last_block_no_fence": "G006",
    "vector_align": "S001",
    "shuffle_after_return": "C006",
    "double_buffer": "S003",
    "lock_no_fence": "G006",
    "called": "S009",
}
"""By kernel, the rule that reports it. `transpose_oob` is missed: its block may be smaller than the most that it says."""


@cache
def found(name: str) -> tuple[Diagnostic, ...]:
    path = FOLDER / name
    return tuple([one for one in lint(ptxkit.parse(path.read_text(), str(path)), budget=SECONDS) if one.severity is not Severity.INFO])


@pytest.mark.parametrize("name", CORRECT)
def test_correct_kernels_have_no_finding(name: str) -> None:
    assert [one.message for one in found(name)] == []


@pytest.mark.parametrize(("kernel", "rule"), MISTAKES.items(), ids=list(MISTAKES))
def test_mistakes_are_found(kernel: str, rule: str) -> None:
    assert rule in [one.rule for one in found("mistakes.sm_80.ptx") if one.function == kernel]
