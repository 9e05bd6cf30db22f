"""The keys that one example of each pattern gives are those of every instruction by itself."""

from __future__ import annotations

import pathlib
import random
from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ptxkit
from ptxkit.names import Kind, Names, Use, names_in, resolve
from ptxkit.operands import Shaper, is_predefined
from ptxkit.scopes import Symbol
from ptxkit.syntax import Container, Instruction, Module, Node, Path, parse

ROOT = pathlib.Path(__file__).parent.parent
FILES = sorted((ROOT / "fixtures").rglob("*.ptx"))


def equal(module: Module) -> Names:
    """Asserts that keys, symbols and missing names are those of a look at every operand, and gives the names."""
    names = resolve(module)
    used: set[Symbol] = set()
    missing = set()
    for scope, blocks in names.in_scope.items():
        sketch = names.sketch(scope)
        shaper = Shaper(scope, names.shaper(scope).keys)
        instructions = [one for laid in blocks for one in laid.instructions]
        keys = [shaper.instruction(one) for one in instructions]
        assert sketch.keys == keys
        assert [sketch.key(at, pattern) for at, pattern in enumerate(sketch.patterns)] == keys
        mentioned = {name.text for one in instructions for _, name in names_in(one)}
        used |= {symbol for name in mentioned if (symbol := scope.lookup(name)) is not None}
        missing |= {(scope.path, name) for name in mentioned if scope.lookup(name) is None and not is_predefined(name)}
    assert names.used.issuperset(used)
    families = [one for scope in names.in_scope for family in scope.ranges.values() for one in family]
    symbols = [*families, *[one for scope in names.in_scope for one in scope.symbols.values()]]
    assert not [one for one in symbols if one.kind is Kind.REGISTER and names.is_used(one) and one not in used]
    by_instructions = [use for use in names.unresolved if use.scope in names.in_scope and type(_statement(module, use.path)) is Instruction]
    assert _named(by_instructions) <= missing <= _named(names.unresolved)
    return names


def _named(uses: Iterable[Use]) -> set[tuple[Path, str]]:
    return {(use.scope.path, use.name) for use in uses}


def _statement(module: Module, path: Path) -> Node:
    node: Node = module
    for step in path:
        node = node.children[step]
        if not isinstance(node, Container):
            break
    return node


