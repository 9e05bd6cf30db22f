"""`ptxkit divergence`."""

from __future__ import annotations

import json

from click.testing import CliRunner, Result

from ptxkit.cli import main

TEXT = """.version 8.5
.target sm_80
.address_size 64
.file 1 "kernel.cu"
.entry k(.param .u32 n)
.reqntid 64
{
    .reg .pred %p<4>;
    .reg .b32 %r<4>;
    .loc 1 12 3
    mov.u32 %r1, %tid.x;
    setp.lt.u32 %p1, %r1, 7;
    @%p1 bra L;
    membar.gl;
L:  setp.lt.u32 %p2, %r1, 32;
    @%p2 bra M;
    membar.gl;
M:  ret;
}
.entry other() { ret; }
"""


def run(*arguments: str, text: str = TEXT) -> Result:
    return CliRunner().invoke(main, ("divergence", *arguments), input=text)


def test_listing() -> None:
    result = run("-")

    assert result.exit_code == 0
    assert "k: 2 branches" in result.output and "other: 0 branches" in result.output
    assert "    13  @%p1 bra L;  (kernel.cu:12)\n        divergent within the warp\n" in result.output
    assert "`@%p1` holds for thread 0, not for thread 7" in result.output
    assert "            11  mov.u32 %r1, %tid.x;  reads `%tid.x`" in result.output
    assert "uniform over the warp, divergent within the warpgroup" in result.output


def test_json() -> None:
    document = json.loads(run("-", "--kernel", "k", "--format", "json").output)
    ((first, second),) = [function["branches"] for function in document["functions"]]

    assert (first["level"], first["verdict"], first["witness"]["threads"]) == ("thread", "divergent", [[0, 0, 0], [7, 0, 0]])
    assert (second["level"], second["witness"]["scope"]) == ("warp", "warpgroup")
    assert [step["line"] for step in first["blame"]] == [11, 12, 13]


def test_what_cannot_be_done() -> None:
    assert run("-", "--kernel", "zz").exit_code == 2
    assert run("/no/such/file").exit_code == 2
    assert run("-", text="}} garbage {{ @").exit_code == 2


def test_broken_text_is_said_to_be_broken() -> None:
    result = run("-", text=".version 8.0\n.garbage {")

    assert result.exit_code == 0
    assert "syntax error" in result.stderr and "no function with a body" in result.stderr
    assert "has a syntax error; the code it affects is left out" in run("-", text=TEXT.replace("membar.gl;\nL", "membar.gl %%;\nL")).stderr
