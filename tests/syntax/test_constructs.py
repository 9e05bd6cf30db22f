"""Every construct of the language parses, prints, and is reachable as a typed node."""

from __future__ import annotations

from typing import Any

import pytest

from ptxkit.syntax import constant_value, nodes, parse, parse_operand, parse_statement

HEAD = ".version 8.7\n.target sm_90a\n.address_size 64\n"


def only(text: str) -> Any:
    """The one statement of a text, which prints back."""
    statement = parse_statement(text)
    assert statement.text == text
    return statement


def in_body(text: str) -> tuple[Any, ...]:
    """The statements of a kernel with this body, which has no errors."""
    module = parse(f"{HEAD}.entry k()\n{{{text}}}\n")
    assert module.diagnostics == ()
    body = module.function("k").body
    assert body is not None
    return body.children


def operand(text: str) -> Any:
    found = parse_operand(text)
    assert found.text == text
    return found


# --- the module's head ------------------------------------------------------------------------------------------------------------


def test_head() -> None:
    module = parse("// c\n.version 8.7\n.target sm_90a, debug, texmode_independent\n.address_size 64\n")
    assert module.diagnostics == ()
    assert (module.version, module.targets, module.address_size) == ((8, 7), ("sm_90a", "debug", "texmode_independent"), 64)
    version, target, size = module.children
    assert isinstance(version, nodes.Version) and version.number == (8, 7)
    assert isinstance(target, nodes.Target) and target.words == module.targets
    assert isinstance(size, nodes.AddressSize) and size.bits == 64
    assert version.leading == "// c\n"


def test_head_of_an_old_file() -> None:
    module = parse('\t.version 1.4\n\t.target sm_10, map_f64_to_f32\n\t.file\t1\t"<command-line>"\n.tex .u64 t;\n.global .texref u;\n')
    assert module.diagnostics == ()
    assert (module.version, module.address_size) == ((1, 4), 32)
    assert [(d.space, d.type) for d in module.declarations] == [(".tex", ".u64"), (".global", ".texref")]


# --- functions --------------------------------------------------------------------------------------------------------------------


def test_entry() -> None:
    function = only(
        ".visible .entry k(\n\t.param .u64 .ptr .global .align 16 p,\n\t.param .align 8 .b8 q[16]\n)\n"
        '.maxntid 128, 1, 1\n.minnctapersm 2\n.pragma "nounroll";\n.explicitcluster\n.reqnctapercluster 2, 1, 1\n{ ret; }'
    )
    assert isinstance(function, nodes.Function)
    assert (function.name, function.is_entry, function.header.linkage) == ("k", True, ".visible")
    p, q = function.header.parameters
    assert (p.name, p.space, p.type) == ("p", ".param", ".u64")
    assert p.pointer is not None and (p.pointer.space, p.pointer.align) == (".global", 16)
    assert (q.name, q.type, q.align, q.pointer) == ("q", ".b8", 8, None)
    assert [constant_value(d.size) for d in q.declarator.dimensions if d.size is not None] == [16]
    names = [directive.name for directive in function.header.directives]
    assert names == [".maxntid", ".minnctapersm", ".pragma", ".explicitcluster", ".reqnctapercluster"]
    assert [a.text for a in function.header.directives[0].arguments] == ["128", "1", "1"]
    assert [i.opcode.text for i in function.instructions] == ["ret"]


@pytest.mark.parametrize(
    "directive",
    [".maxnreg 32", ".reqntid 8", ".maxclusterrank 8", ".blocksareclusters", ".abi_preserve 4", ".abi_preserve_control 2", ".noreturn"],
)
def test_performance_directives(directive: str) -> None:
    function = only(f".func f()\n{directive}\n{{ ret; }}")
    assert [d.text for d in function.header.directives] == [directive]
    assert function.header.is_noreturn == (directive == ".noreturn")


