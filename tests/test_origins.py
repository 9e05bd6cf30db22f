"""From PTX lines to the lines they were compiled from."""

from __future__ import annotations

from pathlib import Path

import pytest

import ptxkit
from ptxkit import Index
from ptxkit.diagnostics import Origin
from ptxkit.origins import Origins, excerpt, source_lines

TEXT = """.version 8.5
.target sm_80
.address_size 64
.file 1 "a.cu"
.file 2 "b.cuh"
.entry k() {
    nop0;
    .loc 1 10 3
    nop1;
    { .loc 2 4 1, function_name $L, inlined_at 1 10 3
    nop2; }
    .loc 1 0 0
    nop3;
    .loc 9 1 1
    nop4;
}
// outside
.entry j() { nop5; }
"""


@pytest.mark.parametrize(
    ("word", "origin"),
    [
        ("nop0", None),
        ("nop1", Origin("a.cu", 10, 3)),
        ("nop2", Origin("b.cuh", 4, 1, Origin("a.cu", 10, 3))),
        ("nop3", None),
        ("nop4", None),
        ("outside", None),
        ("nop5", None),
    ],
)
def test_the_last_loc_holds(word: str, origin: Origin | None) -> None:
    module = ptxkit.parse(TEXT)

    assert Origins(module, Index(module)).at(TEXT.index(word)) == origin


def test_excerpts(tmp_path: Path) -> None:
    source_lines.cache_clear()
    (tmp_path / "a.cu").write_text("one\n  two;\n")
    (tmp_path / "secret").write_text("one\ntwo\n")
    beside = str(tmp_path / "k.ptx")

    assert excerpt(Origin("a.cu", 2, 1), beside) == "two;"
    assert excerpt(Origin("/build/elsewhere/a.cu", 2, 1), beside) == "two;"
    assert excerpt(Origin("a.cu", 3, 1), beside) is None
    assert excerpt(Origin("secret", 1, 1), beside) is None
    assert excerpt(Origin("none.cu", 1, 1), beside) is None
    assert excerpt(Origin("a\0b.cu", 1, 1), beside) is None
