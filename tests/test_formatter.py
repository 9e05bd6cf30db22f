"""The layout: what it looks like, that it is stable, and that it changes nothing but white space and the order of modifiers."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sampling import examples

import ptxkit
from ptxkit import files
from ptxkit.formatter import CannotFormat, format_module
from ptxkit.isa.opcodes import in_order, match, split_opcode
from ptxkit.isa.table import all_forms
from ptxkit.spacing import COMMENT
from ptxkit.syntax import Block, Leaf, Module, Node, Numbers, Opcode, lexical
from ptxkit.wrapping import MAY_BREAK, filled, wrapped

ROOT = Path(__file__).resolve().parents[1]
SHARED = ROOT.parent / "shared"
HEADER = ".version 8.5\n.target sm_90a\n.address_size 64\n"


def formatted(text: str, width: int = 120) -> str:
    return format_module(ptxkit.parse(text), width)


def body(*statements: str, width: int = 120) -> list[str]:
    """The lines of a kernel's body, without its indentation."""
    text = formatted(".entry k() {" + "\n".join(statements) + "\n}", width)
    return [line.removeprefix("    ") for line in text.splitlines()[2:-1]]


def content(module: Module) -> list[str]:
    """The tokens and the comments of a module in order, without white space; modifiers are sorted."""
    found: list[str] = []
    stack: list[Node | str] = [module]
    while stack:
        piece = stack.pop()
        if isinstance(piece, Opcode):
            mnemonic, modifiers = split_opcode(piece.text)
            found.append(mnemonic + "".join(sorted(modifiers)))
            found += ["".join(comment.split()) for comment in COMMENT.findall(piece.text)]
        elif isinstance(piece, Leaf):
            # `- 1` becomes `-1`, one token
            texts = piece.text.replace(",", " , ").split() if isinstance(piece, Numbers) else [piece.text]
            found += [part for text in texts for part in ((text[0], text[1:]) if text[0] == "-" and text[1:] else (text,))]
        elif isinstance(piece, str):
            found += _tokens(piece)
        else:
            stack += reversed([*piece.pieces(), *(["}"] if isinstance(piece, Block) and not piece.close else [])])
    return found


def _tokens(literal: str) -> list[str]:
    found: list[str] = []
    at = 0
    while at < len(literal):
        match = lexical.TOKEN.match(literal, at)
        assert match is not None
        found += ["".join(comment.split()) for comment in COMMENT.findall(match[1])]
        kind = match.lastindex or lexical.END
        if kind != lexical.END:
            found.append(match[kind].rstrip())
        at = match.end()
    return found


def sample() -> list[Path]:
    paths = sorted((ROOT / "fixtures").rglob("*.ptx"))
    for folder, count in (("corpus", 25), ("conformance/accept", 80), ("lint", 20)):
        found = [path for path in sorted((SHARED / folder).rglob("*.ptx")) if path.stat().st_size < 200_000]
        paths += random.Random(3).sample(found, min(count, len(found)))
    return [path for path in paths if path.stat().st_size < 200_000]


def test_the_whole_layout() -> None:
    folder = ROOT / "fixtures" / "format"
    for path in sorted(folder.glob("*.before.ptx")):
        after = Path(str(path).replace(".before.", ".after."))

        assert formatted(files.read(str(path))) == files.read(str(after))


@pytest.mark.parametrize("path", sample(), ids=lambda path: f"{path.parent.name}/{path.name}")
def test_laws(path: Path) -> None:
    module = ptxkit.parse(files.read(str(path)))
    try:
        after = format_module(module)
    except CannotFormat:
        assert any(found.severity == "error" for found in module.diagnostics)
        return
    again = ptxkit.parse(after)

    assert format_module(again) == after
    assert content(again) == content(module)
    narrow = ptxkit.parse(format_module(module, 60))
    assert format_module(narrow, 60) == narrow.text
    assert content(narrow) == content(module)


SEEDS = [path for path in sorted((ROOT / "fixtures" / "syntax").glob("*.ptx")) if path.name != "dwarf_legacy.ptx"]
SPACE = st.sampled_from(
    [" ", "\t", "\n", "\n\n\n", "\r\n", " // one\n", "\n// own\n", "/*x*/", " /* two\n lines */ ", "\n\n/* own */\n", "\n\t/* in */ // a\n"]
)


@examples(150)
@given(st.sampled_from(SEEDS), st.integers(0, 40), st.data())
def test_any_layout_and_any_comments(path: Path, start: int, data: st.DataObject) -> None:
    """White space becomes other white space, with comments: what comes out is stable and has the same tokens and comments."""
    text = files.read(str(path))
    pieces: list[str] = []
    at = number = 0
    while at < len(text):
        match_ = lexical.TOKEN.match(text, at)
        assert match_ is not None
        space = match_[1]
        if space and start <= number < start + 60:
            space = data.draw(SPACE)
        pieces += [space, match_[match_.lastindex] if (match_.lastindex or lexical.END) != lexical.END else ""]
        number += 1
        at = match_.end()
    module = ptxkit.parse("".join(pieces))
    try:
        after = format_module(module)
    except CannotFormat:
        return
    again = ptxkit.parse(after)

    assert format_module(again) == after
    assert content(again) == content(module)


@examples(200)
@given(st.lists(st.sampled_from([*'{};,.[]()@!/*"%ab1 \n\t', "add.s32 ", ".reg .b32 ", "//", ".entry k", "\x1f", "\0", "\r"])).map("".join))
def test_any_text_is_formatted_or_refused(text: str) -> None:
    module = ptxkit.parse(text)
    try:
        after = format_module(module)
    except CannotFormat:
        return
    assert format_module(ptxkit.parse(after)) == after


