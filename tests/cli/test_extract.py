"""`ptxkit extract`, and other commands on binary files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from ptxkit.cli import main

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures" / "binaries"
NONE = FIXTURES / "none.fatbin"


def run(*arguments: str, stdin: bytes | None = None) -> Result:
    return CliRunner().invoke(main, arguments, input=stdin)


def test_texts_become_files(tmp_path: Path) -> None:
    result = run("extract", str(NONE), "-o", str(tmp_path / "out"))

    assert result.exit_code == 0
    written = tmp_path / "out" / "none.fatbin.1.sm_80.ptx"
    assert str(written) in result.stdout.split()
    assert written.read_bytes() == (FIXTURES / "expected" / written.name).read_bytes()


def test_one_is_printed() -> None:
    result = run("extract", str(NONE), "--target", "sm_90a", "--kernel", "add", "-o", "-")

    assert result.exit_code == 0
    assert result.stdout == (FIXTURES / "expected" / "none.fatbin.2.sm_90a.ptx").read_text()


def test_several_are_not_printed() -> None:
    result = run("extract", str(NONE), "-o", "-")

    assert result.exit_code == 2
    assert "2 texts" in result.stderr


def test_list_writes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = run("extract", "--list", str(NONE))

    assert result.exit_code == 0
    assert f"{NONE}!1.sm_80.ptx" in result.stdout
    assert not list(tmp_path.iterdir())


def test_json(tmp_path: Path) -> None:
    result = run("extract", str(NONE), "--format", "json", "-o", str(tmp_path))
    first, second = json.loads(result.stdout)["texts"]

    assert first["target"] == "sm_80"
    assert second["kernels"] == ["_Z5scaleILi3EEvPfi", "add"]
    assert Path(second["file"]).is_file()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--target", "sm_75"], "no target 'sm_75'"),
        (["--kernel", "addd"], "no kernel 'addd': did you mean add? There are"),
    ],
)
def test_nothing_fits(arguments: list[str], said: str) -> None:
    result = run("extract", str(NONE), *arguments)

    assert result.exit_code == 2
    assert said in result.stderr


def test_damage_is_told_and_the_rest_written(tmp_path: Path) -> None:
    path = tmp_path / "cut.fatbin"
    path.write_bytes(NONE.read_bytes()[:2000])
    result = run("extract", str(path), "-o", str(tmp_path))

    assert result.exit_code == 1
    assert "cut short" in result.stderr
    assert (tmp_path / "cut.fatbin.1.sm_80.ptx").is_file()


def test_a_text_is_no_binary_file(tmp_path: Path) -> None:
    path = tmp_path / "k.ptx"
    path.write_text(".version 8.0")

    assert run("extract", str(path)).exit_code == 2


class TestOtherCommands:
    def test_findings_name_the_text_in_the_file(self, tmp_path: Path) -> None:
        path = tmp_path / "bad.fatbin"
        path.write_bytes(NONE.read_bytes().replace(b"add.f32 %f3", b"odd.f32 %f3", 1))
        result = run("lint", str(path), "--no-cache")

        assert result.exit_code == 1
        assert f"{path}!1.sm_80.ptx:" in result.stdout
        assert "error[E101]" in result.stdout
        assert run("lint", f"{path}!2.sm_90a.ptx", "--no-cache").exit_code == 0

    def test_several_processes_and_the_cache(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("PTXKIT_CACHE_DIR", str(tmp_path))

        assert [run("lint", str(NONE), "--jobs", "2").exit_code for _ in range(2)] == [0, 0]

    def test_damage_is_an_unreadable_file(self, tmp_path: Path) -> None:
        path = tmp_path / "cut.fatbin"
        path.write_bytes(NONE.read_bytes()[:2000])
        result = run("lint", str(path))

        assert result.exit_code == 2
        assert "cut short" in result.stderr

    def test_a_command_for_one_file_asks_which(self) -> None:
        result = run("parse", str(NONE))

        assert result.exit_code == 2
        assert f"{NONE}!1.sm_80.ptx" in result.stderr
        assert run("parse", f"{NONE}!1.sm_80.ptx", "--depth", "1").exit_code == 0

    def test_one_text_is_simply_read(self) -> None:
        assert run("stats", str(FIXTURES / "lines.cubin")).exit_code == 0
        assert run("parse", str(FIXTURES / "lines.cubin"), "--depth", "1").exit_code == 0
        assert run("parse", "-", "--depth", "1", stdin=(FIXTURES / "lines.cubin").read_bytes()).exit_code == 0

    def test_no_such_text(self) -> None:
        result = run("lint", f"{NONE}!7.sm_80.ptx")

        assert result.exit_code == 2
        assert "there is no 7.sm_80.ptx" in result.stderr

    def test_nothing_is_written_into_it(self, tmp_path: Path) -> None:
        path = tmp_path / "k.fatbin"
        path.write_bytes(NONE.read_bytes())
        result = run("fmt", str(path))

        assert result.exit_code == 2
        assert "ptxkit extract" in result.stderr
        assert [one.name for one in tmp_path.iterdir()] == ["k.fatbin"]
        assert path.read_bytes() == NONE.read_bytes()

    def test_no_ptx_in_it(self, tmp_path: Path) -> None:
        path = tmp_path / "program"
        path.write_bytes(b"\x7fELF\2\1" + bytes(58))
        result = run("lint", str(path))

        assert result.exit_code == 2
        assert "without PTX" in result.stderr
