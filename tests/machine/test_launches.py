"""The fixtures' launches leave on the machine what they left on an H200 (`benchmarks/gpu/launches.py` made the record)."""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmarks" / "gpu"))

import judging_launches  # noqa: E402
import launches  # noqa: E402
import machine_launches  # noqa: E402
from plan import Fixture, fixtures  # noqa: E402

RECORD = ROOT / "fixtures" / "kernels" / "outputs.json.xz"


@cache
def record() -> dict[str, Any]:
    return launches.read(RECORD)["launches"]  # type: ignore[no-any-return]


def cases(shapes: bool) -> list[Any]:
    found = []
    for fixture in fixtures(targets=("sm_90a",) if not shapes else ("sm_80", "sm_90a"), shapes=shapes):
        for kernel in fixture.kernels:
            name = f"{launches.named(fixture)} {kernel['id']}" if shapes else f"{launches.named(fixture)} {kernel['entry']}"
            kernel = kernel if "id" in kernel else {**kernel, "id": kernel["entry"]}
            found.append(pytest.param(fixture, kernel, id=name))
    return found


def check(fixture: Fixture, kernel: dict[str, Any]) -> None:
    entry = record()[f"{launches.named(fixture)} {kernel['id']}"]
    assert entry["status"] == "ran"
    found = machine_launches.run(fixture, kernel)
    said = machine_launches.differences(entry["outputs"], found, kernel.get("exact", True))
    if said and not machine_launches.near(entry["outputs"], found, machine_launches.kinds_of(kernel), judging_launches.BOUND):
        pytest.fail("; ".join(said))


@pytest.mark.parametrize(("fixture", "kernel"), cases(False))
def test_the_outputs_are_those_of_the_gpu(fixture: Fixture, kernel: dict[str, Any]) -> None:
    check(fixture, kernel)


@pytest.mark.long
@pytest.mark.parametrize(("fixture", "kernel"), cases(True))
def test_so_are_those_of_other_targets_inputs_and_shapes(fixture: Fixture, kernel: dict[str, Any]) -> None:
    check(fixture, kernel)
