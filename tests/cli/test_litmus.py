"""`ptxkit litmus`."""

from __future__ import annotations

import json
from pathlib import Path

from click.testing import CliRunner, Result

from ptxkit.cli.litmus import command

LITMUS = Path(__file__).resolve().parents[2] / "fixtures" / "litmus"
NO = "PTX no\n{ x = 0; }\n P0@cta 0,gpu 0 ;\n ld.weak r0, x ;\nexists (P0:r0 == 1)\n"


def run(*arguments: str) -> Result:
    return CliRunner().invoke(command, arguments)


def fixture(name: str) -> str:
    return str(LITMUS / f"{name}.litmus")


def test_yes(tmp_path: Path) -> None:
    found = run(fixture("corr"), fixture("scope-cta"))

    assert found.exit_code == 0
    assert "corr.litmus: ~exists: yes" in found.stdout
    assert "scope-cta.litmus: exists: yes" in found.stdout


def test_no(tmp_path: Path) -> None:
    (tmp_path / "no.litmus").write_text(NO)
    found = run(str(tmp_path / "no.litmus"), fixture("corr"))

    assert found.exit_code == 1 and "no.litmus: exists: no" in found.stdout


def test_json(tmp_path: Path) -> None:
    path = fixture("scope-cta")
    found = run(path, "--format", "json")

    assert found.exit_code == 0
    record = json.loads(found.stdout)
    assert record["version"] == 1
    (test,) = record["tests"]
    assert set(test) == {"path", "holds", "outcomes"} and test["path"] == path and test["holds"] is True
    assert {"values": {"P1:r0": 1, "P1:r1": 0}, "racy": True} in test["outcomes"]


def test_what_cannot_run_is_said_and_the_others_run(tmp_path: Path) -> None:
    (tmp_path / "bad.litmus").write_text(NO.replace("ld.weak", "ld.week"))
    found = run(str(tmp_path / "bad.litmus"), str(tmp_path / "none.litmus"), fixture("corr"))

    assert found.exit_code == 2
    assert "bad.litmus:4:2: error: `ld` has no `.week`\n     4 |  ld.week r0, x ;\n       |  ^\n" in found.stderr
    assert "none.litmus" in found.stderr
    assert "corr.litmus: ~exists: yes" in found.stdout


def test_forbidden_outcomes_and_their_axiom() -> None:
    found = run(fixture("corr"), "--all")

    assert "forbidden by causality (8.10.6)" in found.stdout or "forbidden by" in found.stdout


def test_what_is_missing() -> None:
    found = run(fixture("scope-cta"), "--explain")

    assert "change in P0: st.release.cta y, 1 -> st.release.gpu y, 1" in found.stdout


def test_pictures(tmp_path: Path) -> None:
    for name in ("corr", "scope-cta"):
        for end in ("svg", "html"):
            target = tmp_path / f"{name}.{end}"
            assert run(fixture(name), "--draw", str(target)).exit_code == 0
            assert "<svg" in target.read_text(encoding="utf-8")


def test_one_file_a_picture(tmp_path: Path) -> None:
    assert run(fixture("corr"), fixture("scope-cta"), "--draw", str(tmp_path / "a.svg")).exit_code == 2
