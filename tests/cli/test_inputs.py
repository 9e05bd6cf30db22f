"""`ptxkit inputs`."""

from __future__ import annotations

from pathlib import Path

from click.testing import CliRunner

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
