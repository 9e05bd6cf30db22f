"""`ptxkit gate`: verdicts and exit codes, the order of findings, their witnesses, and what was not done."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

pytest.importorskip("numpy")

import ptxkit
from ptxkit.analyses.gate.verdict import Certainty, NotALaunch, gate
from ptxkit.cli import main

ROOT = Path(__file__).resolve().parents[2]
GOOD = """.version 8.0
.target sm_80
.address_size 64
.visible .entry turn(.param .u64 p, .param .u32 n)
{
.reg .b64 %rd<4>; .reg .b32 %r<8>; .reg .pred %q;
.shared .align 4 .b8 s[256];
ld.param.u64 %rd1, [p];
ld.param.u32 %r7, [n];
mov.u32 %r1, %tid.x;
mov.u32 %r2, s;
shl.b32 %r3, %r1, 2;
add.u32 %r4, %r2, %r3;
st.shared.u32 [%r4], %r1;
bar.sync 0;
sub.u32 %r5, 252, %r3;
add.u32 %r4, %r2, %r5;
ld.shared.u32 %r6, [%r4];
setp.ge.u32 %q, %r1, %r7;
@%q bra END;
mul.wide.u32 %rd2, %r1, 4;
add.u64 %rd3, %rd1, %rd2;
st.global.u32 [%rd3], %r6;
END:
ret;
}
"""
RACE = GOOD.replace("bar.sync 0;\n", "")
LAUNCH = """[[kernel]]
entry = "turn"
grid = 1
block = 64
args = [{ buffer = "u32", length = 64, output = true }, { scalar = "u32", value = 64 }]
"""


def gated(folder: Path, text: str, *options: str, launch: str | None = LAUNCH) -> tuple[int, Any]:
    file = folder / "k.ptx"
    file.write_text(text)
    if launch is not None:
        (folder / "launch.toml").write_text(launch)
        options = ("--launch", str(folder / "launch.toml"), *options)
    done = CliRunner().invoke(main, ["gate", str(file), "--using", "none", *options])
    return done.exit_code, json.loads(done.stdout) if done.stdout else done.stderr


def test_a_kernel_that_is_verified_is_accepted(tmp_path: Path) -> None:
    code, found = gated(tmp_path, GOOD)

    assert (code, found["verdict"], found["findings"], found["reasons"]) == (0, "accept", [], [])
    assert [one["outcome"] for one in found["launches"]] == ["verified"]
    assert {one["step"]: one.get("not_done") for one in found["steps"]} == {
        "check": None,
        "validate": "no compiler could be asked",
        "verify": None,
        "lint": None,
    }


def test_a_race_is_shown_with_its_witness_and_the_command_that_shows_it_again(tmp_path: Path) -> None:
    code, found = gated(tmp_path, RACE)

    assert (code, found["verdict"]) == (1, "reject")
    first = found["findings"][0]
    assert (first["certainty"], first["by"], first["line"]) == ("shown", "verify", 17)
    assert {one["line"] for one in first["witness"]["accesses"]} == {14, 17}
    again = CliRunner().invoke(main, first["witness"]["replay"].split()[1:])
    assert again.exit_code == 1
    assert "data race" in again.stderr


def test_text_that_an_assembler_refuses_is_not_executed(tmp_path: Path) -> None:
    code, found = gated(tmp_path, GOOD.replace("bra END", "bra NOWHERE"))

    assert (code, found["verdict"]) == (1, "reject")
    assert [(one["certainty"], one["line"]) for one in found["findings"]] == [("refused", 20)]
    assert [one["step"] for one in found["steps"] if one.get("not_done") == "the module is refused"] == ["verify", "lint"]


def test_without_a_launch_nothing_is_accepted(tmp_path: Path) -> None:
    code, found = gated(tmp_path, GOOD, launch=None)

    assert (code, found["verdict"]) == (3, "undecided")
    assert [(one["kernel"], one["text"]) for one in found["reasons"]] == [("turn", "no launch was given for it")]


def test_without_a_launch_what_lint_shows_rejects(tmp_path: Path) -> None:
    code, found = gated(tmp_path, RACE, launch=None)

    assert code == 1
    assert next((one["certainty"], one["by"]) for one in found["findings"]) == ("shown", "lint")


def test_time_that_is_up_leaves_it_undecided(tmp_path: Path) -> None:
    code, found = gated(tmp_path, GOOD, "--budget", "0.01")

    assert (code, found["verdict"]) == (3, "undecided")
    assert {one["not_done"] for one in found["steps"]} == {"no time was left"}


def test_findings_go_from_the_most_certain_to_the_least() -> None:
    text = RACE.replace("ret;", "ret; // ptxkit: ignore[C006]")
    found = ptxkit.gate(text, block=64, parameters={"n": 64}).findings

    order = list(Certainty)
    ranks = [order.index(one.certainty) for one in found]
    assert ranks == sorted(ranks)
    assert len(set(ranks)) > 1


@pytest.mark.parametrize(
    ("launch", "says"),
    [
        (LAUNCH.replace('"turn"', '"other"'), "no kernel 'other'"),
        (LAUNCH.replace("{ scalar", "{ scaler"), "scaler"),
        (LAUNCH.replace(', { scalar = "u32", value = 64 }', ""), "2 parameters"),
    ],
)
def test_a_launch_that_there_cannot_be_is_a_mistake(tmp_path: Path, launch: str, says: str) -> None:
    code, said = gated(tmp_path, GOOD, launch=launch)

    assert code == 2
    assert says in said


def test_a_launch_that_the_kernel_rules_out_is_a_mistake() -> None:
    with pytest.raises(NotALaunch):
        ptxkit.gate(GOOD.replace(".param .u32 n)", ".param .u32 n) .maxntid 32"), block=64, parameters={"n": 64})


def test_a_file_that_is_not_there_is_a_mistake() -> None:
    assert CliRunner().invoke(main, ["gate", "nowhere.ptx"]).exit_code == 2


def test_what_was_made_up_is_said() -> None:
    found = ptxkit.gate(GOOD, block=64)

    assert found.is_accepted
    said = " ".join(found.as_json()["launches"][0]["assumptions"])
    assert "`n`" in said and "`p`" in said


def test_a_comment_accepts_a_finding() -> None:
    found = ptxkit.gate(RACE.replace("ld.shared.u32 %r6, [%r4];", "ld.shared.u32 %r6, [%r4]; // ptxkit: ignore[S003,S009]"), block=64)

    assert not [one for one in found.findings if one.certainty is Certainty.SHOWN]


@pytest.mark.skipif(not shutil.which("ptxas"), reason="needs ptxas")
def test_what_a_compiler_refuses_is_refused() -> None:
    module = ptxkit.parse(GOOD.replace(".extern", "").replace("[256]", "[16777216]"))
    found = gate(module, using=("ptxas",))

    assert found.verdict == "reject"
    assert ("refused", "ptxas") in [(one.certainty.value, one.by) for one in found.findings]


@pytest.mark.skipif(not shutil.which("ptxas"), reason="needs ptxas")
def test_a_compiler_says_what_the_kernels_take() -> None:
    found = gate(ptxkit.parse(GOOD), using=("ptxas",))

    assert [(one.kernel, one.shared) for one in found.resources] == [("turn", 256)]
