"""Statements are taken apart a piece of text at a time, and built when a block ends: neither shows in the tree."""

from __future__ import annotations

import pytest

from ptxkit.syntax import Block, Module, instructions, nodes, parse, parse_operand
from ptxkit.syntax.parsing import _CHUNK

BODY = """.version 8.7
.target sm_90a
.address_size 64
.visible .entry k()
{
\t.reg .b32 %r<9>;
LBB0_1: // again
\tld.global.v2.u32 {%r1, %r2}, [%rd1+-8];
@!%p1 bra LBB0_1;
\t{ .reg .f32 f; add.rn.f32 f, 0f3F800000, 1.5; }
\tadd.u32 %r1,%r2 , 1;
\t.loc 1 3 5
\tmov.u32 %r1, %r2 mov.u32 %r2, %r1;
}
"""


def statements(module: Module) -> list[tuple[str, str]]:
    return [(type(node).__name__, node.body_text) for _, node in module.walk() if isinstance(node, nodes.Statement | nodes.Error)]


def body(text: str) -> Block:
    found = parse(text).kernels[0].body
    assert found is not None
    return found


@pytest.mark.parametrize("place", range(0, len(BODY), 7))
def test_statements_do_not_depend_on_where_the_text_is_divided(place: int) -> None:
    before = "//" + "x" * (_CHUNK - place - 3) + "\n"
    module = parse(before + BODY)
    assert module.text == before + BODY
    assert statements(module) == statements(parse(BODY))


@pytest.mark.parametrize("name", ["a" * 3 * _CHUNK, "a"])
def test_a_statement_longer_than_a_piece_of_text_is_one(name: str) -> None:
    block = body(f".entry k() {{ mov.u32 {name}, {', '.join(['b'] * _CHUNK)}; ret; }}")
    assert [type(child) for child in block.children] == [nodes.Instruction, nodes.Instruction]


def test_braces_of_a_broken_instruction_do_not_end_the_block() -> None:
    text = ".entry k() {\n\tmov.b64 {%r1 %r2@}, %rd1;\n\tret;\n}\n"
    module = parse(text)
    assert module.text == text
    assert [type(child) for child in module.children] == [nodes.Function]
    block = module.kernels[0].body
    assert block is not None
    assert block.close == "\n}"
    assert type(block.children[-1]) is nodes.Instruction


def test_operands_are_shared_until_they_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    assert parse_operand("%r77") is parse_operand("%r77")
    first = parse_operand("%r77")
    monkeypatch.setattr(instructions, "MOST_REMEMBERED", 0)
    assert parse_operand("%r77") is not first
    assert parse_operand("%r77") == first
