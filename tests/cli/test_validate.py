"""`ptxkit validate` as a user meets it. The compiler is a stand-in: a script that is found as ptxas."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from ptxkit.cli import main

GOOD = ".version 8.0\n.target sm_80\n.address_size 64\n.entry k() { .reg .f32 a; mov.f32 a, 0f00000000; ret; }\n"
BAD = GOOD.replace("mov.f32 a,", "mov.f32 nowhere,")

PTXAS = """#!/bin/sh
if [ "$1" = --version ]; then echo "Cuda compilation tools, release 13.0, V13.0.99"; exit 0; fi
for source; do case "$source" in *.ptx) text=$source;; esac; last=$source; done
if grep -q nowhere "$text"; then echo "ptxas $text, line 4; error   : Unknown symbol 'nowhere'" >&2; exit 255; fi
if grep -q crash "$text"; then kill -SEGV $$; fi
if grep -q 'version 9.9' "$text"; then
  echo "ptxas $text, line 1; fatal   : Unsupported .version 9.9; current version is '9.0'" >&2; exit 255
fi
echo "ptxas info    : Compiling entry function 'k' for 'sm_80'
ptxas info    : Function properties for k
    32 bytes stack frame, 4 bytes spill stores, 8 bytes spill loads
ptxas info    : Used 24 registers, used 1 barriers, 128 bytes smem, 352 bytes cmem[0]"
printf code > $last
"""


@pytest.fixture(autouse=True)
def ptxas(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if os.name != "posix":
        pytest.skip("the stand-in is a shell script")
    program = tmp_path / "bin" / "ptxas"
    program.parent.mkdir()
    program.write_text(PTXAS)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")


def run(*arguments: str, stdin: str | None = None) -> Result:
    return CliRunner().invoke(main, ["validate", "--using", "ptxas", *arguments], input=stdin)


def write(folder: Path, name: str, text: str) -> str:
    path = folder / name
    path.write_text(text)
    return str(path)


def test_valid(tmp_path: Path) -> None:
    path = write(tmp_path, "k.ptx", GOOD)

    result = run(path)

    assert result.exit_code == 0
    assert f"{path}: valid (ptxas 13.0.99, sm_80)" in result.stdout
    assert result.stdout.splitlines()[-1].split() == ["k", "24", "32", "4", "out,", "8", "in", "128", "352"]


def test_invalid_with_line_and_caret(tmp_path: Path) -> None:
    path = write(tmp_path, "k.ptx", BAD)

    result = run(path)

    assert result.exit_code == 1
    assert f"{path}:4:35: error[ptxas] k: Unknown symbol 'nowhere' (compiler)" in result.stdout
    assert "^^^^^^^" in result.stdout
    assert f"{path}: invalid (ptxas 13.0.99, sm_80)" in result.stdout


def test_compiler_bug(tmp_path: Path) -> None:
    path = write(tmp_path, "k.ptx", GOOD + "// crash\n")

    result = run(path)

    assert result.exit_code == 1
    assert "compiler bug (ptxas 13.0.99, sm_80): it was killed by SIGSEGV" in result.stdout


def test_unavailable(tmp_path: Path) -> None:
    path = write(tmp_path, "k.ptx", GOOD.replace("8.0", "9.9"))

    result = run(path)

    assert result.exit_code == 2
    assert "knows PTX up to 9.0, the module is of 9.9" in result.stderr
    assert "valid (" not in result.stdout


def test_without_a_validator_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path, "k.ptx", GOOD)
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    monkeypatch.delenv("CUDA_HOME", raising=False)
    monkeypatch.delenv("CUDA_PATH", raising=False)
    monkeypatch.setattr("ptxkit.revalidation.wheels.find", lambda *patterns: [])

    result = run(path)

    assert result.exit_code == 2
    assert "pip install -U 'ptxkit[nvjitlink]'" in result.stderr
    assert result.stdout == ""


def test_json(tmp_path: Path) -> None:
    paths = [write(tmp_path, "a.ptx", GOOD), write(tmp_path, "b.ptx", BAD)]

    result = run(*paths, "--format", "json")

    assert result.exit_code == 1
    document = json.loads(result.stdout)
    assert document["version"] == 1
    good, bad = document["files"]
    assert (good["path"], good["verdict"], good["validator"], good["target"]) == (paths[0], "valid", "ptxas", "sm_80")
    assert good["resources"] == [
        {
            "kernel": "k",
            "registers": 24,
            "stack": 32,
            "spill_stores": 4,
            "spill_loads": 8,
            "shared": 128,
            "constant": 352,
            "barriers": 1,
        }
    ]
    assert bad["verdict"] == "invalid"
    assert (bad["diagnostics"][0]["line"], bad["diagnostics"][0]["column"]) == (4, 35)


def test_several_files_end_with_the_worst(tmp_path: Path) -> None:
    good, bad = write(tmp_path, "a.ptx", GOOD), write(tmp_path, "b.ptx", BAD)
    new = write(tmp_path, "c.ptx", GOOD.replace("8.0", "9.9"))

    assert run(good, good).exit_code == 0
    assert run(good, bad).exit_code == 1
    assert run(good, bad, new).exit_code == 2
    assert run(str(tmp_path)).exit_code == 2


def test_standard_input() -> None:
    assert run("-", stdin=GOOD).exit_code == 0


@pytest.mark.parametrize(
    "arguments", [["--using", "nvcc"], ["--timeout", "0"], ["--timeout", "inf"], ["--timeout", "x"], ["--target", "compute_90"]]
)
def test_wrong_arguments(arguments: list[str]) -> None:
    result = run("-", *arguments, stdin=GOOD)

    assert result.exit_code == 2
    assert "Error" in result.stderr


def test_no_such_file(tmp_path: Path) -> None:
    assert run(str(tmp_path / "none.ptx")).exit_code == 2
    (tmp_path / "empty").mkdir()
    assert run(str(tmp_path / "empty")).exit_code == 2