def test_function_with_result_and_attribute() -> None:
    function = only(".weak .func .attribute(.unified(1, 2)) .noreturn (.reg .u32 r) f (.reg .u32 a, .param .f32 b) { ret; }")
    header = function.header
    assert ([p.name for p in header.returns], [p.name for p in header.parameters]) == (["r"], ["a", "b"])
    assert [(a.name, [n.text for n in a.arguments]) for a in header.attributes] == [(".unified", ["1", "2"])]
    assert header.is_noreturn and not header.is_entry


def test_function_that_is_only_declared() -> None:
    module = parse(".extern .func (.param .b32 r) f\n(\n.param .b64 a\n)\n;\n.func g;\n.func h() { ret; }\n")
    assert module.diagnostics == ()
    assert [(f.name, f.body is None) for f in module.functions] == [("f", True), ("g", True), ("h", False)]


def test_function_that_is_declared_without_a_semicolon() -> None:
    """As NVIDIA's first compilers write it, and ptxas reads it; a kernel needs a body."""
    module = parse(".func (.param .b32 r) f (.param .b32 a)\n\n.func g // no more\n.global .u32 x;\n.func h() { ret; }\n.func g")

    assert [(f.name, f.body is None) for f in module.functions] == [("f", True), ("g", True), ("h", False), ("g", True)]
    assert not module.diagnostics
    assert [one.rule for one in parse(".entry k()\n.entry j() { ret; }").diagnostics] == ["E001"]
    assert [f.name for f in module.kernels] == []


def test_alias() -> None:
    alias = only(".alias f, g;")
    assert isinstance(alias, nodes.Alias)
    assert (alias.name.text, alias.aliased.text) == ("f", "g")


# --- declarations -----------------------------------------------------------------------------------------------------------------


def test_registers() -> None:
    (declaration,) = in_body(".reg .v2 .f32 %r<100>, a, %p<2>;")
    assert (declaration.space, declaration.type, declaration.vector) == (".reg", ".f32", 2)
    assert [(d.name.text, d.count) for d in declaration.declarators] == [("%r", 100), ("a", None), ("%p", 2)]


@pytest.mark.parametrize("space", ["global", "const", "shared", "local", "param", "tex", "shared::cta", "shared::cluster"])
def test_spaces(space: str) -> None:
    declaration = only(f".{space} .align 8 .b8 x[4][2+1];")
    assert (declaration.space, declaration.align, declaration.type) == (f".{space}", 8, ".b8")
    assert [constant_value(d.size) for d in declaration.declarators[0].dimensions] == [4, 3]


def test_unsized_array_and_linkage() -> None:
    declaration = only(".extern .shared .align 16 .b8 smem[];")
    assert declaration.linkage == ".extern"
    assert [d.size for d in declaration.declarators[0].dimensions] == [None]


def test_attributes() -> None:
    declaration = only(".visible .global .attribute(.managed, .unified(19, 95)) .f32 f;")
    assert [a.name for a in declaration.attributes] == [".managed", ".unified"]


@pytest.mark.parametrize(
    "text",
    [
        "1",
        "-1",
        "0x1F",
        "017",
        "0b101U",
        "42U",
        "0f3F800000",
        "0dBFF0000000000000",
        "1.5e-3",
        "x",
        "x+4",
        "generic(x)",
        "generic(x)+4",
        "{1, 2}",
        "{ {1, 2}, {3} }",
        "{x, y+8, generic(z)}",
        "{0xFF(f), 0xFF00(f), 0xff0000(f+4)}",
        "{}",
        "{1, 2, }",
        '"s"',
        "(1<<3)|2",
        "{1,2,3,4,5,6,7,8}",
        "{{1,2,3,4,5,6,7,8},{1,2,3,4,5,6,7,8}}",
        "{1,2,3,4,5,6,7,x}",
        "{/* c */ 1, // d\n 2}",
        "1 ? 2 : 3",
    ],
)
def test_initialisers(text: str) -> None:
    declaration = only(f".global .align 4 .u32 a[] = {text};")
    initializer = declaration.declarators[0].initializer
    assert initializer is not None and initializer.text == text
    if text.startswith("{"):
        assert isinstance(initializer, nodes.Braces)


