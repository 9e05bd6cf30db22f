"""Signature help: the forms of the instruction whose operands are being typed. The statement is incomplete, so it is processed as text."""

from __future__ import annotations

import re

from ptxkit.frozen import frozen
from ptxkit.isa.explain import forms_with
from ptxkit.lsp.document import Document
from ptxkit.memo import expression

MOST = 12
_BEGUN = expression(r"\s*(?:[\w$]+:\s*)?(?:@!?\s*[%\w$]+\s+)?(?P<opcode>[a-z][\w.:]*)\s(?P<operands>.*)", re.DOTALL)


@frozen
class Signature:
    """A form as written, its summary, and the positions of its operands."""

    syntax: str
    summary: str
    operands: tuple[tuple[int, int], ...]


def signatures(document: Document, offset: int) -> tuple[tuple[Signature, ...], int] | None:
    """The forms that the opcode before an offset may have, and the index of the current operand; None outside operands."""
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
        # braces around a comma mark an optional operand; those of a vector start it
        inner = text.strip() if text.lstrip().startswith("{") else text.strip(" {}")
        at = head + start + text.index(inner) if inner else head + start
        found.append((at, at + len(inner)))
    return tuple(found)


def _cut(text: str) -> list[tuple[int, int]]:
    """The ranges between commas outside brackets."""
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
