"""The braces of initializers, parsed element by element: tables have hundreds of thousands, too many for one shape (5.4.4)."""

from __future__ import annotations

import re

from ptxkit.memo import expression
from ptxkit.syntax import lexical, shapes
from ptxkit.syntax.nodes import Braces, Node, Numbers, shape
from ptxkit.syntax.shapes import Failure, build

_ELEMENT = (
    rf"(?:[^{{}},\"/()\s;=]++|\((?:[^(){{}},;\"/]++|\([^(){{}},;\"/]*+\)|{lexical.NOT})*+\)|[ \t]++(?![{{}},\s/;\"])|{lexical.NOT})++"
)
_ROW = r"\{[^{}\"/;]{0,200}+\}"


def _pieces(run: str) -> re.Pattern[str]:
    word = rf"(?:-?{lexical.NUMBER}|{lexical.NAME})(?=[ \t\r\n,}}])"
    return expression(rf"({lexical.TRIVIA}*+)(?:({run})|({_ROW})|([{{}},])|({word})|({_ELEMENT})|{lexical.NOT})?+", re.S)


_FIRST, _NEXT = _pieces(lexical.RUN), _pieces(lexical.NOT)
_RUN, _WHOLE_ROW, _MARK, _WORD, _TERM = 2, 3, 4, 5, 6


class Initializers(dict[str, Node]):
    """The elements and rows of a file's initializers by their text; each is parsed once."""

    def __init__(self, leaves: dict[str, Node]) -> None:
        super().__init__()
        self._leaves = leaves

    def braces(self, text: str, at: int) -> tuple[Braces, int] | None:
        """The braces that start here, and their end; None if something in them is unusual or invalid."""
        stack: list[tuple[list[str], list[Node]]] = []
        literals, children = ["{"], []  # type: list[str], list[Node]
        at += 1
        match = _FIRST.match(text, at)
        after_value = after_comma = False
        while match is not None:
            kind, token = match.lastindex or 1, match[match.lastindex or 1]
            leading, at = match[1], match.end()
            node: Node | None = None
            if kind == _MARK and token == "}":
                literals[-1] += leading + "}"
                node = Braces(shape(*literals), tuple(children))
                if not stack:
                    return node, at
                literals, children = stack.pop()
                leading = ""
            elif after_value != (kind == _MARK and token == ",") or kind == 1:
                return None
            elif after_value:
                literals[-1] += leading + ","
            elif kind == _WHOLE_ROW:
                node = self._row(token)
                if node is None:
                    kind, token, at = _MARK, "{", match.start(_WHOLE_ROW) + 1
            elif kind == _RUN:
                if after_comma:
                    return None
                node = Numbers(token)
            elif kind == _WORD:
                node = self._leaves[token]
            elif kind == _TERM:
                node = self._term(token)
                if node is None:
                    return None
            if node is not None:
                literals[-1] += leading
                children.append(node)
                literals.append("")
            elif token == "{":
                if len(stack) == shapes.MAX_DEPTH:
                    return None
                literals[-1] += leading
                stack.append((literals, children))
                literals, children = ["{"], []
            elif token != ",":
                return None
            after_value, after_comma = node is not None, token == ","
            match = (_FIRST if token == "{" else _NEXT).match(text, at)
        return None

    def _term(self, text: str) -> Node | None:
        known = self.get(text)
        if known is not None:
            return known
        return self._shaped("initializer", text)

    def _row(self, text: str) -> Node | None:
        return self.get(text) or self._shaped("braces", text)

    def _shaped(self, rule: str, text: str) -> Node | None:
        cut = shapes.cut(text) if len(text) < 1000 else None
        if cut is None:
            return None
        plan = shapes.plan(rule, cut[0])
        if plan is None or isinstance(plan, Failure):
            return None
        made = self[text] = build(plan, cut[1], self._leaves)
        return made
