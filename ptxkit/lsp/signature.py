"""The forms of the instruction whose operands are being typed. The statement is not whole yet, so it is read as text."""

from __future__ import annotations

import re

import attrs

from ptxkit.isa.explain import forms_with
from ptxkit.lsp.document import Document

MOST = 12
_BEGUN = re.compile(r"\s*(?:[\w$]+:\s*)?(?:@!?\s*[%\w$]+\s+)?(?P<opcode>[a-z][\w.:]*)\s(?P<operands>.*)", re.DOTALL)


@attrs.frozen
class Signature:
    """A form as it is written, what it does, and where its operands stand in it."""

    syntax: str
    summary: str
    operands: tuple[tuple[int, int], ...]


def signatures(document: Document, offset: int) -> tuple[tuple[Signature, ...], int] | None:
    """The forms that the opcode before an offset may have, and the number of the operand there; None outside of operands."""
    start = document.line_starts[document.line_at(offset)]
    begun = _BEGUN.fullmatch(document.text[start:offset].rpartition(";")[2])
    if begun is None or "//" in begun["operands"]:
        return None
    forms = forms_with(begun["opcode"])
    if not forms:
        return None
    at = len(_cut(begun["operands"])) - 1
    found = [Signature(form.syntax, form.summary, _operands(form.syntax)) for form in forms]
    fitting = [one for one in found if len(one.operands) > at]
    return tuple((fitting or found)[:MOST]), at


def _operands(syntax: str) -> tuple[tuple[int, int], ...]:
    head = syntax.find(" ") + 1
    if not head:
        return ()
    found = []
    for start, end in _cut(syntax[head:]):
        text = syntax[head + start : head + end]
        # braces around a comma say that an operand may be left out; those of a vector come first
        inner = text.strip() if text.lstrip().startswith("{") else text.strip(" {}")
        at = head + start + text.index(inner) if inner else head + start
        found.append((at, at + len(inner)))
    return tuple(found)


def _cut(text: str) -> list[tuple[int, int]]:
    """The stretches between commas that stand in no brackets."""
    found, depth, start = [], 0, 0
    for at, letter in enumerate(text):
        following = text[at + 1 : at + 2]
        if letter in "[(" or (letter == "{" and following != ","):
            depth += 1
        elif letter in "])}" and depth:
            depth -= 1
        elif letter == "," and not depth:
            found.append((start, at))
            start = at + 1
    return [*found, (start, len(text))]
