"""`ptxkit lint --explain-ptxas`."""

from __future__ import annotations

import json
from pathlib import Path

from click.testing import CliRunner

from ptxkit.cli import main

TEXT = """.version 8.5
.target sm_90a
.address_size 64
.entry k()
{
.reg .f32 %f<8>; .reg .b64 %rd<4>;
wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f1, %f2, %f3, %f4}, %rd1, %rd2, 1, 1, 1, 0, 0;
ret;
}
"""
LOG = "ptxas info    : (C7519) warpgroup.arrive is injected in around line 7 by compiler to allow use of registers in function 'k'\n"


def test_the_cause_is_printed(tmp_path: Path) -> None:
    (tmp_path / "k.ptx").write_text(TEXT, encoding="utf-8")
    (tmp_path / "log").write_text(LOG, encoding="utf-8")

    done = CliRunner().invoke(main, ["lint", "--format", "json", "--explain-ptxas", str(tmp_path / "log"), str(tmp_path / "k.ptx")])

    assert done.exit_code == 0
    (found,) = json.loads(done.stdout)["diagnostics"]
    assert (found["rule"], found["line"], found["message"][:5]) == ("W001", 7, "C7519")


def test_a_log_that_is_not_there_is_said(tmp_path: Path) -> None:
    (tmp_path / "k.ptx").write_text(TEXT, encoding="utf-8")

    done = CliRunner().invoke(main, ["lint", "--explain-ptxas", str(tmp_path / "log"), str(tmp_path / "k.ptx")])

    assert done.exit_code == 2
