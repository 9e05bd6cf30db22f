"""Instructions of a block are texts until they are looked at."""

from __future__ import annotations

import pickle
from pathlib import Path

import attrs
import pytest

import ptxkit
from ptxkit.syntax import Block, Code, Component, Error, Instruction, Module, Number, code_of, parse

ROOT = Path(__file__).parent.parent.parent
FILES = sorted((ROOT / "fixtures" / "kernels").rglob("*.ptx"))[::12]


def body(module: Module) -> Block:
    found = module.kernels[0].body
    assert found is not None
    return found


def kernel(*lines: str) -> Module:
    return parse(".version 8.5\n.target sm_90\n.entry k() {\n" + "\n".join(lines) + "\n}\n")


def is_made(block: Block) -> bool:
    assert isinstance(block.deferred, Code)
    return block.deferred._children is not None


def test_check_of_a_correct_kernel_makes_no_nodes_of_its_instructions() -> None:
    module = kernel(".reg .b32 %r<3>;", "mov.u32 %r1, 1;", "L: add.u32 %r2, %r1, %r1;", "bra L;")
    assert not ptxkit.check(module)
    assert not is_made(body(module))
    assert [child.text.strip() for child in body(module).children][1:] == ["mov.u32 %r1, 1;", "L:", "add.u32 %r2, %r1, %r1;", "bra L;"]
    assert is_made(body(module))


def test_nodes_are_made_once() -> None:
    block = body(kernel("ret;"))
    assert block.children is block.children
    assert block.children[0] is attrs.evolve(block, close="\n\n}").children[0]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_block_made_of_nodes_has_the_same_patterns_and_names(path: Path) -> None:
    block = body(parse(path.read_text(encoding="utf-8")))
    again = Block(block.leading, block.children, block.close)
    assert again == block and hash(again) == hash(block)
    assert again.others == block.others
    assert all(any(piece in leading for leading in again.leadings) for piece in block.leadings)
    assert code_of(again).texts == code_of(block).texts
    numbers = {name for name in code_of(block).names() if name[0].isdecimal()}
    assert code_of(again).names() == code_of(block).names() - numbers
    assert pickle.loads(pickle.dumps(block)) == block


def test_digits_that_decide_what_an_operand_is_are_looked_at() -> None:
    module = kernel("mov.b32 a, 0b10;", "mov.b32 a, 0b12;", "vadd.u32.u32.u32 a, a.b3, b.b1;", "mov.b32 a, a.b7;", "ret;")
    kinds = [type(child) for child in body(module).children]
    assert kinds.count(Error) == len(module.diagnostics) > 0
    instructions = [child for child in body(module).children if type(child) is Instruction]
    assert type(instructions[0].operands[1]) is Number
    assert type(next(one for one in instructions if one.opcode.mnemonic == "vadd").operands[1]) is Component


def test_instructions_by_the_texts_of_their_patterns() -> None:
    code = code_of(body(kernel("ld.u32 a, [b+4];", "ret;", "@p ld.u32 a, [b+8];", "ld.u32 a, [b+8];")))

    assert code.firsts() == {"ld.u32 a [b+0]": 0, "ret": 1, "@p ld.u32 a [b+0]": 2}
    assert code.numbers({"ld.u32 a [b+0]", "ret"}) == [0, 1, 3]
    assert code.numbers({"bra"}) == []
    assert code.examples([]) == code.indices([]) == []


def test_instructions_of_one_pattern_have_their_own_operands_and_comments() -> None:
    block = body(kernel("add.s32 %r1, %r2, -3; // one", "/* two */ add.s32 %r10, %r20, -30;", "add.s32 %r1, %r2, -%r3;"))
    code = code_of(block)
    assert code.texts[0] == code.texts[1] != code.texts[2]
    assert [one.text for one in code.examples([1, 0])] == ["\nadd.s32 %r10, %r20, -30;".replace("\n", " "), "\nadd.s32 %r1, %r2, -3;"]
    assert "// one" in block.children[1].text and "/* two */" in block.children[1].text
    assert code.indices([0, 2]) == [0, 2]
