"""Edits give new trees that share what did not change."""

from __future__ import annotations

import random

import pytest

from ptxkit.syntax import Module, Node, Path, nodes, parse, parse_operand, parse_statement

TEXT = """.version 8.0
.target sm_80
.address_size 64
.global .b8 t[8] = {1, 2,  3, 4, 5, 6, 7, 8};
.visible .entry k()
{
	.reg .b32 %r<4>;
	@%p1 add.s32	%r1,  %r2, %r3; // sum
	{
	}
	ret;
}
.func f() {}
"""


def paths(module: Module, kind: type[Node]) -> list[Path]:
    return [path for path, node in module.walk() if type(node) is kind]


@pytest.fixture
def module() -> Module:
    return parse(TEXT)


@pytest.fixture
def add(module: Module) -> Path:
    return paths(module, nodes.Instruction)[0]


def instruction(module: Module, path: Path) -> nodes.Instruction:
    found = module.at(path)
    assert isinstance(found, nodes.Instruction)
    return found


def test_an_opcode_is_exchanged_and_the_layout_stays(module: Module, add: Path) -> None:
    edited = module.replace(add, instruction(module, add).with_opcode("sub.s32"))
    assert edited.text == TEXT.replace("add.s32", "sub.s32")
    with pytest.raises(ValueError, match="not an opcode"):
        instruction(module, add).with_opcode("sub .s32;")


def test_operands_are_exchanged_and_the_layout_stays(module: Module, add: Path) -> None:
    node = instruction(module, add)
    assert node.with_operand(2, parse_operand("-5")).text == node.text.replace("%r3", "-5")
    assert node.with_operand(-1, parse_operand("[a+4]")).text == node.text.replace("%r3", "[a+4]")
    assert node.with_operand(0, parse_operand("{a, b}")).guard is node.guard
    with pytest.raises(ValueError, match="not an operand"):
        parse_operand("a, b")
    with pytest.raises(IndexError):
        node.with_operand(3, parse_operand("a"))


def test_what_leads_a_statement_is_exchanged(module: Module, add: Path) -> None:
    node = instruction(module, add)
    assert node.with_leading(" /* c */\n").text == " /* c */\n" + node.body_text
    with pytest.raises(ValueError, match="not white space"):
        node.with_leading("ret;")


def test_a_number_of_a_run_is_exchanged(module: Module) -> None:
    (path,) = paths(module, nodes.Numbers)
    run = module.at(path)
    assert isinstance(run, nodes.Numbers)
    assert module.replace(path, run.with_element(2, "0x33")).text == TEXT.replace("  3,", "  0x33,")
    with pytest.raises(ValueError):
        run.with_element(0, "x")
    with pytest.raises(IndexError):
        run.with_element(8, "1")


def test_untouched_nodes_are_shared(module: Module, add: Path) -> None:
    edited = module.replace(add, instruction(module, add).with_operand(0, parse_operand("%r0")))
    on_the_way = {add[:length] for length in range(len(add) + 1)}
    changed = {path for path, node in module.walk() if path[: len(add)] != add and edited.at(path) is not node}
    assert changed == on_the_way - {add}
    assert all(a is b for a, b in zip(instruction(module, add).children[3:], instruction(edited, add).children[3:], strict=True))


def test_statements_are_inserted_and_removed(module: Module, add: Path) -> None:
    new = parse_statement("\n\tmov.u32 %r2, 1;")
    assert module.insert_before(add, new).text == TEXT.replace("\n\t@%p1", "\n\tmov.u32 %r2, 1;\n\t@%p1")
    assert module.insert_after(add, new, new).text == TEXT.replace("%r3;", "%r3;" + 2 * "\n\tmov.u32 %r2, 1;")
    assert module.remove(add).text == TEXT.replace("\n\t@%p1 add.s32	%r1,  %r2, %r3;", "")
    assert module.insert_after(add, new).remove((*add[:-1], add[-1] + 1)) == module


