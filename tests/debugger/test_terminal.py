"""The debugger's commands."""

from __future__ import annotations

import pytest

pytest.importorskip("numpy")

from click.testing import CliRunner
from debugged import RACE, SUMS, line_of

from ptxkit.cli import main

SETP = line_of(SUMS, "setp.lt.u32 %p1")


def typed(paths: tuple[str, str], commands: str, *options: str) -> tuple[list[str], int]:
    """What the commands print, and the exit code."""
    result = CliRunner().invoke(main, ["debug", paths[0], "--launch", paths[1], *options], input=commands)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.output
    return result.stdout.splitlines(), result.exit_code


def test_a_session(sums: tuple[str, str]) -> None:
    said, code = typed(sums, f"break {SETP} if %r3 == 2\ncontinue\nprint %r4@9\nback\nnext 2\nwarps\nfinish\nquit\n")
    assert code == 0
    assert said[0].startswith("warp 0: line 16 of `k`: ld.param.u64 %rd1, [out];")
    assert said[1:5] == [
        f"breakpoint 1: line {SETP} of `k`",
        "breakpoint 1",
        f"warp 0: line {SETP} of `k`: setp.lt.u32 %p1, %r3, %r1;",
        "18",
    ]
    assert said[5] == f"warp 0: line {SETP - 1} of `k`: add.u32 %r3, %r3, 1;"
    assert "breakpoint 1" in said[6]  # the first of the two steps comes to it
    assert said[8] == f"* warp 0 (threads 0 to 31): at line {SETP}"
    assert said[-1].startswith("the launch has ended: ")


def test_what_is_shown(sums: tuple[str, str]) -> None:
    said, _ = typed(sums, "b twice\nc\nbt\nparameters\nup\np %r4@0\nshared\nbarriers\nx %rd1 16\nlist\nspecial\nregisters %r4\nquit\n")
    text = "\n".join(said)
    for part in (
        "*0 twice, line",
        " 1 k, line",
        "*1 k, line",
        "1000",
        "s: 256 bytes of .b32: [0, 3, 6, 9",
        "barrier 0",
        "0x7f0000000000: 00000000",
        "->",
        "%ntid.x",
        "%r4",
    ):
        assert part in text, part


def test_a_finding_ends_with_one(race: tuple[str, str]) -> None:
    said, code = typed(race, "continue\ncontinue\n", "--check", "races")
    assert code == 1
    assert said[1].startswith("finding: S003: data race")
    assert line_of(RACE, "ld.shared") == int(said[2].split("line ")[1].split()[0])


def test_nonsense_is_answered(sums: tuple[str, str]) -> None:
    commands = (
        "frobnicate\nbreak 9999\nbreak 20 if (\nprint\nprint )\nwarp 77\ncta 9\ngoto x\nx 0\nback\ndelete\nhelp\nhelp x\nlist zzz\n\n"
    )
    said, code = typed(sums, commands)
    assert code == 0
    text = "\n".join(said)
    for part in (
        "no command is called `frobnicate`",
        "no instruction is at 9999",
        "the grid has 2x1x1 CTAs",
        "first statement of the warp",
    ):
        assert part in text, part


@pytest.mark.parametrize(
    "options", [["--launch", "nothing.toml"], [], ["--launch", "{launch}", "-k", "none"], ["--launch", "{launch}", "--cta", "7"]]
)
def test_what_cannot_be_debugged(sums: tuple[str, str], options: list[str]) -> None:
    given = [option.format(launch=sums[1]) for option in options]
    result = CliRunner().invoke(main, ["debug", sums[0], *given])
    assert result.exit_code == 2, result.output
    assert "Traceback" not in result.output
