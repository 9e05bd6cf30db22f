"""What may stand where the cursor is, `^`, while a statement is being typed."""

from __future__ import annotations

import pytest

from ptxkit.lsp.completion import complete
from ptxkit.lsp.document import Document

HEAD = """.version 8.5
.target sm_90a
.address_size 64
.shared .b32 tile[32];
.func helper() { ret; }
.entry kernel(.param .u64 pointer) {
    .reg .b32 %r<120>;
    .reg .pred %p<3>, ready;
$L_top:
"""


def offered(typed: str) -> list[str]:
    text = HEAD + typed.replace("^", "") + "\n    ret;\n}\n"
    return [one.text for one in complete(Document(text), len(HEAD) + typed.index("^"))]


@pytest.mark.parametrize(
    ("typed", "some", "none"),
    [
        ("    ldm^", ["ldmatrix"], ["ld"]),
        ("    ld.glo^", [".global"], [".shared"]),
        ("    ld.global.^", [".ca", ".v4", ".f32"], [".global", ".shared"]),
        ("    wgmma.mma_async.sync.aligned.^", [".m64n64k16"], [".sync"]),
        ("    @%p1 bar.^", [".sync", ".arrive", ".red"], [".global"]),
        ("    @^", ["%p0", "%p2", "ready"], ["%r0", "%p3"]),
        ("    @!re^", ["ready"], ["%p0"]),
        ("    bra ^", ["$L_top"], ["%r0", "tile"]),
        ("    add.s32 %r1, %r11^", ["%r11", "%r110", "%r119"], ["%r120", "%r12"]),
        ("    mov.u32 %r1, %ti^", ["%tid"], ["%r1"]),
        ("    st.shared.b32 [ti^", ["tile"], ["pointer"]),
        ("    ld.param.u64 %rd1, [po^", ["pointer"], ["tile"]),
        ("    call he^", ["helper"], ["kernel"]),
        ("    .sha^", [".shared"], [".reg"]),
        ("    ret; mo^", ["mov"], ["ret"]),
        ("    ^", ["add", "mma"], []),
        ("    // ad^", [], ["add"]),
    ],
)
def test_what_is_offered(typed: str, some: list[str], none: list[str]) -> None:
    found = offered(typed)
    assert [word for word in some if word not in found] == [], found[:20]
    assert [word for word in none if word in found] == []


def test_names_may_come_from_an_older_text() -> None:
    old = Document(HEAD + "    ret;\n}\n")
    new = Document(HEAD + "    add.s32 %r1, %r11\n    ret;\n}\n")
    found = complete(new, new.text.index("%r11\n") + 4, old)
    assert "%r110" in [one.text for one in found]
    assert not new.is_parsed