@pytest.mark.parametrize("path", FILES[:: max(1, len(FILES) // 60)], ids=lambda path: path.stem)
def test_keys_of_kernels_and_of_edited_ones(path: pathlib.Path) -> None:
    text = path.read_text(encoding="utf-8")
    equal(parse(text))
    lines = text.splitlines(keepends=True)
    choose = random.Random(path.name)
    for _ in range(3):
        edited = list(lines)
        for _ in range(8):
            here, there = choose.randrange(len(lines)), choose.randrange(len(lines))
            edited[here] = lines[there] if choose.random() < 0.5 else edited[here].replace("%r", "%rd", 1)
        equal(parse("".join(edited)))


DECLARATIONS = (
    ".reg .b32 %r<4>;",
    ".reg .b32 %r<12>;",
    ".reg .f32 %r2;",
    ".reg .b64 %r01;",
    ".reg .b64 %r1<3>;",
    ".reg .pred p1;",
    ".reg .b32 p2;",
    ".reg .b32 p3;",
    ".reg .v2 .f32 v1;",
    ".shared .b32 a1[4];",
    ".shared .b32 a2;",
    "L1:",
)
OPERANDS = (
    *[f"%r{number}" for number in ("0", "1", "2", "3", "01", "11", "12", "007", "1000000000", "")],
    *("p1", "p2", "p3", "v1", "v1.x", "a1", "a2", "a1[1]", "a1[p2]", "a1[1/0]", "L1", "k", "_", "WARP_SZ", "int", "q7"),
    *("%clock", "%clock64", "%tid.x", "%envreg1", "%envreg2", "5", "-5", "0f3F800000", "1.0", "(5)", "(p2)", "()", "-p2", "!p1"),
    *("[%r1]", "[%r1+4]", "[%r11+8]", "[a1+p2]", "{%r1, %r2}", "{%r0, p3}", "p1|p2", "p1|_", "(%r1, p2)", "4+WARP_SZ", "(4*p3)"),
)
guards = st.sampled_from(("", "", "@p1 ", "@!p1 ", "@p2 ", "@%r1 ", "@q "))
instructions = st.builds(
    lambda guard, opcode, operands: f"{guard}{opcode} {', '.join(operands)};",
    guards,
    st.sampled_from(("add.s32", "mov.b32", "call", "bra")),
    st.lists(st.sampled_from(OPERANDS), min_size=1, max_size=3),
)
blocks = st.recursive(
    st.lists(st.one_of(st.sampled_from(DECLARATIONS), instructions, instructions), max_size=8),
    lambda inner: st.lists(st.one_of(instructions, inner.map(lambda lines: "{ " + "\n".join(lines) + " }")), max_size=6),
    max_leaves=6,
)


@given(st.lists(blocks, min_size=1, max_size=3), st.integers(1, 3))
@settings(max_examples=150)
def test_keys_of_any_declarations(parts: list[list[str]], times: int) -> None:
    # equal blocks one after the other are templates for each other
    body = "\n".join(["{ " + "\n".join(lines) + " }" for lines in parts * times] + parts[0])
    outer = ("", ".reg .b32 %r<20>;", ".reg .b32 %r<20>, p2; .reg .pred q7;")
    kernels = [f".entry k{i}() {{ {declared}\n{body}\n}}\n" for i, declared in enumerate(outer)]
    equal(parse(".version 8.5\n.target sm_90\n" + "".join(kernels)))


def test_an_example_stands_for_all_of_its_pattern() -> None:
    names = equal(parse(".entry k() { .reg .b32 %r<9>; mov.u32 %r1, 4; mov.u32 %r2, 8; { .reg .pred p; @p mov.u32 %r3, 1; } ret; }"))
    assert [len(names.sketch(scope).examples) for scope in names.in_scope] == [2, 1]


def test_a_name_beyond_its_declaration_is_missing_though_its_pattern_is_declared() -> None:
    names = equal(parse(".entry k() { .reg .b32 %r<3>; mov.u32 %r1, %r2; mov.u32 %r1, %r3; }"))
    assert [use.name for use in names.unresolved] == ["%r3"]


def test_names_of_one_stem_that_are_declared_differently_are_told_apart() -> None:
    body = ".reg .b64 %r<3>; ld.param.u64 %r1, [k_0]; ld.param.u64 %r1, [k_1];"
    names = equal(parse(f".entry k(.param .u32 k_0, .param .u64 k_1) {{ {body} }}"))
    (sketch,) = [names.sketch(scope) for scope in names.in_scope]
    assert len(set(sketch.keys)) == 2 and sketch.mixed


def test_pieces_of_several_kernels_share_their_examples_for_any_count_of_registers() -> None:
    body = "{{ .reg .pred p; ld.param.u64 %r1, [k_0]; ld.param.u64 %r{}, [k_1]; @p call f, (%r1); }}"
    parameters = ".param .u32 k_0, .param .u64 k_1"
    kernels = [f".entry k{n}({parameters}) {{ .reg .b64 %r<{n}>; {body.format(n - 1)} }}\n" for n in (3, 9, 30)]
    names = equal(parse(".func f(.param .b64 x) { ret; }\n" + "".join(kernels)))
    inner = {names.sketch(scope) for scope in names.in_scope if len(scope.path) > 2}
    assert len(inner) == 1 and inner.pop().mixed


def test_equal_pieces_of_code_share_their_examples() -> None:
    block = "{ .reg .pred P1; setp.ne.b32 P1, %r1, 0; @P1 bra L; }\n"
    other = block.replace(".pred", ".b32")
    names = equal(parse(f".entry k() {{ .reg .b32 %r<3>;\n{block}{other}{block.replace('%r1', '%r2')}L: ret; }}"))
    first, second, third = [names.sketch(scope) for scope in sorted(names.in_scope, key=lambda scope: scope.path)][1:]
    assert first is third is not second


CALL = "{{ {more} .param {align} .b8 a[8]; call f, (a); }}"
PROTOTYPE = "{{ p: .callprototype _ (.param .b{bits} x); .param .b32 a; call %rd1, (a), p; }}"


@pytest.mark.parametrize(
    ("blocks", "lines"),
    [
        ([CALL.format(more="", align=align) for align in (".align 8", ".align 4", ".align 8")], [7]),
        ([PROTOTYPE.format(bits=bits) for bits in (32, 64, 32, 64)], [7, 9]),
        (["{ .reg .pred q; @q bra L; }", "{ .reg .b32 q; @q bra L; }", "{ .reg .pred q; @q bra L; }"], [7]),
        (["{ .reg .b32 q; mov.b32 q, %r1; }", "{ mov.b32 q, %r1; .reg .b32 q; }"], [7]),
        (["{ .reg .b32 q; shf.l.wrap.b32 q, %r1, %r1, 1; }", "{ .reg .b64 q; shf.l.wrap.b32 q, %r1, %r1, 1; }"], [7]),
    ],
)
def test_an_error_in_one_of_several_pieces_of_code_that_look_alike_is_found(blocks: list[str], lines: list[int]) -> None:
    head = """.version 8.0
.target sm_80
.address_size 64
.func f (.param .align 8 .b8 x[8]) { ret; }
.entry k() { .reg .b32 %r<3>; .reg .b64 %rd<3>;"""
    assert [found.span.line for found in ptxkit.check("\n".join([head, *blocks, "L: ret; }"]))] == lines
