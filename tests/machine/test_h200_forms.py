"""Instructions leave on the machine what they left on an H200 (`benchmarks/gpu/forms.py` made the record), or it is known why not."""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmarks" / "gpu"))

import forms  # noqa: E402
import judging  # noqa: E402
import kept  # noqa: E402

RECORD = ROOT / "fixtures" / "machine" / "h200-forms.xz"


@cache
def record() -> kept.Kept:
    return kept.Kept(RECORD)


@cache
def all_tests() -> tuple[Any, ...]:
    """The tests there are, made once."""
    return tuple(forms.all_tests())


@cache
def recorded() -> tuple[Any, ...]:
    """The tests that ran on the device."""
    return tuple([test for test in all_tests() if record().tests.get(test.key, {}).get("status") == "ran"])


def check(test: Any) -> None:
    verdict = judging.compare(test, record(), record().tests[test.key], False)
    if verdict.kind in ("different", "error"):
        assert judging.reason(test), f"{test.name}: {verdict.detail}"
    else:
        assert verdict.kind in ("equal", "bound", "missing")


def test_each_form_does_what_it_did_on_the_gpu() -> None:
    """One test, as two may run in two processes that each make all tests of the forms, which takes 10 s."""
    one_of_each = {test.form: test for test in recorded()}

    assert len(one_of_each) > 285 and len(recorded()) > 13_000
    for test in one_of_each.values():
        check(test)
    assert {reason for _, reason in judging.reasons()} == {judging.reason(test) for test in all_tests()} - {""}


@pytest.mark.long
def test_so_does_every_combination_of_modifiers() -> None:
    for test in recorded():
        check(test)
