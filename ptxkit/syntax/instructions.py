"""From the texts of instructions to their nodes.

The scanner cuts an instruction into what leads it, its head (the guard, the opcode and the white space around them) and its operands.
Files repeat heads and operands, so each is parsed once and its node shared, in all the trees that are made by a process.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

from ptxkit.memo import expression
from ptxkit.syntax import lexical, nodes, shapes
from ptxkit.syntax.lexical import NOT
from ptxkit.syntax.nodes import Guard, Instruction, Name, Node, Number, Opcode, shape
from ptxkit.syntax.shapes import Failure, Hopeless, build
from ptxkit.syntax.tree import setter

OPCODE = rf"[A-Za-z_][A-Za-z0-9_.]*+(?:::[A-Za-z0-9_.]++|{NOT})*+"
"""At least what an opcode may be."""
GUARD = r"@[A-Za-z0-9_$%!]++"
"""At least what a guard may be."""

_HEAD = expression(
    rf"""([ \t\r\n\f\v]*+)
    (?: (@!?) ((?:[A-Za-z]|[_$%][A-Za-z0-9_$])[A-Za-z0-9_$]*+) ([ \t]++) | {NOT})?+
    ([A-Za-z_][A-Za-z0-9_]*+(?:\.[A-Za-z0-9_]++{lexical.PARTS}|{NOT})*+)
    (.*+)""",
    re.S | re.X,
)

_PIECE = expression(
    rf"((?:[^,{{}}\[\]()\s]|\{{[^{{}}]*+\}}|\[[^\[\]]*+\]|\([^()]*+\)|\s++(?![,\s]|\Z)|{NOT})++)(\s*+,\s*+|\s*+\Z)", re.ASCII
)
"""An operand, and the comma behind it with the white space around it."""
_PIECES = expression(rf"(?:[^, {{}}\[\]()]++|\{{[^{{}}]*+\}}|\[[^\[\]]*+\]|\([^()]*+\)|{NOT})++")
"""The operands, if a comma and a blank separate them and no other blanks stand outside of brackets."""
_LEAF = expression(rf"(-?{lexical.NUMBER})|{lexical.NAME}")
_SIMPLE_ADDRESS = expression(rf"\[({lexical.NAME})(?:\+(-?[0-9]++)|{NOT})?+\]")
_FLAT_VECTOR = expression(rf"\{{([%$_0-9A-Za-z]++(?:, [%$_0-9A-Za-z]++|{NOT})*+)\}}")
_BARE_ADDRESS, _OFFSET_ADDRESS = shape("[", "]"), shape("[", "+", "]")
_SIGILS, _BRACKETS = frozenset("%_$"), frozenset("[{(")

MOST_REMEMBERED = 1 << 16
"""So many operands, and so many heads, are remembered when a text begins; if there are more, all are forgotten."""

# What attrs' frozen __init__ does, without its detour: two thirds of the time of parsing went there (benchmarks/parse.py).
_new = object.__new__
_set_text = setter(nodes.Leaf, "text")
_set_inner_shape, _set_inner_children = setter(nodes.Composite, "shape"), setter(nodes.Composite, "children")
_set_leading, _set_shape, _set_children = [setter(nodes.Statement, field) for field in ("leading", "shape", "children")]


class Irregular(Exception):
    """An instruction that is not in the layout that is known here."""


class Operands(dict[str, Node]):
    """Operands by their text. Raises Irregular for what is not an operand, or may be several."""

    def __missing__(self, text: str) -> Node:
        made: Node
        first = text[:1]
        if first in _SIGILS and text[1:].isidentifier() and text.isascii():
            made = _new(Name)
            _set_text(made, text)
        elif text.isdecimal() and text.isascii():
            made = _new(Number)
            _set_text(made, text)
        elif first == "[" and (address := _SIMPLE_ADDRESS.fullmatch(text)) is not None:
            base, offset = address[1], address[2]
            made = _new(nodes.Address)
            _set_inner_shape(made, _BARE_ADDRESS if offset is None else _OFFSET_ADDRESS)
            _set_inner_children(made, (self[base],) if offset is None else (self[base], self[offset]))
        elif first == "{" and (vector := _FLAT_VECTOR.fullmatch(text)) is not None:
            elements = tuple([self[element] for element in vector[1].split(", ")])
            made = _new(nodes.Vector)
            _set_inner_shape(made, shape("{", *[", "] * (len(elements) - 1), "}"))
            _set_inner_children(made, elements)
        elif (leaf := _LEAF.fullmatch(text)) is not None:
            made = Number(text) if leaf[1] is not None else Name(text)
        elif "," in text and first not in _BRACKETS:
            raise Irregular
        else:
            made = self._shaped(text)
        self[text] = made
        return made

    def _shaped(self, text: str) -> Node:
        if not text or text[0].isspace() or text[-1].isspace() or _hopeless(text):
            raise Irregular
        cut = shapes.cut(text)
        plan = shapes.plan("operand", cut[0]) if cut else None
        if cut is None or plan is None or isinstance(plan, Failure):
            raise Irregular
        return build(plan, cut[1], self)


def _hopeless(text: str) -> bool:
    """Whether a text is too long or too deep for the grammar, at a glance."""
    if len(text) < shapes.MAX_DEPTH:
        return False
    if len(text) > shapes.MAX_TOKENS:
        return True
    depth = 0
    for bracket in re.findall(r"[\[({\])}]", text):
        depth += 1 if bracket in "[({" else -1
        if depth > shapes.MAX_DEPTH:
            return True
    return False


class Forms(dict[int | tuple[str, ...], nodes.Shape]):
    """The shapes of instructions with one head, by what follows the operands (or their number, with a comma and a blank between them)."""

    def __init__(self, guard_gap: str | None, gap: str) -> None:
        super().__init__()
        self.before = [""] if guard_gap is None else ["", guard_gap]
        self.gap = gap

    def __missing__(self, tail_gaps: int | tuple[str, ...]) -> nodes.Shape:
        if isinstance(tail_gaps, int):
            after = [self.gap, *[", "] * (tail_gaps - 1)] if tail_gaps else []
            made = shape(*self.before, *after, ";")
        else:
            made = shape(*self.before, self.gap, *tail_gaps[:-1], tail_gaps[-1] + ";")
        self[tail_gaps] = made
        return made


class Heads(dict[str, tuple[str, tuple[Node, ...], Forms]]):
    """The parts of an instruction before its operands, by their text: white space, guard and opcode; and the shapes known so far.

    Raises Irregular for what is none.
    """

    def __init__(self) -> None:
        super().__init__()
        self.guards: dict[tuple[str, str], Guard] = {}
        self.opcodes: dict[str, Opcode] = {}
        self.leadings: dict[str, str] = {}
        self.forms: dict[tuple[str | None, str], Forms] = {}

    def __missing__(self, text: str) -> tuple[str, tuple[Node, ...], Forms]:
        m = _HEAD.fullmatch(text)
        if m is None:
            raise Irregular
        space, sign, name, guard_gap, opcode, gap = m.groups()
        if not (gap == "" or gap.isspace()):
            raise Irregular
        before: tuple[Node, ...] = (self.opcodes.get(opcode) or self.opcodes.setdefault(opcode, Opcode(opcode)),)
        if sign is not None:
            guard = self.guards.get((sign, name)) or self.guards.setdefault((sign, name), Guard(shape(sign, ""), (Name(name),)))
            before = (guard, *before)
        forms = self.forms.get((guard_gap, gap)) or self.forms.setdefault((guard_gap, gap), Forms(guard_gap, gap))
        made = self[text] = (self.leadings.setdefault(space, space), before, forms)
        return made


class Remembered:
    """The operands and heads that were met."""

    def __init__(self) -> None:
        self.operands = Operands()
        self.heads = Heads()


_remembered = Remembered()


def remembered() -> Remembered:
    """The operands and heads that were met in this process, unless they are too many to be kept."""
    global _remembered
    if len(_remembered.operands) > MOST_REMEMBERED or len(_remembered.heads) > MOST_REMEMBERED:
        _remembered = Remembered()
    return _remembered


def build_instructions(statements: Iterable[Any], known: Remembered, irregular: Callable[[str, str], Iterable[Any]]) -> tuple[Node, ...]:
    """Statements with a node in place of each instruction that is still texts: comments, head, operands, and more that does not matter.

    `irregular` gives the statements of an instruction that is not as simple as it looked, of what leads it and the text of the rest.
    """
    heads, operand, share = known.heads, known.operands.__getitem__, known.heads.leadings.setdefault
    made: list[Node] = []
    add = made.append
    waiting = [iter(statements)]
    while waiting:
        for statement in waiting[-1]:
            if type(statement) is not tuple:
                add(statement)
                continue
            comments, head, arguments, _, _, _, _ = statement
            tail_gaps: int | tuple[str, ...]
            try:
                leading, before, forms = heads[head]
                if "{" in arguments or "(" in arguments:
                    pieces, tail_gaps = _split(arguments)
                else:
                    pieces = arguments.split(", ") if arguments else []
                    tail_gaps = len(pieces)
                try:
                    children = (*before, *map(operand, pieces))
                except Irregular:
                    pieces, tail_gaps = _split(arguments)
                    children = (*before, *map(operand, pieces))
                form = forms[tail_gaps]
            except (Irregular, Hopeless):
                body = head.lstrip(" \t\r\n\f\v")
                waiting.append(iter(irregular(comments + head[: len(head) - len(body)], f"{body}{arguments};")))
                break
            if comments:
                leading = share(comments + leading, comments + leading)
            instruction = _new(Instruction)
            _set_leading(instruction, leading)
            _set_shape(instruction, form)
            _set_children(instruction, children)
            add(instruction)
        else:
            waiting.pop()
    return tuple(made)


def _split(arguments: str) -> tuple[list[str], int | tuple[str, ...]]:
    """The operands of an instruction and their number, or what follows each. Raises Irregular if it is not as simple as that."""
    pieces = _PIECES.findall(arguments)
    if ", ".join(pieces) == arguments:
        return pieces, len(pieces)
    found = _PIECE.findall(arguments)
    pieces, gaps = [piece for piece, _ in found], tuple([gap for _, gap in found])
    if not pieces or sum(map(len, pieces)) + sum(map(len, gaps)) != len(arguments) or "," in gaps[-1]:
        raise Irregular
    return pieces, gaps
