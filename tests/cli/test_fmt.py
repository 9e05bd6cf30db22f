"""`ptxkit fmt` and `ptxkit tokens`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import ptxkit
from ptxkit.cli import main
from ptxkit.formatter import format_module
from ptxkit.revalidation import Outcome, revalidate

ROOT = Path(__file__).resolve().parents[2]
UGLY = ".version 8.0 .target sm_80\n.entry k() { ret; }"
NEAT = ".version 8.0\n.target sm_80\n\n.entry k()\n{\n    ret;\n}\n"


def run(*arguments: str, stdin: bytes | None = None) -> Result:
    return CliRunner().invoke(main, arguments, input=stdin)


@pytest.fixture
def ugly(tmp_path: Path) -> Path:
    path = tmp_path / "k.ptx"
    path.write_text(UGLY)
    return path


class TestFmt:
    def test_in_place(self, ugly: Path) -> None:
        ugly.chmod(0o640)
        result = run("fmt", str(ugly))

        assert result.exit_code == 0
        assert ugly.read_text() == NEAT
        assert ugly.stat().st_mode & 0o777 == 0o640
        assert [path.name for path in ugly.parent.iterdir()] == ["k.ptx"]

    def test_what_is_neat_is_not_written(self, ugly: Path) -> None:
        ugly.write_text(NEAT)
        before = ugly.stat().st_mtime_ns

        assert run("fmt", str(ugly.parent)).exit_code == 0
        assert ugly.stat().st_mtime_ns == before

    def test_check(self, ugly: Path) -> None:
        result = run("fmt", "--check", str(ugly))

        assert result.exit_code == 1
        assert f"{ugly} would change" in result.stderr
        assert ugly.read_text() == UGLY
        assert run("fmt", "--check", "-", stdin=NEAT.encode()).exit_code == 0

    def test_diff(self, ugly: Path) -> None:
        result = run("fmt", "--diff", str(ugly))

        assert result.exit_code == 1
        assert "-.version 8.0 .target sm_80\n" in result.stdout
        assert "+.target sm_80\n" in result.stdout
        assert "\\ No newline at end of file" in result.stdout
        assert ugly.read_text() == UGLY

    def test_standard_input(self) -> None:
        result = run("fmt", "-", stdin=UGLY.encode())

        assert result.exit_code == 0
        assert result.stdout == NEAT

    def test_width(self) -> None:
        text = b".global .b32 x[9] = {100000, 200000, 300000, 400000, 500000};"

        assert len(run("fmt", "--width", "40", "-", stdin=text).stdout.splitlines()) == 4

    def test_a_broken_file_stays(self, ugly: Path) -> None:
        ugly.write_text("add.u32 a b;")
        result = run("fmt", str(ugly))

        assert result.exit_code == 2
        assert f"{ugly}:1:11:" in result.stderr
        assert ugly.read_text() == "add.u32 a b;"

    def test_no_such_file(self, tmp_path: Path) -> None:
        assert run("fmt", str(tmp_path / "none.ptx")).exit_code == 2
        assert run("fmt", str(tmp_path)).exit_code == 2

    @pytest.mark.parametrize("name", ["inline_asm.sm_90a", "const_tables.sm_90a", "wgmma_gemm.sm_90a"])
    def test_machine_code_is_the_same(self, name: str) -> None:
        module = ptxkit.parse((ROOT / "fixtures" / "kernels" / f"{name}.ptx").read_text())
        before = revalidate(module, using=("nvjitlink",))
        if before.outcome is Outcome.UNAVAILABLE:
            pytest.skip(before.skipped[0].reason)

        assert before.cubin is not None
        assert revalidate(ptxkit.parse(format_module(module)), using=("nvjitlink",)).cubin == before.cubin


class TestTokens:
    def test_list(self) -> None:
        result = run("tokens", "-", stdin=b"ret; // end")

        assert result.stdout.splitlines() == ["1:1\topcode\tret", "1:4\tpunctuation\t;", "1:6\tcomment\t// end"]

    def test_json(self) -> None:
        assert json.loads(run("tokens", "-", "--format", "json", stdin=b"ret;").stdout)[1:] == [
            {"line": 1, "column": 4, "kind": "punctuation", "text": ";"}
        ]

    def test_colours(self) -> None:
        assert "\x1b[" in run("tokens", "-", "--format", "terminal", "--dark", stdin=NEAT.encode()).stdout
        assert "<html" in run("tokens", "-", "--format", "html", stdin=NEAT.encode()).stdout

    @pytest.mark.parametrize("format_", ["text", "json", "terminal", "html"])
    def test_garbage_is_no_traceback(self, format_: str) -> None:
        result = run("tokens", "-", "--format", format_, stdin=b".version 8.0\n\x00\xff\xfe{ \x1b[31m /*")

        assert result.exit_code == 0