def test_initialiser_nodes() -> None:
    table = only(".global .u64 a[] = {f, g+8, generic(h), 0xFF00(i), {1, 2}};").declarators[0].initializer
    f, g, h, i, row = table.elements
    assert isinstance(f, nodes.Name)
    assert isinstance(g, nodes.Expression) and ([t.text for t in g.terms], g.operators) == (["g", "8"], ("+",))
    assert isinstance(h, nodes.Apply) and (h.function.text, [a.text for a in h.arguments]) == ("generic", ["h"])
    assert isinstance(i, nodes.Apply) and i.function.text == "0xFF00"
    assert [n.value for n in row.elements] == [1, 2]


def test_a_long_run_of_numbers_is_one_leaf() -> None:
    table = only(".global .u8 a[9] = {1, -2, 0x3, 4U, 5, 6, 7, 8, 9};").declarators[0].initializer
    assert isinstance(table.children[0], nodes.Numbers)
    assert [n.value for n in table.elements] == [1, -2, 3, 4, 5, 6, 7, 8, 9]


# --- statements of a body ---------------------------------------------------------------------------------------------------------


def test_labels_scopes_and_guards() -> None:
    label, block, guarded, negated = in_body("\n$L_1: { .reg .u32 a; { ret; } }\n@p bra $L_1;\n@!%p2 exit;\n")
    assert isinstance(label, nodes.Label) and label.name.text == "$L_1"
    assert isinstance(block, nodes.Block) and [type(s).__name__ for s in block.statements] == ["Declaration", "Block"]
    assert guarded.guard.predicate.text == "p" and not guarded.guard.negated
    assert negated.guard.predicate.text == "%p2" and negated.guard.negated
    assert negated.operands == () and negated.opcode.text == "exit"


def test_instructions_are_in_document_order() -> None:
    function = only(".func f() { a; { b; { c; } d; } {} e; }")
    assert [i.opcode.text for i in function.instructions] == ["a", "b", "c", "d", "e"]
    assert [(path, s.text.strip()) for path, s in function.statements() if isinstance(s, nodes.Instruction)][2] == ((1, 1, 1, 0), "c;")


def test_modifiers_are_a_bag() -> None:
    one, other = in_body("ld.global.relaxed.gpu.u32 a, [b]; ld.u32.gpu.global.relaxed a, [b];")
    assert one.opcode.mnemonic == other.opcode.mnemonic == "ld"
    assert set(one.opcode.modifiers) == set(other.opcode.modifiers)
    assert other.opcode.has(".relaxed", ".gpu") and not other.opcode.has(".acquire")
    (spaced,) = in_body("mov .u32 a, 1;")
    assert (spaced.opcode.mnemonic, spaced.opcode.modifiers) == ("mov", (".u32",))
    (colons,) = in_body("st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [a], b, [c];")
    assert colons.opcode.modifiers[1:3] == (".shared::cluster", ".mbarrier::complete_tx::bytes")


@pytest.mark.parametrize(
    "text",
    [
        "add .u32 %r1, 2, 3;",
        "add\n .u32 %r1, 2, 3;",
        "add /* a.b */ .u32 %r1, 2, 3;",
        "add // a.b\n\t.u32\n%r1, 2, 3;",
        "add.u32\n%r1, 2, 3;",
    ],
)
def test_white_space_in_an_opcode(text: str) -> None:
    """ptxas takes it before each modifier."""
    (instruction,) = in_body(text)

    assert (instruction.opcode.mnemonic, instruction.opcode.modifiers) == ("add", (".u32",))
    assert len(instruction.operands) == 3
    assert instruction.text == text


def test_a_word_of_a_directive_is_no_modifier() -> None:
    module = parse(f"{HEAD}.entry k()\n{{ ret\n.reg .b32 r; }}\n")

    assert [found.rule for found in module.diagnostics] == ["E002"]


