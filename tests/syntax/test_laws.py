"""The laws of the tree: it prints what was parsed, an edit changes one node's bytes, both ways to parse agree, every byte has one owner."""

from __future__ import annotations

import random
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sampling import examples

from ptxkit.syntax import Index, Module, Node, Path, Statement, nodes, parse, shapes
from ptxkit.syntax.lexical import END
from ptxkit.syntax.lowering import plain

KERNEL = """//
.version 8.7
.target sm_90a, debug
.address_size 64
.file 1 "a.cu", 17, 42
.global .align 4 .b8 table[12] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
.extern .shared .align 16 .b8 smem[];
.visible .entry k(.param .u64 .ptr .global .align 4 p, .param .align 8 .b8 q[16])
.maxntid 128, 1, 1
{
\t.reg .pred %p<2>;
\t.reg .b32 %r<9>; /* two
lines */
\t.loc 1 3 5, function_name $L__info_string0, inlined_at 1 2 3
\tmov.u32 %r1, %tid.x;
$L__BB0_1:
@!%p1 ld.global.v2.u32 {%r1, %r2}, [%rd1+-8];
\t{ .reg .f32 f; add.rn.f32 f, 0f3F800000, 1.5; }
\tcall.uni (r0), f, (%r1, 5);
\tcp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd2, {%r3, %r4}], [%r5];
\t.extern .func later (.param .b32 a);
\tadd // modifiers
\t  .u32 /* on lines of their own */ .sat
%r1, %r2, 1;
\t.pragma "over
lines\\";
\tret;
}
.align 8 .global .b64 moved;
.section .debug_info { .b8 1 , 2
.b32 info+4 }
"""


def statements(module: Module) -> list[tuple[Path, Statement]]:
    return [(path, node) for path, node in module.walk() if isinstance(node, Statement)]


def rule_of(node: Statement) -> str:
    """The rule of the grammar that a statement is parsed by."""
    special: dict[type[Node], str] = {nodes.Instruction: "instruction", nodes.Label: "label", nodes.Line: "statement"}
    return special.get(type(node), "directive")


def assert_one_owner(module: Module, text: str) -> None:
    """Every byte in one leaf or one literal piece, in order, by walking the pieces."""
    stack: list[str | Node] = [module]
    at = 0
    while stack:
        piece = stack.pop()
        if isinstance(piece, str):
            assert text.startswith(piece, at)
            at += len(piece)
            continue
        inner = list(piece.pieces())
        children = [child for child in inner if isinstance(child, Node)]
        assert len(children) == len(piece.children)
        assert all(a is b for a, b in zip(children, piece.children, strict=True))
        stack.extend(reversed(inner))
    assert at == len(text)


# --- 1: what was parsed is printed ------------------------------------------------------------------------------------------------


def test_a_file_prints_back(any_text: str) -> None:
    module = parse(any_text)
    assert module.text == any_text
    assert_one_owner(module, any_text)


def test_a_good_file_has_no_errors(good_text: str) -> None:
    assert [d for d in parse(good_text).diagnostics if d.severity == "error"] == []


@examples(300)
@given(st.text())
def test_any_text_prints_back(text: str) -> None:
    module = parse(text)
    assert module.text == text
    assert_one_owner(module, text)
    assert isinstance(module.diagnostics, tuple)


@examples(200)
@given(st.binary())
def test_any_bytes_print_back(data: bytes) -> None:
    text = data.decode("utf-8", "surrogateescape")
    assert parse(text).text.encode("utf-8", "surrogateescape") == data


WORDS = [*'{}()[];,@!:=+-"#. \n\0', "/*", "*/", "//", "a", "%r1", "1", "0f1", "mov.u32", "ret", "@@DWARF"]
WORDS += [".reg", ".global", ".entry", ".func", ".u32", ".param", ".loc", ".b8", ".section", ".pragma"]


@examples(300)
@given(st.lists(st.sampled_from(WORDS), max_size=60), st.sampled_from(["", " "]))
def test_any_heap_of_words_prints_back(words: list[str], space: str) -> None:
    text = space.join(words)
    module = parse(text)
    assert module.text == text
    assert_one_owner(module, text)
    for diagnostic in module.diagnostics:
        assert 0 <= diagnostic.span.start <= diagnostic.span.end <= len(text)


