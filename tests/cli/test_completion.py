"""What a shell is told when it asks what may stand where."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from ptxkit.cli import COMPLETING, main

TEXT = ".version 8.0\n.target sm_80\n.address_size 64\n.func (.reg .b32 %r) sum() { ret; }\n.visible .entry scale() { ret; }\n"


@pytest.mark.parametrize(
    ("typed", "told"),
    [
        ("li", {"plain,lint", "plain,litmus", "plain,liveness"}),
        ("lint k", {"file,k"}),
        ("lint k.ptx l", {"file,l"}),
        ("diff k", {"file,k"}),
        ("diff k.ptx n", {"file,n"}),
        ("lint --output-file o", {"file,o"}),
        ("instrument k.ptx -o o", {"file,o"}),
        ("extract k.ptx -o o", {"dir,o"}),
        ("cfg k.ptx -k ", {"plain,scale", "plain,sum"}),
        ("cfg k.ptx -k sc", {"plain,scale"}),
        ("cfg nowhere.ptx -k ", set()),
        ("explain C001", {"plain,C001"}),
        ("explain tcgen05.", set()),
        ("explain movm", {"plain,movmatrix"}),
        ("lint --select race", {"plain,race-global"}),
        ("lint --ignore aligned-bar", {"plain,aligned-barrier-divergent"}),
        ("lint --target sm_90", {"plain,sm_90", "plain,sm_90a"}),
        ("instrument k.ptx --probe block-c", {"plain,block-counts"}),
        ("rewrite strip-d", {"plain,strip-debug"}),
        ("rewrite strip-debug k", {"file,k"}),
        ("lint --format js", {"plain,json"}),
    ],
)
def test_what_may_stand_there(typed: str, told: set[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "k.ptx").write_text(TEXT)
    monkeypatch.chdir(tmp_path)
    words = f"ptxkit {typed}"
    asked = {COMPLETING: "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
    done = CliRunner().invoke(main, [], env=asked, prog_name="ptxkit")

    assert set(done.stdout.split("\n")) - {""} == told
