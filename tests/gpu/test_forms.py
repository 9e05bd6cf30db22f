"""The tests of instructions, whose record a GPU makes: what they are made of, and that a judge sees what differs."""

from __future__ import annotations

import argparse
import hashlib
from pathlib import Path
from typing import Any

import device
import forms
import judging
import kept
import numpy as np
import operands
import pytest
from formtests import Test as FormTest

from ptxkit.syntax import parse


@pytest.fixture(scope="module")
def every() -> list[FormTest]:
    return forms.all_tests()


@pytest.fixture(scope="module")
def some(every: list[FormTest]) -> list[FormTest]:
    return [test for test in every if test.group == "integer"][::9]


def test_operands_are_those_of_the_records() -> None:
    """Another value here makes every record worthless."""
    assert operands.fingerprint() == "f8187f49244142e5"


@pytest.mark.parametrize("kind", ["s16", "f16", "f32", "pred"])
def test_operands_have_all_pairs_of_edges(kind: str) -> None:
    first, second = operands.sets((kind, kind), 2560)
    pairs = set(zip(first.tolist(), second.tolist(), strict=True))
    found = {(int(a), int(b)) for a in operands.edges(kind) for b in operands.edges(kind)}
    assert len(found - pairs) == max(0, len(found) - 2560 * 7 // 10)


def test_sets_of_packed_types_have_the_lanes_of_one() -> None:
    packed, single = operands.sets(("f16x2",), 1000)[0], operands.sets(("f16",), 1000)[0]
    assert np.array_equal(packed & 0xFFFF, single)
    assert np.array_equal(packed >> 16, np.roll(single, 577))


def test_metadata_name_two_of_four_in_order() -> None:
    for kind, able in (("meta", {0x4, 0xC, 0xE}), ("meta_tf32", {0x4, 0xE})):
        data = operands.fragments((kind,), 256)[0]
        assert {int(word) >> shift & 15 for word in data for shift in range(0, 32, 4)} == able


def test_tests_have_enough_sets_and_distinct_keys(every: list[FormTest], some: list[FormTest]) -> None:
    assert len({test.key for test in every}) == len(every) > 20_000
    assert len({test.form for test in every}) > 280
    assert all(test.arguments[0].count >= 2560 for test in some)


def test_kernels_have_no_errors(every: list[FormTest]) -> None:
    for chunk in device.chunks(every[::600]):
        text, starts = device.module_text(chunk)
        assert parse(text).diagnostics == ()
        assert all(text.splitlines()[start - 1].startswith(".visible .entry") for start in starts)


def recorded(folder: Path, tests: list[FormTest], spoiled: str = "") -> forms.Record:
    """A record of what the machine itself gives, but for one test."""
    index: dict[str, Any] = {}
    blobs = {}
    for test in tests:
        data = bytearray(judging.executed(test))
        if test.key == spoiled:
            data[len(data) // 2] ^= 1
        digest = hashlib.blake2b(data, digest_size=12).hexdigest()
        index[test.key] = {"status": "ran", "form": test.form, "digest": digest, "bytes": len(data)}
        blobs[digest] = bytes(data)
    forms.write(folder, {"operands": operands.fingerprint()}, index, blobs)
    return forms.Record(folder)


def options(**given: Any) -> argparse.Namespace:
    return argparse.Namespace(**{"every": 1, "most": 0, "form": [], "machine": False, "show": 9, "json": None, **given})


def test_equal_outputs_are_equal(tmp_path: Path, some: list[FormTest], capsys: pytest.CaptureFixture[str]) -> None:
    assert judging.judge(recorded(tmp_path, some), some, options()) == 0
    assert "100.00 %" in capsys.readouterr().out


def test_the_machine_gives_what_the_semantics_give(tmp_path: Path, some: list[FormTest]) -> None:
    assert judging.judge(recorded(tmp_path, some[:4]), some[:4], options(machine=True)) == 0


def test_a_bit_that_differs_is_seen(tmp_path: Path, some: list[FormTest], capsys: pytest.CaptureFixture[str]) -> None:
    wrong = next(test for test in some if "div" not in test.name and "rem" not in test.name)
    assert judging.judge(recorded(tmp_path, some, wrong.key), some, options()) == 1
    said = capsys.readouterr().out
    assert f"different: {wrong.name}" in said and "the GPU has" in said


def test_what_is_too_long_is_compared_by_its_hash(tmp_path: Path, some: list[FormTest]) -> None:
    record = recorded(tmp_path, some)
    test = next(test for test in some if judging.unspecified(test) is None)
    entry = record.tests[test.key]
    whole = record.output(entry["digest"])
    assert whole is not None
    record.output = lambda digest: whole[:64]  # type: ignore[method-assign]
    assert judging.compare(test, record, {**entry, "digest": "0" * 24}, False).detail == "beyond what was kept"


def test_what_is_kept_of_a_record_says_the_same(
    tmp_path: Path, some: list[FormTest], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept, "MOST", 1 << 16)
    wrong = next(test for test in some if "div" not in test.name and "rem" not in test.name)
    record = recorded(tmp_path / "whole", some, wrong.key)
    kept.keep(record, some, tmp_path / "kept")
    whole, part = [
        (judging.judge(one, some, options()), capsys.readouterr().out.rpartition(" (")[0]) for one in (record, kept.Kept(tmp_path / "kept"))
    ]
    assert whole == part and whole[0] == 1 and "the GPU has" in whole[1]
    assert (tmp_path / "kept").stat().st_size < 20_000


def test_a_sample_has_every_modifier_of_a_form(every: list[FormTest]) -> None:
    tests = [test for test in every if test.group == "conversion"]
    some = forms.sample(tests, options(most=4))
    words = [{word for test in listed for word in test.name.partition(" ")[0].split(".")} for listed in (tests, some)]
    assert words[0] == words[1] and len(some) < len(tests) / 2
