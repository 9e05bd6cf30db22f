"""`lint --fix`, `--unsafe-fixes` and `--diff`."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from ptxkit import files
from ptxkit.cli import main

BEFORE = (
    ".version 6.0\n.target sm_80\n.address_size 64\n.entry k() {\n\t.reg .u32 a, b;\n\tmov.u32 a, 1;\n\tcp.async.commit_group;\n\tret;\n}\n"
)
SAFE = BEFORE.replace("6.0", "7.0").replace("a, b;", "a;")
UNSAFE = SAFE.replace("\t.reg .u32 a;\n\tmov.u32 a, 1;\n", "")


def run(*arguments: str, stdin: str | None = None) -> Result:
    return CliRunner().invoke(main, ("lint", "--select", "E,V,R", *arguments), input=stdin)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "a.ptx"
    path.write_text(BEFORE)
    return path


def test_safe_fixes(file: Path) -> None:
    result = run("--fix", str(file))

    assert file.read_text() == SAFE
    assert result.exit_code == 0
    assert "fixed in 1 file" in result.stderr
    assert "R002" in result.stdout


def test_unsafe_fixes(file: Path) -> None:
    assert run("--fix", "--unsafe-fixes", str(file)).exit_code == 0
    assert file.read_text() == UNSAFE


def test_a_difference_changes_nothing(file: Path) -> None:
    result = run("--diff", str(file))

    assert file.read_text() == BEFORE
    assert result.exit_code == 1
    assert "-.version 6.0\n+.version 7.0\n" in result.stdout
    assert "mov.u32 a, 1" in result.stdout
    assert "-\tmov" in run("--diff", "--unsafe-fixes", str(file)).stdout
    file.write_text(SAFE)
    assert (run("--diff", str(file)).exit_code, run("--diff", str(file)).stdout) == (0, "")


def test_standard_input_goes_to_standard_output() -> None:
    result = run("--fix", "-", stdin=BEFORE)

    assert (result.stdout, result.exit_code) == (SAFE, 0)
    assert "-.version 6.0" in run("--diff", "-", stdin=BEFORE).stdout


def test_bytes_that_are_no_text_stay(file: Path) -> None:
    file.write_bytes(BEFORE.encode().replace(b"\tret;", b"\tret; // \xff\r"))

    run("--fix", str(file))
    assert file.read_bytes() == SAFE.encode().replace(b"\tret;", b"\tret; // \xff\r")


def test_a_file_that_cannot_be_written_stays(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: str, text: str) -> None:
        raise OSError(13, "Permission denied")

    monkeypatch.setattr(files, "write", refuse)
    result = run("--fix", str(file), "--no-cache")

    assert result.exit_code == 2
    assert "Permission denied" in result.stderr
    assert file.read_text() == BEFORE


def test_what_a_comment_accepts_is_not_fixed(file: Path) -> None:
    text = SAFE.replace("a;\n", "a, b; // ptxkit: ignore[R004] for later\n")
    file.write_text(text)

    run("--fix", str(file))
    assert file.read_text() == text