def test_empty_blocks_are_filled(module: Module) -> None:
    body, inner, empty = paths(module, nodes.Block)
    new = parse_statement(" ret;")
    assert module.append(empty, new).text == TEXT.replace("f() {}", "f() { ret;}")
    assert module.append(inner, new).text == TEXT.replace("\t{\n\t}", "\t{ ret;\n\t}")
    assert module.append(body, new).text == TEXT.replace("\tret;\n", "\tret; ret;\n")
    assert module.append((), new).text == TEXT.rstrip("\n") + " ret;\n"


def test_functions_are_inserted_and_removed(module: Module) -> None:
    (first, second) = paths(module, nodes.Function)
    assert "k()" not in module.remove(first).text
    doubled = module.insert_before(first, module.at(second))
    assert [f.name for f in doubled.functions] == ["f", "k", "f"]
    assert parse(doubled.text) == doubled


def test_many_edits_in_one_walk(module: Module, add: Path) -> None:
    new = parse_statement("\n\texit;")
    _, second = paths(module, nodes.Function)
    edits: dict[Path, list[Node]] = {(*add, 2): [nodes.Name("%r9")], (*add[:-1], add[-1] + 2): [new, new], second: []}
    expected = TEXT.replace("%r1,", "%r9,").replace("\n\tret;", "\n\texit;\n\texit;").replace("\n.func f() {}", "")
    assert module.edit(edits).text == expected
    assert module.edit({}) == module
    assert all(a is b for a, b in zip(module.edit(edits).children, module.children[:-1], strict=True) if type(a) is not nodes.Function)


def test_many_edits_are_the_same_as_one_after_another() -> None:
    module = parse("".join([f"add.s32 a{i}, b{i}, c{i};\n" for i in range(300)]))
    lot = random.Random(5)
    chosen = lot.sample(range(300), 100)
    edits: dict[Path, list[Node]] = {(i, lot.randint(1, 3)): [nodes.Name(f"x{i}")] for i in chosen}
    one_by_one = module
    for path, new in edits.items():
        one_by_one = one_by_one.replace(path, *new)
    assert module.edit(edits) == one_by_one


def test_edits_that_make_no_sense(module: Module, add: Path) -> None:
    new = nodes.Name("x")
    with pytest.raises(IndexError):
        module.replace((99,), new)
    with pytest.raises(IndexError):
        module.edit({(99,): [new]})
    with pytest.raises(ValueError, match="another edit"):
        module.edit({add: [], (*add, 1): [new]})
    with pytest.raises(ValueError, match="whole tree"):
        module.edit({(): [new]})
    with pytest.raises(ValueError, match="exactly as many"):
        module.remove((*add, 1))


def test_trees_cannot_be_changed(module: Module) -> None:
    with pytest.raises(AttributeError):
        module.trailing = ""  # type: ignore[misc]
    with pytest.raises(AttributeError):
        module.children[0].leading = ""  # type: ignore[attr-defined]


def test_nodes_show_themselves_shortly(module: Module, add: Path) -> None:
    for _, node in module.walk():
        assert len(repr(node)) < 130
    assert repr(module) == "<Module of 6 statements>"
    assert repr(module.function("k")) == "<Function k>"
    assert repr(instruction(module, add).opcode) == "<Opcode 'add.s32'>"


def test_a_dump_shows_a_subtree(module: Module, add: Path) -> None:
    assert instruction(module, add).dump().splitlines() == [
        "Instruction",
        "  Guard",
        "    Name '%p1'",
        "  Opcode 'add.s32'",
        "  Name '%r1'",
        "  Name '%r2'",
        "  Name '%r3'",
    ]
    assert module.dump(depth=1).count("\n") == len(module.children)


def test_finding(module: Module) -> None:
    assert [n.text for n in module.find(nodes.Opcode)] == ["add.s32", "ret"]
    assert module.function("f") is module.functions[1]
    with pytest.raises(KeyError):
        module.function("g")
