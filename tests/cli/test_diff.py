"""`ptxkit diff` as a user meets it."""

from __future__ import annotations

import json
from pathlib import Path

from click.testing import CliRunner, Result

from ptxkit.cli import main

TEXT = ".version 8.0\n.target sm_80\n.entry k() { .reg .b32 a; mov.b32 a, 1; ret; }\n.func f() { ret; }\n"


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments)


def written(folder: Path, name: str, text: str) -> str:
    (folder / name).write_text(text)
    return str(folder / name)


def test_equal(tmp_path: Path) -> None:
    result = run("diff", written(tmp_path, "a.ptx", TEXT), written(tmp_path, "b.ptx", TEXT.replace(" a", " b")))

    assert result.exit_code == 0
    assert result.stdout == ""


def test_different(tmp_path: Path) -> None:
    a, b = written(tmp_path, "a.ptx", TEXT), written(tmp_path, "b.ptx", TEXT.replace("a, 1;", "a, 2;"))
    result = run("diff", a, b)

    assert result.exit_code == 1
    assert result.stdout == "kernel k  1 changed\n-      3  mov.b32 a, 1;\n+      3  mov.b32 a, 2;\n"
    assert run("diff", a, b, "--summary").stdout == "kernel k  1 changed\n"
    assert run("diff", a, b, "-k", "f").exit_code == 0


def test_json(tmp_path: Path) -> None:
    a, b = written(tmp_path, "a.ptx", TEXT), written(tmp_path, "b.ptx", TEXT.replace("mov.b32 a, 1; ", ""))
    result = run("diff", "--format", "json", a, b)
    document = json.loads(result.stdout)
    (function,) = document["functions"]

    assert not document["equal"]
    assert function["changes"] == [{"kind": "removed", "before": {"line": 3, "text": "mov.b32 a, 1;"}, "after": None}]
    assert function["opcodes"] == {"mov.b32": [1, 0]}


def test_no_such_file(tmp_path: Path) -> None:
    assert run("diff", str(tmp_path / "none.ptx"), str(tmp_path / "none.ptx")).exit_code == 2