def test_modifiers_come_in_the_order_of_the_form() -> None:
    assert in_order("ld.u32.volatile.global") == "ld.volatile.global.u32"
    assert in_order("add.s32.sat") == "add.sat.s32"
    assert in_order("cvt.f32.rn.f64") == "cvt.rn.f32.f64"
    assert in_order("bar.whatever.sync") == "bar.whatever.sync"
    assert in_order("mov .u32") == "mov.u32"


def test_order_of_every_form_is_its_own() -> None:
    """Whatever the order, the forms that take an opcode, and the slots of its modifiers, stay the same."""
    chance = random.Random(1)
    for form in all_forms():
        modifiers = [chance.choice(slot.choices).modifier for slot in form.slots if not slot.optional or chance.random() < 0.5]
        chance.shuffle(modifiers)
        opcode = form.mnemonic + "".join(modifiers)
        ordered = in_order(opcode)

        assert in_order(ordered) == ordered
        assert [(found.form, found.slots) for found in match(opcode)] == [(found.form, found.slots) for found in match(ordered)]


def test_comments_stay_with_what_they_belong_to() -> None:
    assert body("add.s32 a,b,c; // after", "// before", "ret;") == ["add.s32             a, b, c;  // after", "// before", "ret;"]
    assert body("mov.b32 a, // first", "b; ret;") == ["mov.b32 a,  // first", "                    b;", "ret;"]
    assert formatted(".func f( // first\n.param .b32 a, // second\n.param .b32 b) {}").splitlines() == [
        ".func f(  // first",
        "    .param .b32 a,  // second",
        "    .param .b32 b",
        ")",
        "{",
        "}",
    ]


def test_blank_lines() -> None:
    assert body("", "", "ret;", "", "", "", "exit;", "", "") == ["ret;", "", "exit;"]
    assert formatted(".func f { ret; } .func g { ret; }").splitlines()[4:6] == ["", ".func g"]


def test_line_ends_and_strange_bytes_stay() -> None:
    assert formatted(".version 8.5\r\n.target sm_90\n// \udcff") == ".version 8.5\r\n.target sm_90\r\n// \udcff\r\n"
    assert formatted("") == ""


@given(st.lists(st.integers(0, 10**19), min_size=1), st.integers(0, 8), st.integers(40, 90))
def test_a_table_is_filled_as_it_would_be_wrapped(numbers: list[int], indent: int, width: int) -> None:
    margin = " " * indent

    assert filled(", ".join(map(str, numbers)), margin, width) == wrapped(f",{MAY_BREAK}".join(map(str, numbers)), margin, indent, width)


def test_long_vectors_are_wrapped() -> None:
    lines = body("mma.sync {" + ", ".join(f"%f{i}" for i in range(60)) + "}, a, b;", width=80)

    assert max(map(len, lines)) <= 80
    assert lines[0].startswith("mma.sync            {%f0, %f1,")
    assert all(line.startswith(" " * 21 + "%f") for line in lines[1:])


def test_strings_stay() -> None:
    assert formatted('.pragma  "a,  \n  b // {" ;') == '.pragma "a,  \n  b // {";\n'
    assert formatted('\r\n.pragma "a\r\nb";') == '.pragma "a\r\nb";\r\n'


def test_signs_do_not_run_together() -> None:
    assert body("ld.b32 a, [b - -4];") == ["ld.b32              a, [b- -4];"]


@pytest.mark.parametrize("text", ["add.s32 a b;", ".entry k() {", "}", '"', "%: ret;", "st.b32 [a], \x1fb;"])
def test_what_is_no_ptx_is_refused(text: str) -> None:
    with pytest.raises(CannotFormat):
        formatted(text)


@pytest.mark.skipif(not SHARED.is_dir(), reason="the measured orders stand beside the checkout")
def test_orders_that_the_assembler_takes_come_to_one() -> None:
    rows = [line.split("\t") for line in (SHARED / "spec" / "modifier_order.tsv").read_text().splitlines()[1:]]
    taken = [(row[1], row[2]) for row in rows if row[0] == "yes"]
    same = [in_order(one) == in_order(other) for one, other in taken]

    # the others are types and layouts whose order says which operand they belong to
    assert len(same) > 1000
    assert sum(same) / len(same) > 0.95


@pytest.mark.parametrize(
    "text",
    [
        "cp.async.bulk/* why */.commit_group;",
        "add.s8x4 /* why */ ;",
        "add.u32 %r1, %r2 /* why */ , 1 /* because */ ;",
        ".global .align 1 .b8.extern " + "a_long_name_" * 9 + "[1];",
    ],
)
def test_what_is_laid_out_stays_so(text: str) -> None:
    module = ptxkit.parse(f".version 8.0\n.target sm_90\n.address_size 64\n.entry k()\n{{\n{text}\n}}\n")
    laid_out = format_module(module)

    assert format_module(ptxkit.parse(laid_out)) == laid_out
    assert not [one for one in ptxkit.parse(laid_out).diagnostics if one not in module.diagnostics]


@pytest.mark.parametrize("between", ["\n", "\n/* own */\n", " \n\n/* own */\n ", " // first\n// second\n"])
def test_a_list_may_go_on_on_the_next_line(between: str) -> None:
    text = f".version 7.0\n.target sm_80{between}, texmode_independent\n.address_size 64\n"
    module = ptxkit.parse(text)
    laid_out = format_module(module)

    assert not module.diagnostics and not ptxkit.parse(laid_out).diagnostics
    assert format_module(ptxkit.parse(laid_out)) == laid_out
