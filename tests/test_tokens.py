"""Tokens and colours."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pygments import highlight
from pygments.formatters import HtmlFormatter
from sampling import examples

import ptxkit
from ptxkit import files
from ptxkit.highlighting import TYPES, PtxDarkStyle, PtxLexer, PtxStyle
from ptxkit.tokens import Kind, tokens

FIXTURES = sorted((Path(__file__).resolve().parents[1] / "fixtures").rglob("*.ptx"))
SAMPLE = random.Random(4).sample([path for path in FIXTURES if path.stat().st_size < 50_000], 40)
TEXT = """.extern .func g(.param .b32 x);
.global .u32 v;
.entry k() { .reg .pred %p; // why
L: @%p ld.global.u32 %r1, [v+4]; mov.u32 %r1, %tid.x; bra L; call g, (1); what; }
"""


@pytest.mark.parametrize("path", SAMPLE, ids=lambda path: path.name)
def test_tokens_are_the_text(path: Path) -> None:
    text = files.read(str(path))
    at = 0
    for token in tokens(ptxkit.parse(text)):
        assert token.start == at
        assert token.text
        at += len(token.text)
    assert "".join(token.text for token in tokens(ptxkit.parse(text))) == text


@examples(200)
@given(st.text(alphabet='{};,.[]()@!/*"%ab1 \n\tld$'))
def test_tokens_of_any_text(text: str) -> None:
    assert "".join(token.text for token in tokens(ptxkit.parse(text))) == text


def test_kinds() -> None:
    kinds = {token.text: token.kind for token in tokens(ptxkit.parse(TEXT))}

    assert kinds["g"] is Kind.FUNCTION
    assert kinds["v"] is kinds["x"] is Kind.VARIABLE
    assert kinds["// why"] is Kind.COMMENT
    assert kinds["%p"] is kinds["%r1"] is Kind.REGISTER
    assert kinds["L"] is Kind.LABEL
    assert kinds["ld"] is kinds["bra"] is Kind.OPCODE
    assert kinds[".global"] is Kind.MODIFIER
    assert kinds[".u32"] is Kind.TYPE
    assert kinds["%tid.x"] is Kind.SPECIAL
    assert kinds[".reg"] is Kind.DIRECTIVE
    assert kinds["4"] is Kind.NUMBER


def test_one_operand_means_something_else_in_another_scope() -> None:
    text = ".func f() { .reg .b32 x; mov.b32 x, 1; ret; }\n.func g() { .local .b32 x; mov.b32 x, 1; ret; }"

    assert [token.kind for token in tokens(ptxkit.parse(text)) if token.text == "x"] == [Kind.REGISTER] * 2 + [Kind.VARIABLE] * 2


def test_what_is_no_ptx() -> None:
    assert [token.text for token in tokens(ptxkit.parse("add.u32 a b; ret;")) if token.kind is Kind.ERROR] == ["add.u32 a b;"]


def test_every_kind_has_a_colour() -> None:
    assert set(TYPES) == set(Kind)


@pytest.mark.parametrize("style", [PtxStyle, PtxDarkStyle])
def test_a_listing(style: type[PtxStyle]) -> None:
    html = highlight(TEXT, PtxLexer(), HtmlFormatter(style=style))

    assert '<span class="nb">%tid.x</span>' in html
    assert '<span class="nl">L</span>' in html
