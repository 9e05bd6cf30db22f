"""`ptxkit reduce` as a user meets it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from ptxkit.cli import main

TEXT = """.version 8.0
.target sm_80
.address_size 64
.entry k()
{
    .reg .b32 %r<4>;
    mov.b32 %r1, 1;
    add.s32 %r2, %r1, 2;
    popc.b32 %r3, %r2;
    ret;
}
"""


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    found = tmp_path / "k.ptx"
    found.write_text(TEXT)
    return found


def test_what_is_looked_for_stays(path: Path) -> None:
    result = run("reduce", str(path), "--test", "grep -q popc {}")
    out = path.with_name("k.reduced.ptx")

    assert result.exit_code == 0
    assert result.stdout.startswith(f"{out}: 4 → 1 instructions")
    assert "popc" in out.read_text() and "add.s32" not in out.read_text()
    assert sorted(one.name for one in path.parent.iterdir()) == ["k.ptx", "k.reduced.ptx"]


def test_json(path: Path, tmp_path: Path) -> None:
    out = tmp_path / "small.ptx"
    document = json.loads(run("reduce", str(path), "--test", "grep -q popc", "-o", str(out), "--format", "json", "--jobs", "2").stdout)

    assert document["output"] == str(out)
    assert (document["before"]["instructions"], document["after"]["instructions"]) == (4, 1)


def test_a_command_that_fails_at_first(path: Path) -> None:
    result = run("reduce", str(path), "--test", "false")

    assert result.exit_code == 1
    assert "fails on the file itself" in result.stderr
    assert [one.name for one in path.parent.iterdir()] == ["k.ptx"]


def test_a_run_that_was_cut_off_goes_on(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from ptxkit.rewriters.reduction import Command

    tried: list[str] = []

    def succeeds(self: Command, text: str, name: str = "") -> bool:
        tried.append(text)
        if len(tried) == 3:
            raise KeyboardInterrupt
        return "popc" in text

    monkeypatch.setattr(Command, "succeeds", succeeds)
    first = run("reduce", str(path), "--test", "anything")
    assert first.exit_code == 2
    assert "goes on from there" in first.stderr
    before = list(tried)
    second = run("reduce", str(path), "--test", "anything")

    assert second.exit_code == 0
    assert "goes on from" in second.stderr
    assert not set(before[:2]) & set(tried[3:])
    assert "4 → 1 instructions" in second.stdout


def test_no_such_file(tmp_path: Path) -> None:
    assert run("reduce", str(tmp_path / "none.ptx"), "--test", "true").exit_code == 2
