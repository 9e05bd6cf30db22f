"""Definitions, references and renaming, on texts with the cursor marked: `^` stands in front of the character under it."""

from __future__ import annotations

import pytest

from ptxkit.diagnostics import Edit
from ptxkit.lsp.document import Document
from ptxkit.lsp.navigation import CannotRename, definition, highlights, references, rename
from ptxkit.syntax import parse

HEAD = ".version 8.5\n.target sm_80\n.address_size 64\n"
KERNEL = (
    HEAD
    + """.shared .b32 tile[32];
.func helper(.reg .b32 x) { add.s32 x, x, 1; ret; }
.entry k(.param .u64 p) {
    .reg .b32 %r<9>;
    .reg .b32 sum, other;
    .reg .b64 %rd<3>;
    ld.param.u64 %rd1, [p];
    mov.u32 %r1, 0; // %r1 in a comment
$L_top:
    add.s32 %r1, %r1, 1;
    {
        .reg .b32 %r1;
        mov.u32 %r1, 5;
        add.s32 sum, %r1, %r2;
    }
    st.shared.b32 [tile+4], %r1;
    call helper, (sum);
    setp.lt.s32 %p, %r1, 9;
    @%p bra $L_top;
    ret;
}
"""
)


def marked(words: str, text: str = KERNEL) -> tuple[Document, int]:
    """The document, and the offset of the character behind `^` in words that stand there without it."""
    plain = words.replace("^", "")
    assert text.count(plain) == 1, plain
    return Document(text), text.index(plain) + words.index("^")


def lines(document: Document, places: tuple[tuple[int, str], ...]) -> list[str]:
    return [document.line_text(document.line_at(at)).strip() for at, _ in places]


@pytest.mark.parametrize(
    ("words", "declared"),
    [
        ("mov.u32 ^%r1, 0", ".reg .b32 %r<9>;"),
        ("mov.u32 ^%r1, 5", ".reg .b32 %r1;"),
        ("[^tile+4]", ".shared .b32 tile[32];"),
        ("call ^helper", ".func helper(.reg .b32 x) { add.s32 x, x, 1; ret; }"),
        ("bra $L_to^p", "$L_top:"),
        ("[^p]", ".entry k(.param .u64 p) {"),
        ("add.s32 ^x", ".func helper(.reg .b32 x) { add.s32 x, x, 1; ret; }"),
    ],
)
def test_a_name_leads_to_its_declaration(words: str, declared: str) -> None:
    document, offset = marked(words)
    at = definition(document, offset)
    assert at is not None
    assert document.line_text(document.line_at(at)).strip() == declared


@pytest.mark.parametrize("words", ["^add.s32 %r1", "// ^%r1 in", "setp.lt.s32 ^%p,"])
def test_what_nothing_declares_leads_nowhere(words: str) -> None:
    assert definition(*marked(words)) is None


def test_references_are_those_with_one_meaning() -> None:
    document, offset = marked("mov.u32 ^%r1, 0")
    assert [text for _, text in references(document, offset)] == ["%r1"] * 5
    assert lines(document, references(document, offset)) == [
        "mov.u32 %r1, 0; // %r1 in a comment",
        "add.s32 %r1, %r1, 1;",
        "add.s32 %r1, %r1, 1;",
        "st.shared.b32 [tile+4], %r1;",
        "setp.lt.s32 %p, %r1, 9;",
    ]
    inner = references(*marked("mov.u32 ^%r1, 5"))
    assert len(inner) == 3


def test_the_declaration_of_a_family_refers_to_all_of_it() -> None:
    document, offset = marked("^%r<9>")
    assert [text for _, text in references(document, offset)] == ["%r", *["%r1"] * 3, "%r2", *["%r1"] * 2]


def test_highlights_say_what_is_written() -> None:
    document, offset = marked("mov.u32 ^%r1, 0")
    assert [written for _, _, written in highlights(document, offset)] == [True, True, False, False, False]


def applied(text: str, edits: tuple[Edit, ...]) -> str:
    for edit in reversed(edits):
        text = text[: edit.start] + edit.text + text[edit.end :]
    return text


@pytest.mark.parametrize(
    ("words", "new", "shown"),
    [
        ("add.s32 ^sum", "total", "add.s32 total, %r1, %r2;"),
        ("[^tile+4]", "buffer", ".shared .b32 buffer[32];"),
        ("call ^helper", "aid", ".func aid(.reg .b32 x)"),
        ("bra ^$L_top", "$loop", "@%p bra $loop;"),
        ("mov.u32 ^%r1, 0", "%counter", "    .reg .b32 %r<9>;\n    .reg .b32 %counter;\n"),
        ("mov.u32 ^%r1, 0", "%r3", "(.param .u64 p) {\n    .reg .b32 %r<9>;\n    .reg .b32 sum, other;"),
        ("^%r<9>", "%q", "    .reg .b32 %q<9>;\n"),
        ("^%r<9>", "%q", "add.s32 sum, %r1, %q2;"),
    ],
)
def test_a_renamed_name_means_the_same(words: str, new: str, shown: str) -> None:
    document, offset = marked(words)
    edits = rename(document, offset, new)
    after = applied(document.text, edits)
    assert shown in after
    assert not parse(after).diagnostics
    assert len(Document(after).names.unresolved) == len(document.names.unresolved)


@pytest.mark.parametrize(
    ("words", "new", "why"),
    [
        ("add.s32 ^sum", "other", "declared there already"),
        ("mov.u32 ^%r1, 5", "%r2", "something else"),
        ("mov.u32 ^%r1, 0", "%r2", "something else"),
        ("add.s32 ^sum", "not a name", "is not a name"),
        ("add.s32 ^sum", "%r1", "something else|declared there already"),
        ("^add.s32 sum", "x", "nothing|no name"),
    ],
)
def test_a_name_that_is_taken_is_refused(words: str, new: str, why: str) -> None:
    with pytest.raises(CannotRename, match=why):
        rename(*marked(words), new)
