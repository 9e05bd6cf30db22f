"""`ptxkit repair`, and repairs in `lint` and `gate`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

pytest.importorskip("numpy")

from ptxkit.cli import main

CASES = Path(__file__).resolve().parents[1] / "rewriters" / "repairs" / "cases"


def run(*arguments: str, given: str | None = None) -> Result:
    return CliRunner().invoke(main, list(arguments), input=given)


@pytest.fixture
def kernel(tmp_path: Path) -> Path:
    path = tmp_path / "k.ptx"
    path.write_text((CASES / "neighbour.ptx").read_text(encoding="utf-8"), encoding="utf-8")
    return path


def test_the_repaired_text_is_written_and_said(kernel: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.ptx"

    done = run("repair", str(kernel), "-o", str(out), "--using", "none")

    assert done.exit_code == 0
    assert "repair: insert `bar.sync 0` before line 20" in done.output and "costs: `bar.sync 0`" in done.output
    assert out.read_text(encoding="utf-8").count("bar.sync 0;") == 1
    assert run("lint", str(out), "--no-cache").exit_code == 0


def test_without_output_nothing_is_written(kernel: Path) -> None:
    before = kernel.read_text(encoding="utf-8")

    assert run("repair", str(kernel), "--using", "none").exit_code == 0
    assert kernel.read_text(encoding="utf-8") == before and [path.name for path in kernel.parent.iterdir()] == ["k.ptx"]


def test_a_filter(kernel: Path) -> None:
    done = run("repair", "-", "-o", "-", "--using", "none", given=kernel.read_text(encoding="utf-8"))

    assert done.exit_code == 0 and done.stdout.startswith(".version") and "bar.sync 0;" in done.stdout


def test_as_json(kernel: Path) -> None:
    found = json.loads(run("repair", str(kernel), "--format", "json", "--using", "none").stdout)

    (one,) = found["repairs"]
    assert found["is_clean"] and not found["left"]
    assert one["rule"] == "S003" and one["fix"]["diff"].startswith("@@") and one["fix"]["edits"] and not one["fix"]["is_safe"]


def test_what_is_left_is_said() -> None:
    done = run("repair", str(CASES / "far.ptx"), "--using", "none")

    assert done.exit_code == 1 and "note: not repaired: " in done.output and "0 repairs; 1 finding left" in done.output


def test_what_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "a.ptx").write_text(".version 8.0 .target sm_80 .entry k() { add.u32 %r }")

    assert run("repair", str(tmp_path / "a.ptx")).exit_code == 2
    assert run("repair", str(tmp_path / "none.ptx")).exit_code == 2


def test_lint_shows_repairs(kernel: Path) -> None:
    text = run("lint", str(kernel), "--repairs", "--no-cache").output
    sarif = json.loads(run("lint", str(kernel), "--repairs", "--no-cache", "--format", "sarif").stdout)

    assert "    +   bar.sync 0;" in text
    (result,) = sarif["runs"][0]["results"]
    (change,) = result["fixes"][0]["artifactChanges"]
    (replacement,) = change["replacements"]
    at = kernel.read_text(encoding="utf-8").index("ld.shared")
    assert replacement["deletedRegion"] == {"charOffset": at, "charLength": 0}
    assert replacement["insertedContent"]["text"].strip() == "bar.sync 0;"
    assert run("lint", str(kernel), "--repairs", "--no-run").exit_code == 2


def test_repairs_are_kept_as_they_were_shown(kernel: Path) -> None:
    shown = run("lint", str(kernel), "--repairs").output

    assert "    +   bar.sync 0;" in shown and "costs: " in shown
    assert run("lint", str(kernel), "--repairs").output == shown


def test_unsafe_fixes_apply_repairs(kernel: Path) -> None:
    before = kernel.read_text(encoding="utf-8")

    shown = run("lint", str(kernel), "--fix", "--unsafe-fixes", "--diff", "--no-cache")
    assert shown.exit_code == 1 and "+\tbar.sync 0;" in shown.output and kernel.read_text(encoding="utf-8") == before
    assert run("lint", str(kernel), "--fix", "--no-cache").exit_code == 1
    assert run("lint", str(kernel), "--fix", "--unsafe-fixes", "--no-cache").exit_code == 0
    assert "bar.sync 0;" in kernel.read_text(encoding="utf-8")


def test_the_gate_has_repairs(kernel: Path) -> None:
    found = json.loads(run("gate", str(kernel), "--repairs", "--using", "none").stdout)

    assert found["verdict"] == "reject"
    assert [one["repair"]["message"] for one in found["findings"] if "repair" in one] == ["insert `bar.sync 0` before line 20"]
