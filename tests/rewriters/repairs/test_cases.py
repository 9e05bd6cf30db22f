"""Kernels with one mistake each, and the difference that repairs it, as text: `cases/NAME.ptx` and `cases/NAME.diff`.

`PTXKIT_WRITE_FIXTURES=1 pytest tests/rewriters/repairs` writes the differences.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

pytest.importorskip("numpy")

from ptxkit import fixing
from ptxkit.rewriters.repairs import Repaired, offers, repair
from ptxkit.syntax import parse

CASES = Path(__file__).parent / "cases"
NAMES = sorted([path.stem for path in CASES.glob("*.ptx")])
NONE = {"far"}
"""Those that have no local cure."""


def repaired(name: str) -> Repaired:
    path = CASES / f"{name}.ptx"
    return repair(parse(path.read_text(encoding="utf-8")), compilers=())


@pytest.mark.parametrize("name", NAMES)
def test_repairs(name: str) -> None:
    found = repaired(name)

    written = "".join([f"{one.finding.rule}: {one.fix.message}\n{one.fix.diff}\n" for one in found.repairs])
    written += "".join([f"left {one.finding.rule}: {one.why}\n" for one in found.left])
    expected = CASES / f"{name}.diff"
    if os.environ.get("PTXKIT_WRITE_FIXTURES"):
        expected.write_text(written, encoding="utf-8")
    assert written == expected.read_text(encoding="utf-8")
    assert found.is_clean == (name not in NONE)


def test_a_repair_is_of_the_text_in_which_the_finding_was_found() -> None:
    found = repaired("unwaited")

    text = (CASES / "unwaited.ptx").read_text(encoding="utf-8")
    for one in found.repairs:
        assert one.text == text
        text = fixing.apply(text, one.fix.edits)
    assert text == found.text


def test_a_repair_says_what_it_costs_and_what_it_does_not_promise() -> None:
    (one,) = repaired("rounds").repairs

    said = [note.partition(":")[0] for note in one.fix.notes]
    assert said == ["proved", "executed", "costs", "not promised"]
    assert "in each iteration of the loop on line 22, 7 times per thread" in one.fix.notes[2]
    assert not one.fix.is_safe


def test_findings_carry_their_repairs() -> None:
    module = parse((CASES / "neighbour.ptx").read_text(encoding="utf-8"))

    (one,) = offers(module, compilers=())

    assert one.fix is not None and one.fix.message == "insert `bar.sync 0` before line 20"
    assert one.as_json()["fix"]["diff"].startswith("@@")


def test_nothing_is_offered_where_nothing_is_found() -> None:
    found = repaired("neighbour")

    again = repair(parse(found.text), compilers=())

    assert again.text == found.text and not again.repairs and again.is_clean