def test_a_space_on_another_line_is_a_modifier() -> None:
    (instruction,) = in_body("ld\n.param .u32 %r1, [a];")

    assert instruction.opcode.modifiers == (".param", ".u32")


def test_functions_declared_in_a_body() -> None:
    (declared, *_) = in_body("\n.extern .func (.param .b32 r) f (.param .b32 a);\n{ .extern .func g; }\nret;\n")

    assert isinstance(declared, nodes.Function)
    assert declared.name == "f" and declared.body is None


def test_alignment_before_the_space() -> None:
    found = only(".visible .align 16 .global .b8 x[4];")

    assert (found.space, found.align, found.type) == (".global", 16, ".b8")
    assert (only(".align 8 .shared .b64 x;").space, in_body(".align 4 .reg .b32 r;")[0].space) == (".shared", ".reg")


@pytest.mark.parametrize(("count", "number"), [("4", 4), ("0x10", 16), ("4U", 4), ("WARP_SZ", 32), ("n", None)])
def test_counts_of_registers(count: str, number: int | None) -> None:
    assert only(f".reg .b32 %r<{count}>;").declarators[0].count == number


@pytest.mark.parametrize("text", ['.file 1 "a\nb"', '.file 1 "a\\"', '.file 1 "\n\n\r\n"'])
def test_strings_are_as_long_as_the_quotes_say(text: str) -> None:
    """Over ends of lines, and with backslashes like any other character."""
    found = only(text)

    assert found.name == text[9:-1]
    assert parse(f"{HEAD}{text}\n.entry k()\n{{ ret; }}\n").diagnostics == ()


def test_a_string_that_is_never_closed() -> None:
    many = "\n" * 101
    for text in ('.file 1 "a\n.entry k() { ret; }\n', f'.file 1 "a{many}"\n'):
        assert "E005" in [found.rule for found in parse(HEAD + text).diagnostics]


def test_calls() -> None:
    (call,) = in_body("call.uni (r0),\n f, // comment\n (a, 5, _), proto;")
    results, name, arguments, prototype = call.operands
    assert isinstance(results, nodes.Group) and [e.text for e in arguments.elements] == ["a", "5", "_"]
    assert (name.text, prototype.text) == ("f", "proto")


def test_branch_and_call_targets_and_prototypes() -> None:
    _, targets, _, calls, _, prototype = in_body(
        "t: .branchtargets a, b; u: .calltargets f; v: .callprototype (.param .b32 _) _ (.param .b32 _, .param .b64 _);"
    )
    assert targets.are_labels and [n.text for n in targets.names] == ["a", "b"]
    assert not calls.are_labels
    assert isinstance(prototype, nodes.Prototype)
    assert (len(prototype.returns), len(prototype.parameters), prototype.name.text) == (1, 2, "_")


def test_pragma_in_a_body() -> None:
    (pragma,) = in_body('.pragma "nounroll", "x";')
    assert isinstance(pragma, nodes.Pragma) and pragma.strings == ("nounroll", "x")


# --- debugging directives ---------------------------------------------------------------------------------------------------------


def test_loc() -> None:
    plain, inlined = in_body("\n.loc 1 2 3\n.loc\t1 43 13, function_name $L__info_string0 + 4, inlined_at 2 95 20\n")
    assert (plain.file, plain.line, plain.column, plain.function_name, plain.inlined_at) == (1, 2, 3, None, None)
    assert (inlined.line, inlined.function_name, inlined.inlined_at) == (43, "$L__info_string0", (2, 95, 20))


def test_file_with_a_time_and_no_size() -> None:
    found = only('.file 1 "a.cu", 5')

    assert (found.timestamp, found.size) == (5, None)


