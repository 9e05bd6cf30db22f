"""`ptxkit liveness` and `ptxkit callgraph`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from ptxkit.cli import main

TEXT = """.version 8.5
.target sm_80
.address_size 64
.func f() { call f; ret; }
.func gone();
.entry k(.param .u64 p)
{
    .reg .pred q;
    .reg .b32 r;
    .reg .b64 d;
    ld.param.u64 d, [p];
    mov.u32 r, 0;
L:  add.u32 r, r, 1;
    setp.lt.u32 q, r, 9;
    @q bra L;
    st.global.u32 [d], r;
    call gone;
    pt: .callprototype _ ();
    call d, (), pt;
    ret;
}
"""


def run(*arguments: str, text: str = TEXT) -> Result:
    return CliRunner().invoke(main, arguments, input=text)


class TestLiveness:
    def test_listing(self) -> None:
        result = run("liveness", "-", "-k", "k")

        assert result.exit_code == 0
        assert "k: at most 3 registers of 32 bits" in result.output
        assert "block 1 -> 2, 1, loop depth 1; live before: d r" in result.output
        assert "f:" not in result.output

    def test_json(self) -> None:
        document = json.loads(run("liveness", "-", "--format", "json").output)
        f, k = document["functions"]

        assert (f["function"], k["function"]) == ("f", "k")
        first = k["blocks"][1]["instructions"][0]
        assert first == {"line": 13, "text": "add.u32 r, r, 1;", "units": 3, "predicates": 0, "live_after": ["d", "r"]}
        assert k["loop_headers"] == [[1, 3]]
        assert k["peak"]["units"] == 3

    def test_unknown_function(self) -> None:
        result = run("liveness", "-", "-k", "nobody")

        assert result.exit_code == 2
        assert "there are f, k" in result.output

    def test_unreadable_file(self, tmp_path: Path) -> None:
        assert run("liveness", str(tmp_path / "none.ptx")).exit_code == 2


class TestCallgraph:
    def test_dot(self) -> None:
        lines = run("callgraph", "-").output.splitlines()

        assert lines[0] == "digraph calls {"
        assert '  "k" [shape=box];' in lines
        assert '  "gone" [style=dashed];' in lines
        assert '  "f" -> "f" [color=red];' in lines
        assert '  "k" -> "gone";' in lines
        assert '  "k" -> "?" [style=dashed];' in lines

    def test_dot_file(self, tmp_path: Path) -> None:
        out = tmp_path / "calls.dot"

        assert run("callgraph", "-", "-o", str(out)).exit_code == 0
        assert out.read_text().startswith("digraph")

    def test_svg(self, tmp_path: Path) -> None:
        out = tmp_path / "calls.svg"

        assert run("callgraph", "-", "-o", str(out)).exit_code == 0
        assert "<svg" in out.read_text()

    def test_other_ending(self, tmp_path: Path) -> None:
        assert run("callgraph", "-", "-o", str(tmp_path / "calls.gif")).exit_code == 2

    def test_without_dot(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("PATH", str(tmp_path))
        monkeypatch.setattr("sysconfig.get_path", lambda _: str(tmp_path))
        result = run("callgraph", "-", "-o", str(tmp_path / "calls.svg"))

        assert result.exit_code == 2
        assert "Graphviz" in result.output
