"""`ptxkit run`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

pytest.importorskip("numpy")

from ptxkit.cli import main

PTX = """.version 8.0
.target sm_80
.address_size 64
.visible .entry scale(.param .u64 x, .param .u32 n)
{
.reg .pred %p; .reg .b32 %r<5>; .reg .b64 %rd<4>;
ld.param.u64 %rd1, [x]; ld.param.u32 %r1, [n];
mov.u32 %r2, %tid.x; setp.ge.u32 %p, %r2, %r1; @%p bra END;
mul.wide.u32 %rd2, %r2, 4; add.s64 %rd3, %rd1, %rd2;
ld.global.u32 %r3, [%rd3]; mul.lo.s32 %r3, %r3, 3; st.global.u32 [%rd3], %r3;
END: ret;
}
.visible .entry wild(.param .u64 x)
{
.reg .b64 %rd<2>;
mov.u64 %rd1, 16;
st.global.u64 [%rd1], %rd1;
ret;
}
"""

LAUNCH = """
[[kernel]]
entry = "scale"
grid = 1
block = 32
args = [{ buffer = "u32", length = 10, fill = "iota", output = true }, { scalar = "u32", value = 9 }]
"""

WILD = """
[[kernel]]
entry = "wild"
grid = 1
block = 1
args = [{ buffer = "u32", length = 10, fill = "iota", output = true }]
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "k.ptx").write_text(PTX)
    (tmp_path / "launch.toml").write_text(LAUNCH)
    (tmp_path / "wild.toml").write_text(WILD)
    (tmp_path / "none.toml").write_text(LAUNCH.replace("scale", "other"))
    return tmp_path


def test_outputs_instructions_and_json(folder: Path) -> None:
    out = folder / "out.json"
    result = CliRunner().invoke(main, ["run", str(folder / "k.ptx"), "--launch", str(folder / "launch.toml"), "--json", str(out)])
    assert result.exit_code == 0, result.output
    assert "scale <<<1, 32>>> " in result.output
    assert "argument 0 (10 x u32): 0 3 6 9 12 15 18 21 …" in result.output
    (launch,) = json.loads(out.read_text())["launches"]
    assert launch["outcome"] == "ended"
    assert launch["outputs"] == [{"argument": 0, "type": "u32", "values": [*range(0, 27, 3), 9]}]


@pytest.mark.parametrize("schedule", ["late", "early", "7"])
def test_schedules(folder: Path, schedule: str) -> None:
    result = CliRunner().invoke(main, ["run", str(folder / "k.ptx"), "--launch", str(folder / "launch.toml"), "--schedule", schedule])
    assert result.exit_code == 0 and "0 3 6 9 12 15 18 21 …" in result.output


def test_a_fault_is_shown_where_it_is(folder: Path) -> None:
    result = CliRunner().invoke(main, ["run", str(folder / "k.ptx"), "--launch", str(folder / "wild.toml")])
    assert result.exit_code == 1
    assert "wild <<<1, 1>>> address" in result.output
    assert "k.ptx:17:1: error" in result.output and "outside of global memory" in result.output and "thread (0,0,0)" in result.output


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["k.ptx", "--launch", "none.toml"], "no kernel 'other'"),
        (["k.ptx", "--launch", "absent.toml"], "No such file"),
        (["absent.ptx", "--launch", "launch.toml"], "absent.ptx"),
        (["k.ptx", "--launch", "launch.toml", "--schedule", "sometimes"], "'sometimes' is not"),
        (["launch.toml", "--launch", "launch.toml"], "not PTX"),
    ],
)
def test_what_cannot_be_run(folder: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], said: str) -> None:
    monkeypatch.chdir(folder)
    result = CliRunner().invoke(main, ["run", *arguments])
    assert result.exit_code == 2 and said in result.output


RACE = """.version 8.0
.target sm_80
.address_size 64
.visible .entry race(.param .u64 x)
{
.reg .b32 %r<5>;
.shared .align 4 .b8 s[256];
mov.u32 %r1, %tid.x; shl.b32 %r2, %r1, 2; mov.u32 %r3, s; add.s32 %r3, %r3, %r2;
st.shared.u32 [%r3], %r1;
bar.sync 0;
ld.shared.u32 %r4, [%r3+4];
ret;
}
"""


BEYOND = """.version 8.0
.target sm_90a
.address_size 64
.visible .entry beyond(.param .u64 x)
{
.reg .pred %p; .reg .b32 %r<4>; .reg .b64 %a; .reg .f32 %f<4>;
.shared .align 1024 .b8 A[2048];
mov.u32 %r1, %tid.x; shl.b32 %r2, %r1, 4; mov.u32 %r3, A; add.u32 %r2, %r2, %r3;
st.shared.v4.u32 [%r2], {%r1, %r1, %r1, %r1};
fence.proxy.async.shared::cta;
shr.u32 %r3, %r3, 4; cvt.u64.u32 %a, %r3; or.b64 %a, %a, 0x4000004000010000;
setp.ne.u32 %p, %r1, -1;
wgmma.fence.sync.aligned;
wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f0,%f1,%f2,%f3}, %a, %a, %p, 1, 1, 0, 0;
wgmma.commit_group.sync.aligned;
wgmma.wait_group.sync.aligned 0;
ret;
}
"""


def test_the_first_lines_of_a_matrix_that_leaves_its_variable(folder: Path) -> None:
    (folder / "beyond.toml").write_text(WILD.replace("wild", "beyond").replace("block = 1", "block = 128"))
    source = folder / "beyond.ptx"
    source.write_text(BEYOND)
    command = ["run", str(source), "--launch", str(folder / "beyond.toml"), "--check", "all", "--json", str(folder / "out.json")]
    assert CliRunner().invoke(main, command).exit_code == 1
    assert json.loads((folder / "out.json").read_text())["launches"][0]["fault"]["rule"] == "fault"
    assert CliRunner().invoke(main, [*command, "--first-lines"]).exit_code == 1
    (launch,) = json.loads((folder / "out.json").read_text())["launches"]
    assert launch["outcome"] == "ended"
    assert [finding["rule"] for finding in launch["findings"]] == ["S003"]
    assert launch["findings"][0]["witness"]["replay"].endswith("--first-lines --kernel beyond")


def test_checks(folder: Path) -> None:
    launch = WILD.replace("wild", "race").replace("block = 1", "block = 32")
    (folder / "race.toml").write_text(launch)
    source = folder / "race.ptx"
    source.write_text(RACE)
    command = ["run", str(source), "--launch", str(folder / "race.toml"), "--check", "races", "--json", str(folder / "out.json")]
    clean = CliRunner().invoke(main, command)
    assert clean.exit_code == 0, clean.output
    assert json.loads((folder / "out.json").read_text())["launches"][0]["findings"] == []
    source.write_text(RACE.replace("bar.sync 0;\n", ""))
    found = CliRunner().invoke(main, command)
    assert found.exit_code == 1
    assert "S009" in found.output
    (finding,) = json.loads((folder / "out.json").read_text())["launches"][0]["findings"]
    assert finding["rule"] == "S009" and finding["witness"]["variable"] == "s" and finding["count"] == 31
    replayed = finding["witness"]["replay"].split()
    assert CliRunner().invoke(main, replayed[1:]).exit_code == 1


def test_a_check_that_there_is_not(folder: Path) -> None:
    command = ["run", str(folder / "k.ptx"), "--launch", str(folder / "launch.toml"), "--check", "rices"]
    refused = CliRunner().invoke(main, command)
    assert refused.exit_code == 2
    assert "'rices' is not a check; there are all, races" in refused.output
