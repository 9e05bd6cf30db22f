"""`// ptxkit: ignore[…]`: what it covers, and that unused ones are reported."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sampling import examples

import ptxkit
from ptxkit.analyses.framework.linting import lint
from ptxkit.analyses.framework.rule import select

HEADER = ".version 8.5\n.target sm_90a\n.address_size 64\n"
RULES = select(["E010", "X001"])


def found(body: str, header: str = HEADER) -> list[tuple[str, str]]:
    """Rule and name (or words) of each finding."""
    diagnostics = lint(ptxkit.parse(header + body), RULES)
    return [(one.rule, one.message.split("`")[1] if "`" in one.message else one.message) for one in diagnostics]


def kernel(*lines: str) -> str:
    return ".entry k()\n{\n.reg .b32 a;\n" + "\n".join(lines) + "\nret;\n}\n"


def test_on_its_line() -> None:
    assert found(kernel("mov.b32 a, u; // ptxkit: ignore[E010] why", "mov.b32 a, v;")) == [("E010", "v")]
    assert found(kernel("mov.b32 a, u; mov.b32 a, v; /* ptxkit: ignore[E010] */", "mov.b32 a, w;")) == [("E010", "w")]
    assert found(kernel("mov.b32 a,", "u; // ptxkit: ignore[E010]")) == []


def test_before_its_statement() -> None:
    assert found(kernel("// ptxkit: ignore[undeclared-register] why", "mov.b32 a, u;", "mov.b32 a, v;")) == [("E010", "v")]
    assert found(kernel("// ptxkit: ignore[E010]", "L: .loc 1 1 1", "mov.b32 a, u;")) == []


def test_on_a_block() -> None:
    block = ["mov.b32 a, u;", "mov.b32 a, v; }", "mov.b32 a, w;"]

    assert found(kernel("{ // ptxkit: ignore[E]", *block)) == [("E010", "w")]
    assert found(kernel("// ptxkit: ignore[E]", "{", *block)) == [("E010", "w")]


def test_on_a_function() -> None:
    first, second = kernel("mov.b32 a, u;"), kernel("mov.b32 a, v;").replace("k()", "j()")

    assert found("// ptxkit: ignore[ALL]\n" + first + second) == [("E010", "v")]
    assert found(first.replace("{", "{ // ptxkit: ignore[ALL]") + second) == [("E010", "v")]
    assert found(first.replace(".entry k()", ".entry k() // ptxkit: ignore[ALL]") + second) == [("E010", "v")]


def test_in_inline_assembly() -> None:
    inside = ["// begin inline asm", "// ptxkit: ignore[E010] known", "mov.b32 a, u;", "mov.b32 a, v;", "// end inline asm"]

    assert found(kernel(*inside, "mov.b32 a, w;")) == [("E010", "w")]


def test_several_rules() -> None:
    assert found(kernel("mov.b32 a, u; // ptxkit: ignore[E001, E010]")) == []


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("ret; // ptxkit: ignore[E010] why", "nothing is found here by E010"),
        ("ret; // ptxkit: ignore[E999]", "no rule is called `E999`"),
        ("ret; // ptxkit: ignore", "a comment to ptxkit reads `// ptxkit: ignore[RULES] reason`"),
        ("ret; // ptxkit: ignroe[E010]", "a comment to ptxkit reads `// ptxkit: ignore[RULES] reason`"),
    ],
)
def test_what_does_nothing_is_reported(line: str, message: str) -> None:
    (one,) = lint(ptxkit.parse(HEADER + kernel(line)), RULES)

    assert (one.rule, one.message) == ("X001", message)
    assert one.span.line == 7


def test_of_a_rule_that_was_not_applied_nothing_is_said() -> None:
    assert found(kernel("ret; // ptxkit: ignore[C001]")) == []
    assert lint(ptxkit.parse(HEADER + kernel("ret; // ptxkit: ignore[E010]")), select(["E010"])) == ()


def test_can_be_left_aside() -> None:
    module = ptxkit.parse(HEADER + kernel("mov.b32 a, u; // ptxkit: ignore[E010]"))

    assert [one.rule for one in lint(module, RULES, ignores=False)] == ["E010"]


PIECES = ["{", "}", ";", "\n", " ", "// ptxkit: ignore[E010] x\n", "/* ptxkit: ignore[E] */", "ret;", "L:", ".func f ", "("]


@examples(200)
@given(st.lists(st.sampled_from(PIECES)))
def test_any_text(pieces: list[str]) -> None:
    text = "".join(pieces)
    for one in lint(ptxkit.parse(text), RULES):
        assert 0 <= one.span.start <= one.span.end <= len(text)
