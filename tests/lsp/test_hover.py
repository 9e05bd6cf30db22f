"""What hover says."""

from __future__ import annotations

import pytest

from ptxkit.lsp.document import Document
from ptxkit.lsp.hover import hover

TEXT = """.version 8.5
.target sm_80
.address_size 64
.visible .entry k(.param .u64 p, .param .u32 n) {
    .reg .b32 %r<9>;
    .reg .b64 %rd<3>;
    .reg .pred %q;
    ld.param.u32 %r1, [n];
    mov.u32 %r2, %tid.x;
    mad.lo.s32 %r3, %r2, 4, 7;
    setp.ge.s32 %q, %r2, %r1;
    @%q bra $L_end;
    ld.param.u64 %rd1, [p];
    st.global.u32 [%rd1], %r3;
    shfl.sync.idx.b32 %r4, %r3, 0, 31, -1;
    frobnicate.u32 %r5;
    add.f32 %r5, %r4;
$L_end:
    ret;
}
"""


def said(words: str) -> str:
    plain = words.replace("^", "")
    assert TEXT.count(plain) == 1, plain
    found = hover(Document(TEXT), TEXT.index(plain) + words.index("^"))
    return "" if found is None else found[2]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (
            "^shfl.sync",
            ["shfl.sync.mode.b32", "ISA 9.7.", "Needs `sm_30` from `.version 6.0`", "whole warp together", "* `d`: written `.b32`"],
        ),
        ("^frobnicate", ["frobnicate"]),
        ("^add.f32", ["Forms:", "add{.rnd}{.ftz}{.sat}.f32"]),
        ("^%tid.x", ["%tid", "`.u32`", "Each thread has its own."]),
        (
            "mov.u32 ^%r2",
            ["one of `%r<9>`", "Written in line 9; read in line 10, 11.", "Live in line 9–11.", "Value: `%tid.x`", "Threads may differ."],
        ),
        ("ld.param.u32 ^%r1", ["Value: `n`", "threads of a grid", "Live in line 8–11."]),
        ("@^%q", [".reg .pred %q", "Written in line 11; read in line 12."]),
        ("^%r5;", ["Live in line"]),
        ("[^n]", ["Parameter, declared in line 4", ".param .u32 n"]),
        ("bra ^$L_end", ["Label, line 18", "Basic block 2", "line 12"]),
        ("^k(", [".visible .entry k", "11 instructions, 3 basic blocks"]),
        ("^.visible", ["To be seen by other modules"]),
    ],
)
def test_what_is_said(words: str, expected: list[str]) -> None:
    text = said(words)
    assert [part for part in expected if part not in text] == [], text


@pytest.mark.parametrize("words", ["mov.u32 %r2^,", ".u64 p^,"])
def test_between_names_the_word_in_front_counts(words: str) -> None:
    assert said(words)


def test_nothing_is_said_of_white_space() -> None:
    assert hover(Document(TEXT), TEXT.index("    .reg") + 1) is None
    assert hover(Document(""), 0) is None