def mutated(text: str, lot: random.Random) -> str:
    """A text with a few of its tokens deleted, doubled, exchanged, or with words put between them."""
    tokens = re.findall(r"\s+|[\w$%.:]+|.", text, re.S)
    for _ in range(lot.randint(1, 8)):
        i, j = lot.randrange(len(tokens)), lot.randrange(len(tokens))
        change = lot.randrange(4)
        if change == 0:
            tokens[i] = ""
        elif change == 1:
            tokens[i] *= 2
        elif change == 2:
            tokens[i], tokens[j] = tokens[j], tokens[i]
        else:
            tokens[i] += lot.choice(WORDS)
    return "".join(tokens)


@examples(300)
@given(st.integers(0, 1 << 32))
def test_a_mutated_kernel_prints_back(seed: int) -> None:
    text = mutated(KERNEL, random.Random(seed))
    module = parse(text)
    assert module.text == text
    assert_one_owner(module, text)
    assert isinstance(module.diagnostics, tuple)


def test_a_mutated_file_prints_back(good_text: str) -> None:
    lot = random.Random(len(good_text))
    for _ in range(3):
        text = mutated(good_text[:60_000], lot)
        module = parse(text)
        assert module.text == text
        assert isinstance(module.diagnostics, tuple)


# --- 2: an edit changes one node's bytes ------------------------------------------------------------------------------------------


def assert_edits(text: str, count: int, seed: int) -> None:
    module = parse(text)
    index = Index(module)
    found = [path for path, _ in module.walk() if path]
    for path in random.Random(seed).choices(found, k=min(count, 4 * len(found))):
        node = module.at(path)
        new = nodes.Name("<edited>")
        edited = module.replace(path, new)
        start = index.offset(path) - len(getattr(node, "leading", ""))
        assert edited.text == text[:start] + "<edited>" + text[start + len(node.text) :], (path, node)
        assert edited.replace(path, node).text == text
        assert edited.replace(path, node) == module


def test_an_edit_changes_only_its_node() -> None:
    assert_edits(KERNEL, 2000, 1)


def test_an_edit_in_a_file_changes_only_its_node(good_text: str) -> None:
    assert_edits(good_text, 8, len(good_text))


# --- 3: shapes and the grammar alone agree ----------------------------------------------------------------------------------------


def assert_agreement(text: str, largest: int = 5000) -> None:
    seen: set[tuple[type[Node], str]] = set()
    for _, node in statements(parse(text)):
        key = (type(node), node.body_text)
        if key in seen or len(key[1]) > largest:
            continue
        seen.add(key)
        assert plain(rule_of(node), node.body_text, node.leading) == node


def test_the_grammar_alone_gives_equal_statements() -> None:
    assert_agreement(KERNEL)


@pytest.mark.parametrize("opcode", ["ld\n.weak.global.u32", "add // a\n.reg.u32", "add /**/ .entry.sat", "st /**/ .section::a.u32"])
def test_the_grammar_alone_takes_words_of_directives_before_other_modifiers(opcode: str) -> None:
    assert_agreement(f".entry k() {{ {opcode} %r1, %r2; }}")


def test_the_grammar_alone_gives_equal_statements_in_a_file(good_text: str) -> None:
    assert_agreement(good_text[:40_000])


@examples(200)
@given(st.integers(0, 1 << 32))
def test_the_grammar_alone_gives_equal_statements_in_a_mutated_kernel(seed: int) -> None:
    assert_agreement(mutated(KERNEL, random.Random(seed)))


@examples(500)
@given(st.lists(st.sampled_from([*WORDS, "1.5", "x", "0x1F", "%tid.x", ".shared::cta", "+-", "%", " ", "a-1", "0f3F800000"]), max_size=12))
def test_both_ways_to_cut_agree(words: list[str]) -> None:
    text = "".join(words)
    cut = shapes.cut(text)
    if cut is not None and not text.endswith((" ", "\n")):
        cutter = shapes.Cutter(text, 0)
        while cutter.kind != END:
            cutter.take()
        if "r" not in cutter.shape()[1::2]:
            assert cut == (cutter.shape(), cutter.slots)


# --- what else must hold for any tree ---------------------------------------------------------------------------------------------


def test_equal_texts_give_equal_trees() -> None:
    assert parse(KERNEL) == parse(KERNEL)
    assert parse(KERNEL) != parse(KERNEL.replace("%r2", "%r3"))


@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_line_ends_of_both_kinds(line_end: str) -> None:
    text = KERNEL.replace("\n", line_end)
    module = parse(text)
    assert module.text == text
    assert module.diagnostics == ()
    assert [type(node) for _, node in module.walk()] == [type(node) for _, node in parse(KERNEL).walk()]