def test_file() -> None:
    plain, timed = parse('.file 1 "a b.cu"\n.file 2 "b.cu", 1300000000, 42\n').children
    assert isinstance(plain, nodes.File) and isinstance(timed, nodes.File)
    assert (plain.index, plain.name, plain.timestamp, plain.size) == (1, "a b.cu", None, None)
    assert (timed.index, timed.name, timed.timestamp, timed.size) == (2, "b.cu", 1300000000, 42)


def test_section() -> None:
    section = only(
        ".section .debug_info\n{\n.b32 123, -1\n.b64 $L__begin, .debug_abbrev\n.b32 a+4\n.b32 e-b;\n$L__x:\n.b8 1,2,3,4,5,6,7,8,9;\n}"
    )
    assert isinstance(section, nodes.Section) and section.name == ".debug_info"
    assert section.body is not None
    numbers, names, plus, minus, label, run = section.body.children
    assert isinstance(numbers, nodes.Data) and (numbers.type, [e.text for e in numbers.elements]) == (".b32", ["123", "-1"])
    assert isinstance(names, nodes.Data) and [e.text for e in names.elements] == ["$L__begin", ".debug_abbrev"]
    (datum,) = plus.elements  # type: ignore[attr-defined]
    assert (datum.base.text, datum.offset.text, datum.sign) == ("a", "4", 1)
    assert minus.elements[0].sign == -1  # type: ignore[attr-defined]
    assert isinstance(label, nodes.Label)
    assert isinstance(run, nodes.Data) and len(run.elements) == 9


@pytest.mark.parametrize("line", ['# 1 "a.cu"', "#line 4", "@@DWARF .byte 0x2", "#"])
def test_lines_that_are_kept(line: str) -> None:
    module = parse(f"{line}\nret")
    assert isinstance(module.children[0], nodes.Line) and module.children[0].text == line


# --- operands ---------------------------------------------------------------------------------------------------------------------


def test_names_and_numbers() -> None:
    for text in ("%r1", "$L", "_", "_a", "a$b", "WARP_SZ", "%clock64", "%SP"):
        assert isinstance(operand(text), nodes.Name)
    for text, value in (("12", 12), ("-12", -12), ("0x1F", 31), ("0X1fU", 31), ("017", 15), ("0b11", 3), ("1.5", 1.5), ("-.5e1", -5.0)):
        assert isinstance(operand(text), nodes.Number)
        assert operand(text).value == value
    assert operand("0f3F800000").value == 1.0
    assert operand("0dC000000000000000").value == -2.0


@pytest.mark.parametrize("text, base, selector", [("%tid.x", "%tid", ".x"), ("v.w", "v", ".w"), ("a.b0", "a", ".b0"), ("a.h1", "a", ".h1")])
def test_components(text: str, base: str, selector: str) -> None:
    found = operand(text)
    assert isinstance(found, nodes.Component) and (found.base.text, found.selector) == (base, selector)


@pytest.mark.parametrize(
    "text, base, number",
    [("a[0]", "a", 0), ("tile[ 3 ]", "tile", 3), ("a[N - 1]", "a", None), ("a[1+2]", "a", 3), ("a[%r1 + 2]", "a", None)],
)
def test_elements_of_arrays(text: str, base: str, number: int | None) -> None:
    found = operand(text)
    assert isinstance(found, nodes.Element) and (found.base.text, constant_value(found.number)) == (base, number)


def test_vectors_pairs_and_negations() -> None:
    assert [e.text for e in operand("{a, _, 0, b.x}").elements] == ["a", "_", "0", "b.x"]
    assert [e.text for e in operand("p|q").destinations] == ["p", "q"]
    assert [e.text for e in operand("{a,b} | p").destinations] == ["{a,b}", "p"]
    negated = operand("!p")
    assert isinstance(negated, nodes.Unary) and (negated.operator, negated.operand.text) == ("!", "p")


