"""Broken text: one diagnostic a mistake, in the right place, in words that help."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest

from ptxkit.diagnostics import Diagnostic
from ptxkit.syntax import parse

REJECT = Path(__file__).resolve().parents[3] / "shared" / "conformance" / "reject"


def found(body: str) -> list[tuple[str, str, str]]:
    """Rule, place in the body, and message of each error of a kernel with this body."""
    text = f".version 9.0\n.target sm_90\n.entry k()\n{{\n{body}\n}}\n"
    module = parse(text)
    assert module.text == text
    return [(d.rule, f"{d.span.line - 4}:{d.span.column}", d.message) for d in module.diagnostics]


@pytest.mark.parametrize(
    "body, rule, place, message",
    [
        ("add.u32 a, b\nret;", "E002", "1:13", "missing `;`"),
        ("add.u32 a, b // c\nret;", "E002", "1:13", "missing `;`"),
        ("add.u32 a, b ret.uni;", "E002", "1:13", "missing `;`"),
        ("ret", "E002", "1:4", "missing `;`"),
        ("ret\nmov.u32 a, b;", "E002", "1:4", "missing `;`"),
        ("ret\nbra L;", "E002", "1:4", "missing `;`"),
        ("add.u32 a, b\n@p ret;", "E002", "1:13", "missing `;`"),
        ("add.u32 a, b\n.reg .u32 c;", "E002", "1:13", "missing `;`"),
        (".reg .u32 a\nret;", "E002", "1:12", "missing `;`"),
        (".reg .u32 a\n.reg .u32 b;", "E002", "1:12", "missing `;`"),
        (".reg .u32 %r<4>\n.reg .u32 b;", "E002", "1:16", "missing `;`"),
        (".shared .u32 x[4]\nret;", "E002", "1:18", "missing `;`"),
        ('.pragma "x"\nret;', "E002", "1:12", "missing `;`"),
        ("call (r), f, (a)\nret;", "E002", "1:17", "missing `;`"),
        ("add.u32 a, b c;", "E001", "1:14", "expected `,` or `;` before `c`"),
        ("st.u32 [a] {b, c};", "E001", "1:12", "expected `,` or `;` before `{`"),
        ("add.u32 a, 5%3;", "E001", "1:13", "expected `,` or `;` before `%3`"),
        (".reg .u32 a b;", "E001", "1:13", "expected `,` or `;` before `b`"),
        ("mov.u32 a, ;", "E001", "1:12", "an operand is missing before `;`"),
        ("mov.u32 a,, b;", "E001", "1:11", "an operand is missing before `,`"),
        ("mov.u32 a, `;", "E001", "1:12", "syntax error at ```"),
        ("mov.u32 a, 0x1g;", "E001", "1:12", "malformed number `0x1g`"),
        ("mov.f32 a, 0f3F8;", "E001", "1:12", "malformed number `0f3F8`"),
        ("ld.u32 a, [b;\nret;", "E003", "1:11", "`[` is never closed"),
        ("call (r), f, (a;\nret;", "E003", "1:14", "`(` is never closed"),
        ("call (r), f, (a\nret;", "E003", "1:14", "`(` is never closed"),
        ("ld.u32 a, b];", "E003", "1:12", "`]` closes nothing"),
        ('.pragma "abc;\nret;', "E005", "1:9", "string that is never closed"),
        ("ret;\n/* foo", "E005", "2:1", "comment that is never closed"),
        ("mov.u32 a, /* foo", "E005", "1:12", "comment that is never closed"),
        ("ret;;", "E001", "1:5", "`;` with no statement before it"),
        (".reg x;", "E001", "1:1", "a declaration without a type"),
        ("@ ret;", "E001", "1:1", "syntax error at `@`"),
        ("\0", "E001", "1:1", "syntax error at character '\\x00'"),
        ("{\nret;", "E003", "0:1", "`{` is never closed"),
        ("}\nret;", "E003", "3:1", "`}` closes nothing"),
        (".loc 1 2;", "E001", "1:9", "syntax error at `;`"),
    ],
)
def test_a_mistake(body: str, rule: str, place: str, message: str) -> None:
    assert found(body) == [(rule, place, message)]


def diagnostics(text: str) -> tuple[Diagnostic, ...]:
    module = parse(text)
    assert module.text == text
    return module.diagnostics


def test_each_mistake_is_told() -> None:
    assert [place for _, place, _ in found("add.u32 a, b\nmov.u32 a, ;\nret;\nld.u32 a, [b;\nret;")] == ["1:13", "2:12", "4:11"]


def test_what_follows_a_mistake_is_parsed() -> None:
    module = parse(".entry k() {\nadd.u32 a, b c;\nmov.u32 a, 1;\n}\n.entry j() { ret; }\n")
    assert [[i.opcode.text for i in f.instructions] for f in module.functions] == [["mov.u32"], ["ret"]]


def test_a_brace_that_is_missing_before_a_function() -> None:
    text = ".entry k()\n{\n{\nret;\n}\n.visible .entry j()\n{\nret;\n}\n"
    (diagnostic,) = diagnostics(text)
    assert (diagnostic.rule, diagnostic.span.line, diagnostic.function) == ("E003", 2, "k")
    assert [f.name for f in parse(text).functions] == ["k", "j"]


def test_a_brace_too_many() -> None:
    (diagnostic,) = diagnostics(".entry k() {\nret;\n}\n}\n.entry j() { ret; }\n")
    assert (diagnostic.rule, diagnostic.span.line) == ("E003", 4)
    assert [(r.span.line, r.message) for r in diagnostic.related] == [(3, "`k` ends here")]


def test_instructions_outside_of_functions_are_told_once() -> None:
    (diagnostic,) = diagnostics(".entry k() { ret; }\nmov.u32 a, b;\nmov.u32 c, d;\n")
    assert (diagnostic.rule, diagnostic.span.line, diagnostic.message) == ("E001", 2, "an instruction outside of any function")
    assert [r.message for r in diagnostic.related] == ["`k` ends here"]


def test_a_function_without_body() -> None:
    (diagnostic,) = diagnostics(".version 9.0\n.entry k(.param .u32 p)\n")
    assert (diagnostic.rule, diagnostic.span.line, diagnostic.span.column) == ("E001", 2, 24)


def test_a_version_without_a_minor_number() -> None:
    (diagnostic,) = diagnostics(".version 9\n")
    assert diagnostic.rule == "E001" and diagnostic.span.line == 1


def test_too_deep_and_too_long() -> None:
    assert "nested deeper" in found("mov.u32 a, " + "(" * 100 + ";")[0][2]
    assert "nested deeper" in found("{" * 200)[-1][2]
    assert "nested too deep" in found("mov.u32 a, " + "-" * 2000 + "1;")[0][2]
    assert "tokens" in found("call f, (" + "a, " * 60_000 + "a);")[0][2]


def fatal_rows() -> list[dict[str, str]]:
    table = REJECT.with_suffix(".tsv")
    if not table.exists():
        return []
    with table.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    return [row for row in rows if row["class"] == "syntax" and "Parsing error" in row["first_error"]]


@pytest.mark.skipif(not fatal_rows(), reason="without the reference material")
def test_what_an_assembler_cannot_parse() -> None:
    """Nearly all that ptxas finds no syntax in, on its line or the one before (where the semicolon is missing)."""
    near = missed = 0
    for row in fatal_rows():
        match = re.match(r"line (\d+)", row["first_error"])
        assert match is not None
        text = (REJECT / row["file"]).read_bytes().decode("utf-8", "surrogateescape")
        told = [d.span.line - int(match[1]) for d in parse(text).diagnostics]
        near += bool(told) and -2 <= told[0] <= 1
        missed += not told
    assert near >= 0.95 * len(fatal_rows())
    assert missed <= 0.05 * len(fatal_rows())
