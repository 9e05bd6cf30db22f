"""Settings by file, and the options of `lint` that go with them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from ptxkit.cli import _input, _watching, main

BAD = ".version 8.5\n.target sm_90\n.address_size 64\n.visible .entry k() { .reg .f32 a; mov.f32 nowhere, 0f00000000; ret; }\n"


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments))


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("a/k.ptx", "b/k.ptx", "third_party/k.ptx"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text(BAD)
    (tmp_path / "ptxkit.toml").write_text('exclude = ["third_party"]\n')
    (tmp_path / "b" / "ptxkit.toml").write_text('[per-file-ignores]\n"k.ptx" = ["E010", "R004"]\n')
    monkeypatch.chdir("/")
    return tmp_path


def test_each_file_has_the_settings_above_it(project: Path) -> None:
    result = run("lint", str(project))

    assert result.exit_code == 1
    assert "a/k.ptx:4:" in result.stdout and "b/k.ptx" not in result.stdout and "third_party" not in result.stdout
    assert "third_party" in run("lint", str(project / "third_party" / "k.ptx")).stdout


def test_settings_may_be_left_out(project: Path) -> None:
    assert "b/k.ptx" in run("lint", str(project), "--isolated").stdout
    assert "a/k.ptx" not in run("lint", str(project), "--config", str(project / "b" / "ptxkit.toml")).stdout
    assert run("lint", str(project), "--isolated", "--config", "x.toml").exit_code == 2


def test_settings_are_shown(project: Path) -> None:
    shown = json.loads(run("lint", str(project), "--show-settings").stdout)

    assert [Path(one["configuration"]).parent.name for one in shown] == [project.name, "b"]
    assert shown[1]["settings"]["per_file_ignores"] == {"k.ptx": ["E010", "R004"]}


def test_output_file_and_quiet(project: Path, tmp_path: Path) -> None:
    out = tmp_path / "found.json"
    result = run("lint", str(project), "--format", "json", "--output-file", str(out))
    quiet = run("lint", str(project), "--quiet")

    assert (result.exit_code, result.stdout) == (1, "")
    assert {one["rule"] for one in json.loads(out.read_text())["diagnostics"]} == {"E010"}
    assert (quiet.exit_code, quiet.stderr) == (1, "") and "E010" in quiet.stdout
    assert run("lint", str(project), "--output-file", str(tmp_path / "no" / "where")).exit_code == 2


def test_watch_looks_again(tmp_path: Path) -> None:
    path = tmp_path / "k.ptx"
    path.write_text(BAD)
    seen: list[str] = []

    def look(names: list[str]) -> None:
        seen.append(Path(names[0]).read_text())
        path.write_text(".version 8.0\n" + "//" * len(seen))
        raise SystemExit(1)

    with pytest.raises(SystemExit) as end:
        _watching.run(lambda: [str(path)], look, rounds=2)

    assert end.value.code == 0
    assert seen == [BAD, ".version 8.0\n//"]


def test_watch_waits_for_a_file_that_is_away(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "k.ptx"
    path.write_text(BAD)
    seen: list[str] = []
    turns = iter((path.write_text, lambda text: path.unlink(), None, path.write_text))

    def find() -> list[str]:
        turn = next(turns)
        if turn is not None:
            turn(".version 8.0\n" + "//" * len(seen))
        return _input.paths([str(path)])

    def look(names: list[str]) -> None:
        seen.append(Path(names[0]).read_text())

    with pytest.raises(SystemExit) as end:
        _watching.run(find, look, rounds=3)

    assert end.value.code == 0
    assert seen == [".version 8.0\n", ".version 8.0\n//"]
    assert capsys.readouterr().err.count("no such file") == 1


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_is_installed(shell: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("SHELL", f"/usr/bin/{shell}")
    result = run("completion", "--install")

    assert result.exit_code == 0
    (written,) = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert "_PTXKIT_COMPLETE" in written.read_text()


def test_completion_of_an_unknown_shell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHELL", "/bin/tcsh")

    assert run("completion").exit_code == 2
