"""`-k/--kernel`: one option for all commands, which takes a kernel's name in the PTX, in the source, or a part of either."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from ptxkit.cli import main

APPLY = "_ZN2my5applyIfLi64EEEvPT_i"
TEXT = f""".version 8.0
.target sm_90
.address_size 64
.func helper()
{{
 ret;
}}
.visible .entry {APPLY}(.param .u64 data, .param .u32 n)
{{
 .reg .b64 %rd<2>;
 ld.param.u64 %rd1, [data];
 st.global.u64 [%rd1], %rd1;
 call helper;
 ret;
}}
.visible .entry other()
{{
 cp.async.bulk.commit_group;
 ret;
}}
"""
LAUNCH = '[[kernel]]\nentry = "other"\ngrid = [1]\nblock = [32]\n'
MORE = {
    "debug": ["--launch", "launch.toml"],
    "diff": ["k.ptx"],
    "instrument": ["-p", "block-counts"],
    "litmus": ["--threads", "0:0"],
    "profile": ["--launch", "launch.toml", "-p", "block-counts"],
    "run": ["--launch", "launch.toml"],
    "verify": ["--block", "32"],
    "view": ["-o", "out.html"],
}
"""What commands need besides a file and a kernel."""


def commands(group: click.Group, words: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from commands(command, (*words, name))
        else:
            yield (*words, name), command


WITH_KERNEL = {
    words: option
    for words, command in commands(main)
    for option in command.params
    if isinstance(option, click.Option) and option.name in ("kernel", "kernels", "function", "only")
}


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "k.ptx").write_text(TEXT)
    (tmp_path / "launch.toml").write_text(LAUNCH)
    monkeypatch.chdir(tmp_path)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments)


def test_all_call_it_alike() -> None:
    assert len(WITH_KERNEL) >= 20
    assert {words for words, option in WITH_KERNEL.items() if option.opts != ["-k", "--kernel"]} == set()


# `extract` reads binary files only, and has its own test
@pytest.mark.parametrize("words", sorted(set(WITH_KERNEL) - {("extract",)}), ids=" ".join)
def test_an_unknown_kernel_ends_with_the_nearest(words: tuple[str, ...]) -> None:
    result = run(*words, "k.ptx", *MORE.get(words[0], []), "-k", "aply")

    assert result.exit_code == 2
    assert "no kernel 'aply': did you mean my::apply<float, 64>? There are" in result.stderr


class TestSelected:
    @pytest.mark.parametrize("name", [APPLY, "my::apply<float, 64>", "apply", "appl"])
    def test_stats_and_requires(self, name: str) -> None:
        (file,) = json.loads(run("stats", "k.ptx", "-k", name, "--format", "json").stdout)["files"]
        assert [one["name"] for one in file["functions"]] == [APPLY]
        assert file["instructions"] == 4

        (needed,) = json.loads(run("requires", "k.ptx", "-k", name, "--format", "json").stdout)["files"]
        assert [one["function"] for one in needed["functions"]] == [APPLY]

    def test_files_without_it_are_left_out(self) -> None:
        Path("l.ptx").write_text(".version 8.0\n.target sm_90\n.entry another() { ret; }\n")

        for command in ("stats", "requires"):
            files = json.loads(run(command, "k.ptx", "l.ptx", "-k", "another", "--format", "json").stdout)["files"]
            assert [one["path"] for one in files] == ["l.ptx"]

    def test_instrument(self) -> None:
        assert run("instrument", "k.ptx", "-p", "block-counts", "-k", "apply", "-o", "o.ptx", "--manifest", "m.json").exit_code == 0

        assert {site["function"] for site in json.loads(Path("m.json").read_text())["sites"]} == {APPLY}
        assert Path("o.ptx").read_text().endswith(TEXT[TEXT.index(".visible .entry other") :])

    def test_callgraph_has_what_it_calls(self) -> None:
        drawn = run("callgraph", "k.ptx", "-k", "apply").stdout

        assert f'"{APPLY}" -> "helper"' in drawn
        assert "other" not in drawn

    def test_rewriters(self) -> None:
        extracted = run("rewrite", "extract", "k.ptx", "-k", "apply", "-k", "helper").stdout
        assert APPLY in extracted
        assert "other" not in extracted

        limited = run("rewrite", "performance", "k.ptx", "-k", "apply", "--maxnreg", "32").stdout
        assert limited.count(".maxnreg") == 1
        assert run("rewrite", "performance", "k.ptx", "--maxnreg", "32").stdout.count(".maxnreg") == 2