@pytest.mark.parametrize(
    "text, base, offset, sign",
    [
        ("[a]", "a", None, 1),
        ("[a+4]", "a", "4", 1),
        ("[a+-4]", "a", "-4", 1),
        ("[a-4]", "a", "4", -1),
        ("[sym + r]", "sym", "r", 1),
        ("[ %r1 ]", "%r1", None, 1),
        ("[16]", "16", None, 1),
        ("[0x10+4]", "0x10", "4", 1),
    ],
)
def test_addresses(text: str, base: str, offset: str | None, sign: int) -> None:
    found = operand(text)
    assert isinstance(found, nodes.Address)
    assert (found.base.text, found.offset.text if found.offset else None, found.offset_sign) == (base, offset, sign)
    assert len(found.parts) == 1


def test_addresses_of_several_parts() -> None:
    found = operand("[map, {x, y}, [bar+8]]")
    assert [p.text for p in found.parts] == ["map", "{x, y}", "[bar+8]"]
    assert [p.text for p in operand("[map+64, {x}]").parts] == ["map", "{x}"]
    assert [p.text for p in operand("[a].unified").parts] == ["a"]


@pytest.mark.parametrize(
    "text, value",
    [
        ("1+2*3", 7),
        ("(1+2)*3", 9),
        ("1<<4|1", 17),
        ("-7/2", -3),
        ("-7 % 3", -1),
        ("~0", -1),
        ("!5", 0),
        ("2 > 1", 1),
        ("1 ? 2 : 3", 2),
        ("0 ? 2 : 0 ? 4 : 5", 5),
        ("WARP_SZ*2", 64),
        ("(.s64) 0xFFFFFFFFFFFFFFFF", -1),
        ("6 & 3 ^ 1", 3),
        ("1 && 0 || 1", 1),
        ("3 == 3 != 0", 1),
        ("1/0", None),
        ("a+1", None),
        ("8 >> 2", 2),
        ("1 <= 1", 1),
        ("1.5+1", 2.5),
    ],
)
def test_constant_expressions(text: str, value: float | None) -> None:
    assert constant_value(operand(text)) == value


def test_conditionals_and_casts() -> None:
    found = operand("a ? b : c")
    assert isinstance(found, nodes.Conditional)
    assert (found.condition.text, found.then.text, found.otherwise.text) == ("a", "b", "c")
    cast = operand("(.u64) x")
    assert isinstance(cast, nodes.Cast) and (cast.type, cast.operand.text) == (".u64", "x")


# --- text -------------------------------------------------------------------------------------------------------------------------


def test_comments_anywhere() -> None:
    text = "/*a*/ add /*b*/ . /*not here*/"
    assert parse(text).text == text
    (instruction,) = in_body("/*a*/ @ /*b*/ p // c\n add.u32 /*d*/ a /*e*/ , /*f*/ b, [ /*g*/ c /*h*/ + 4 ] /*i*/ ;")
    assert instruction.leading == "/*a*/ " and [o.text[:1] for o in instruction.operands] == ["a", "b", "["]


def test_text_beyond_ascii() -> None:
    text = '// größe \u4e2d\n.file 1 "é\udcff.cu"\n'
    module = parse(text)
    assert module.diagnostics == () and module.text == text
    assert module.text.encode("utf-8", "surrogateescape").endswith(b'\xff.cu"\n')


def test_unknown_words_still_parse() -> None:
    (instruction,) = in_body("frobnicate.async.v9 a, [b];")
    assert instruction.opcode.mnemonic == "frobnicate"
    module = parse(".nonsense 1, x;\n.version 8.0\n")
    assert isinstance(module.children[0], nodes.Unknown) and module.children[0].word == ".nonsense"
    assert [(d.rule, d.severity) for d in module.diagnostics] == [("E004", "warning")]


def test_parse_statement_refuses_what_is_not_one() -> None:
    for text in ("", "ret; ret;", "add.u32 a b;", "}"):
        with pytest.raises(ValueError, match="not one statement"):
            parse_statement(text)
    for text in ("", "a b", "a,b", " a", "[", "((" * 200):
        with pytest.raises(ValueError, match="not an operand"):
            parse_operand(text)
