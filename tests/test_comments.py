"""Comments may stand wherever white space may, whatever they hold, and change nothing of what is read."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import ptxkit
from ptxkit import files
from ptxkit.analyses import lint
from ptxkit.syntax import nodes

SYNTAX = Path(__file__).parent.parent / "fixtures" / "syntax"
COMMENT = "/* - ! = , + [ .noreturn */"
GAP = re.compile(r'"[^"]*"|//[^\n]*|/\*.*?\*/|^\s*#[^\n]*|[ \t]+', re.S | re.M)


def commented(text: str) -> str:
    """The text with a comment in every gap within a line."""
    return GAP.sub(lambda gap: gap[0] + COMMENT + gap[0] if gap[0].isspace() else gap[0], text)


def findings(module: ptxkit.Module) -> list[tuple[str, str, str]]:
    return sorted([(found.rule, found.function or "", found.message) for found in lint(module)])


@pytest.mark.parametrize("path", sorted(SYNTAX.glob("*.ptx")), ids=lambda path: path.stem)
def test_they_change_no_finding(path: Path) -> None:
    text = files.read(str(path))

    assert findings(ptxkit.parse(commented(text))) == findings(ptxkit.parse(text))


def test_no_finding_in_a_text_full_of_them() -> None:
    module = ptxkit.parse(files.read(str(SYNTAX / "comments.ptx")))

    assert [found for found in lint(module) if found.severity is ptxkit.Severity.ERROR] == []


@pytest.mark.parametrize("modifiers", ["/*c*/.param.u32", " /*c*/ .param /*d*/ .u32", "//c\n.param // d\n.u32", ".param/*c*/.u32"])
def test_between_an_opcode_and_its_modifiers(modifiers: str) -> None:
    (load,) = ptxkit.parse(f".entry k(.param .u32 n) {{ ld{modifiers} r0, [n]; }}").kernels[0].instructions

    assert (load.opcode.mnemonic, load.opcode.modifiers) == ("ld", (".param", ".u32"))
    assert [operand.text for operand in load.operands] == ["r0", "[n]"]


def test_around_signs() -> None:
    text = ".entry k() { @ /*!*/ p ld.u32 r, [a /*-*/ + /*-*/ 4 /*,*/]; @/**/!/**/p ld.u32 r, [a/*+*/-/*+*/4]; }"
    one, other = ptxkit.parse(text).kernels[0].instructions
    assert one.guard is not None
    assert other.guard is not None
    addresses = [operand for load in (one, other) for operand in load.operands if isinstance(operand, nodes.Address)]

    assert [one.guard.negated, other.guard.negated] == [False, True]
    assert [(at.offset_sign, at.offset.text if at.offset else "") for at in addresses] == [(1, "4"), (-1, "4")]
    assert [len(at.parts) for at in addresses] == [1, 1]
