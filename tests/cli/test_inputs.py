"""`ptxkit inputs`."""

from __future__ import annotations

import shlex
from pathlib import Path

from click.testing import CliRunner

import ptxkit
from ptxkit.analyses import lint
from ptxkit.cli import main

PTX = """.version 8.0
.target sm_80
.address_size 64
.visible .entry fill(.param .u64 p, .param .u32 n)
{
.reg .pred %p; .reg .b32 %r<3>; .reg .b64 %rd<4>;
ld.param.u64 %rd1, [p]; ld.param.u32 %r1, [n];
mov.u32 %r2, %tid.x; setp.ge.u32 %p, %r2, %r1; @%p ret;
mul.wide.u32 %rd2, %r2, 4; add.s64 %rd3, %rd1, %rd2; st.global.u32 [%rd3], %r2;
ret;
}
"""


def test_what_it_writes_runs(tmp_path: Path) -> None:
    source, launch = tmp_path / "k.ptx", tmp_path / "launch.toml"
    source.write_text(PTX)

    written = CliRunner().invoke(main, ["inputs", str(source), "-k", "fill", "-o", str(launch)])
    assert written.exit_code == 0, written.output
    ran = CliRunner().invoke(main, ["run", str(source), "--launch", str(launch), "--check", "all"])
    assert ran.exit_code == 0, ran.output


def test_shape_and_numbers_can_be_asked_for(tmp_path: Path) -> None:
    source = tmp_path / "k.ptx"
    source.write_text(PTX)
    text = CliRunner().invoke(main, ["inputs", str(source), "--block", "32", "--less", "5"]).output

    assert "block = [32, 1, 1]" in text
    assert "value = 27" in text


def test_unknown_kernel(tmp_path: Path) -> None:
    source = tmp_path / "k.ptx"
    source.write_text(PTX)
    result = CliRunner().invoke(main, ["inputs", str(source), "-k", "other"])

    assert result.exit_code == 2
    assert "fill" in result.output


def test_bad_block(tmp_path: Path) -> None:
    source = tmp_path / "k.ptx"
    source.write_text(PTX)

    assert CliRunner().invoke(main, ["inputs", str(source), "--block", "x"]).exit_code == 2


RACE = """.version 8.0
.target sm_80
.address_size 64
.visible .entry pass_on(.param .u64 p, .param .align 64 .b8 unread[128]) .reqntid 64
{
.reg .b32 %r<8>; .reg .b64 %rd<4>;
.shared .align 4 .b8 s[256];
ld.param.u64 %rd1, [p]; mov.u32 %r1, %tid.x; mov.u32 %r2, s; shl.b32 %r3, %r1, 2; add.u32 %r4, %r2, %r3; st.shared.u32 [%r4], %r1;
xor.b32 %r3, %r3, 128; add.u32 %r4, %r2, %r3; ld.shared.u32 %r5, [%r4]; mul.wide.u32 %rd2, %r1, 4; add.s64 %rd3, %rd1, %rd2;
st.global.u32 [%rd3], %r5; ret;
}
"""


def test_the_commands_of_a_witness_show_it_again(tmp_path: Path) -> None:
    source, launch = tmp_path / "k.ptx", tmp_path / "launch.toml"
    source.write_text(RACE)
    (error,) = lint(ptxkit.parse(RACE, str(source)))
    assert error.witness is not None

    results = []
    for command in error.witness["replay"]:
        words = [str(launch) if word == "launch.toml" else word for word in shlex.split(command)[1:]]
        results.append(CliRunner().invoke(main, words))

    assert results[0].exit_code == 0, results[0].output
    assert results[1].exit_code == 1
    assert error.name in results[1].output


def test_what_memory_holds(tmp_path: Path) -> None:
    source = tmp_path / "k.ptx"
    source.write_text(PTX)

    assert 'fill = "zeros"' in CliRunner().invoke(main, ["inputs", str(source), "--fill", "zeros"]).output
