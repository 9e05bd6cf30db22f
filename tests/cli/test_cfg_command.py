"""`ptxkit cfg` as a user meets it."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from ptxkit.cli import main

HEAD = ".version 8.0\n.target sm_80\n.address_size 64\n"
TEXT = HEAD + ".entry one() { ret; }\n.entry two() { .reg .b32 a; L: mov.b32 a, 1; bra L; }\n.func three();\n"


def run(*arguments: str, stdin: bytes | None = None) -> Result:
    return CliRunner().invoke(main, ["cfg", *arguments], input=stdin)


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "k.ptx"
    path.write_text(TEXT)
    return str(path)


@pytest.fixture
def no_program(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    monkeypatch.setenv("PATH", str(empty))
    monkeypatch.setattr("sysconfig.get_path", lambda name: str(empty))


def test_prints_dot(file: str) -> None:
    result = run(file)

    assert result.exit_code == 0
    assert result.stdout.startswith("digraph cfg {")
    assert "cluster_f1l0" in result.stdout
    assert result.stderr == ""


def test_standard_input() -> None:
    assert run("-", stdin=TEXT.encode()).stdout.startswith("digraph")


def test_one_function(file: str) -> None:
    result = run(file, "-k", "one")

    assert "kernel one" in result.stdout
    assert "f0b1" not in result.stdout


@pytest.mark.parametrize("name", ["nowhere", "three"])
def test_no_such_function(file: str, name: str) -> None:
    result = run(file, "-k", name)

    assert result.exit_code == 2
    assert result.stderr == f"ptxkit: no kernel {name!r}; there are one, two\n"


def test_writes_dot(file: str, tmp_path: Path) -> None:
    result = run(file, "-o", str(tmp_path / "out.dot"))

    assert result.exit_code == 0
    assert (tmp_path / "out.dot").read_text().startswith("digraph")
    assert result.stdout == ""


def test_no_other_file_where_no_program_is(file: str, tmp_path: Path, no_program: None) -> None:
    for ending in ("svg", "html"):
        result = run(file, "-o", str(tmp_path / f"k.{ending}"))

        assert result.exit_code == 2
        assert "no program to draw with: install Graphviz" in result.stderr
        assert list(tmp_path.glob(f"*.{ending}")) == []


def test_nothing_can_be_written(file: str, tmp_path: Path, no_program: None) -> None:
    for ending in ("svg", "dot"):
        result = run(file, "-o", str(tmp_path / "no" / "where" / f"k.{ending}"))

        assert result.exit_code == 2
        assert result.stderr.startswith("ptxkit: ")


@pytest.mark.parametrize("color", ["none", "liveness", "pressure", "divergence", "loops"])
@pytest.mark.parametrize("level", ["blocks", "instructions"])
def test_colours_and_levels(file: str, color: str, level: str) -> None:
    assert run(file, "--color", color, "--level", level).exit_code == 0


def test_bad_arguments(file: str, tmp_path: Path) -> None:
    assert run(file, "-o", "k.bmp").exit_code == 2
    assert run(str(tmp_path / "none.ptx")).exit_code == 2
    empty = tmp_path / "empty.ptx"
    empty.write_text(HEAD)
    assert "no function with a body" in run(str(empty)).stderr
    assert run(str(empty)).exit_code == 2


def test_broken_text_is_drawn_as_far_as_it_goes(tmp_path: Path) -> None:
    path = tmp_path / "k.ptx"
    path.write_text(HEAD + ".entry k() { add.s32 ,, ((; ret; }")
    result = run(str(path))

    assert result.exit_code == 0
    assert "syntax error" in result.stderr


def test_too_many_functions_are_named(tmp_path: Path) -> None:
    path = tmp_path / "k.ptx"
    body = "".join([f"bra L{i}; L{i}: " for i in range(3500)])
    path.write_text(HEAD + "".join([f".entry k{i}() {{ {body} ret; }}\n" for i in range(2)]))
    result = run(str(path))

    assert result.exit_code == 2
    assert "choose from k0, k1" in result.stderr
