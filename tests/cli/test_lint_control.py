"""Settings, severities, baselines and formats of `ptxkit lint`."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from ptxkit.cli import main

BAD = ".version 8.0\n.target sm_80\n.address_size 64\n.entry k() {\n.reg .f32 a;\nmov.f32 nowhere, 0f00000000;\nret;\n}\n"


def run(*arguments: str, stdin: bytes | None = None) -> Result:
    return CliRunner().invoke(main, arguments, input=stdin)


@pytest.fixture
def bad(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "bad.ptx"
    path.write_text(BAD)
    return path


def rules(*arguments: str) -> list[tuple[str, str]]:
    result = run("lint", "--select", "E010", "--format", "json", *arguments)
    return [(one["rule"], one["severity"]) for one in json.loads(result.stdout)["diagnostics"]]


def test_without_an_execution_there_is_a_warning_and_no_error() -> None:
    masked = Path(__file__).resolve().parents[2] / "fixtures" / "source" / "masked.sm_90a.ptx"
    executed, argued = [run("lint", str(masked), "--no-cache", "--select", "C", *options) for options in ((), ("--no-run",))]

    assert "error[" in executed.stdout and not executed.stderr.startswith("ptxkit: no kernel")
    assert "error[" not in argued.stdout and "warning[" in argued.stdout
    assert argued.stderr.startswith("ptxkit: no kernel is executed")


def test_severity(bad: Path) -> None:
    assert rules("bad.ptx") == [("E010", "error")]
    assert rules("bad.ptx", "--severity", "E010=info") == [("E010", "info")]
    assert rules("bad.ptx", "--severity", "E=warning,undeclared-register=info") == [("E010", "info")]
    assert rules("bad.ptx", "--severity", "E010=off") == []
    assert run("lint", "--severity", "E010=info", "--select", "E010", "bad.ptx").exit_code == 0
    assert run("lint", "--severity", "E010=terrible", "bad.ptx").exit_code == 2
    assert run("lint", "--severity", "Z9=info", "bad.ptx").exit_code == 2


def test_settings_of_the_project(bad: Path) -> None:
    (bad.parent / "pyproject.toml").write_text('[tool.ptxkit]\nselect = ["E010"]\n[tool.ptxkit.severity]\nE010 = "warning"\n')

    assert rules("bad.ptx") == [("E010", "warning")]
    assert rules("bad.ptx", "--severity", "E010=error") == [("E010", "error")]
    (bad.parent / "other.toml").write_text('ignore = ["E010"]\n')
    assert rules("bad.ptx", "--config", "other.toml") == []
    (bad.parent / "ptxkit.toml").write_text("selekt = 1\n")
    result = run("lint", "bad.ptx")
    assert result.exit_code == 2
    assert "no such setting: selekt" in result.stderr


def test_a_severity_turns_a_rule_on(bad: Path) -> None:
    bad.write_text(BAD.replace("mov.f32 nowhere", "mov.f32 a"))
    found = json.loads(run("lint", "--severity", "R002=error", "--format", "json", "bad.ptx").stdout)["diagnostics"]

    assert [(one["rule"], one["severity"]) for one in found if one["rule"] == "R002"] == [("R002", "error")]


def test_exit_zero(bad: Path) -> None:
    assert run("lint", "bad.ptx").exit_code == 1
    assert run("lint", "--exit-zero", "bad.ptx").exit_code == 0
    assert run("lint", "--exit-zero", "none.ptx").exit_code == 2


def test_baseline(bad: Path) -> None:
    accepted = ("lint", "--select", "E010", "--baseline", "known.json")

    assert run(*accepted, "bad.ptx").exit_code == 2
    assert run(*accepted, "--update-baseline", "bad.ptx").exit_code == 0
    result = run(*accepted, "bad.ptx")
    assert result.exit_code == 0
    assert "1 in the baseline" in result.stderr
    # other lines, one more of the same
    bad.write_text("\n\n" + BAD.replace("ret;", "mov.f32 elsewhere, 0f00000000;\nret;"))
    result = run(*accepted, "bad.ptx")
    assert result.exit_code == 1
    assert "elsewhere" in result.stdout
    assert "nowhere" not in result.stdout
    bad.write_text(BAD.replace("nowhere", "a"))
    result = run(*accepted, "bad.ptx")
    assert result.exit_code == 0
    assert "1 of the baseline are no longer found" in result.stderr


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"version": 1, "accepted": {"x": 3}}', '{"version": 9, "accepted": {}}'])
def test_no_baseline(bad: Path, text: str) -> None:
    (bad.parent / "known.json").write_text(text)

    result = run("lint", "--baseline", "known.json", "bad.ptx")

    assert result.exit_code == 2
    assert "known.json" in result.stderr


def test_update_needs_a_file(bad: Path) -> None:
    assert run("lint", "--update-baseline", "bad.ptx").exit_code == 2


def test_statistics(bad: Path) -> None:
    result = run("lint", "--select", "E010", "--statistics", "bad.ptx")

    assert result.exit_code == 1
    assert result.stdout.splitlines()[1].split() == ["1", "1", "E010", "undeclared-register", "error"]
    document = json.loads(run("lint", "--select", "E010", "--statistics", "--format", "json", "bad.ptx").stdout)
    assert document["statistics"][0]["findings"] == 1
    assert run("lint", "--statistics", "--format", "sarif", "bad.ptx").exit_code == 2


def test_github(bad: Path) -> None:
    assert run("lint", "--format", "github", "bad.ptx").stdout.startswith("::error file=bad.ptx,line=6,endLine=6,col=9,")


def test_sarif(bad: Path) -> None:
    document = json.loads(run("lint", "--format", "sarif", "bad.ptx").stdout)

    (result,) = document["runs"][0]["results"]
    assert result["ruleId"] == "E010"
    assert document["runs"][0]["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == "E010"


def test_ignores(bad: Path) -> None:
    bad.write_text(BAD.replace("0f00000000;", "0f00000000; // ptxkit: ignore[E010] known"))

    assert run("lint", "bad.ptx").exit_code == 0
    assert run("lint", "--no-ignores", "bad.ptx").exit_code == 1
    assert run("check", "bad.ptx").exit_code == 1


@pytest.mark.parametrize("format_", ["text", "json", "sarif", "github"])
@pytest.mark.parametrize("data", [b"\x00\xff\xfe{ \x1b[31m", b"// ptxkit: ignore[\xff]\n{", b'.loc 1 1 1\n.file 1 "\xff"', b""])
def test_garbage_is_no_traceback(data: bytes, format_: str) -> None:
    result = run("lint", "-", "--format", format_, stdin=data)

    assert result.exit_code in (0, 1, 2)


class TestRules:
    def test_table(self) -> None:
        result = run("rules")

        assert result.exit_code == 0
        assert "E010" in result.stdout

    def test_json(self) -> None:
        (rule,) = json.loads(run("rules", "R001", "--format", "json").stdout)

        assert rule["name"] == "uninitialised-register"

    def test_unknown(self) -> None:
        assert run("rules", "Z999").exit_code == 2


def test_hooks_name_commands() -> None:
    root = Path(__file__).resolve().parents[2]
    hooks = re.findall(r"entry: ptxkit (\w+)", (root / ".pre-commit-hooks.yaml").read_text())

    assert hooks == ["lint", "fmt"]
    assert all(run(hook, "--help").exit_code == 0 for hook in hooks)
    assert "ptxkit lint $ARGUMENTS --format github -- $PATHS" in (root / "action.yml").read_text()


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not there")
@pytest.mark.parametrize(
    ("sarif", "status", "printed"),
    [("", 1, "::error file=k.ptx"), ("found.sarif", 1, "")],
)
def test_the_action_runs(sarif: str, status: int, printed: str, tmp_path: Path) -> None:
    """The script of action.yml as GitHub runs it, with `ptxkit` on the path; a `*` among the words stays what it is."""
    action = (Path(__file__).resolve().parents[2] / "action.yml").read_text(encoding="utf-8")
    script = textwrap.dedent(action.rpartition("run: |\n")[2])
    (tmp_path / "k.ptx").write_text(".version 8.0\n.target sm_80\n.address_size 64\n.entry k() { add.u32 %r1, %r2, 1; ret; }\n")
    command = tmp_path / "bin" / "ptxkit"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m ptxkit "$@"\n')
    command.chmod(0o755)
    root = str(Path(__file__).resolve().parents[2])
    words = {"PATHS": "k.ptx", "ARGUMENTS": "--no-cache --select E", "SARIF": sarif}
    environment = {**os.environ, **words, "PATH": f"{command.parent}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": root}

    done = subprocess.run(["bash", "-e", "-c", script], capture_output=True, text=True, cwd=tmp_path, env=environment, check=False)

    assert done.returncode == status
    assert printed in done.stdout
    assert not sarif or json.loads((tmp_path / sarif).read_text())["version"] == "2.1.0"


class TestKernels:
    """`-k`: the findings of some functions."""

    @pytest.fixture
    def two(self, bad: Path) -> Path:
        bad.write_text(BAD + BAD.partition(".entry")[2].replace(" k()", ".entry other()"))
        return bad

    def test_only_those_of_one_function(self, two: Path) -> None:
        result = run("lint", "--format", "json", "-k", "othe", str(two))

        assert [(one["rule"], one["function"]) for one in json.loads(result.stdout)["diagnostics"]] == [("E010", "other")]

    def test_what_a_kernel_calls_belongs_to_it(self, bad: Path) -> None:
        called = BAD.partition(".entry")[2].replace(" k()", ".func called()")
        bad.write_text(BAD.partition(".entry")[0] + called + ".entry k() { call called; ret; }\n.entry other() { ret; }\n")

        assert "1 error in 1 file" in run("lint", "-k", "k", str(bad)).stderr
        assert "no findings in 1 file" in run("lint", "-k", "other", str(bad)).stderr

    def test_files_without_it_are_left_out(self, two: Path, tmp_path: Path) -> None:
        (tmp_path / "second.ptx").write_text(BAD)

        assert "1 error in 1 file" in run("lint", "-k", "other", ".").stderr

    def test_a_name_that_no_file_has(self, two: Path) -> None:
        result = run("lint", "-k", "otter", str(two))

        assert (result.exit_code, "did you mean other?" in result.stderr) == (2, True)
