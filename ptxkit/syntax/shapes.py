"""Parse each shape once.

PTX is repetitive: a file of 50,000 instructions has a few hundred shapes. A text is cut into tokens; names, numbers and strings are the
*slots*, everything else is the shape. The grammar parses the shape with stand-ins in its slots, and the answer becomes a plan that
builds the node of any text of that shape. So the grammar stays the only definition of the syntax, and is asked seldom.
"""

from __future__ import annotations

import bisect
import functools
import re
from typing import Any

import attrs

from ptxkit.syntax import nodes
from ptxkit.syntax.grammar import grammar
from ptxkit.syntax.lowering import lower
from ptxkit.syntax.nodes import Node, Shape

TRIVIA = r"(?:[ \t\r\n\f\v]++|//[^\n]*+|/\*[^*]*+\*++(?:[^/*][^*]*+\*++)*+/)"
NUMBER = r"(?:0[xX][0-9a-fA-F]++U?|0[fFdD][0-9a-fA-F]++|0[bB][01]++U?|(?:[0-9]++\.?[0-9]*+|\.[0-9]++)(?:[eE][-+]?[0-9]++)?U?)(?![A-Za-z0-9_$])"
NAME = r"(?:[A-Za-z][A-Za-z0-9_$]*+|[_$%][A-Za-z0-9_$]++|_)"
_ENTRY = r"-?(?:0[xX][0-9a-fA-F]++U?|0[fFdD][0-9a-fA-F]++|[0-9]++(?:\.[0-9]*+)?(?:[eE][-+]?[0-9]++)?U?)"

TOKEN = re.compile(
    rf"""(?P<trivia>{TRIVIA}++)
    |(?P<run>{_ENTRY}(?:[ \t\r\n]*+,[ \t\r\n]*+{_ENTRY}){{7,}}+(?=\s*+[}};]))
    |(?P<string>"(?:[^"\\\n]|\\.)*+")
    |(?P<number>{NUMBER})
    |(?P<name>{NAME})
    |(?P<keyword>\.[A-Za-z_][A-Za-z0-9_]*+(?:::[A-Za-z0-9_]++)*+)
    |(?P<other>.)""",
    re.S | re.X,
)

RESERVED = frozenset({"function_name", "inlined_at"})
"""Names that the grammar knows as words of its own."""

SLOT_KIND = {"name": "n", "number": "d", "string": "s", "run": "r"}
"""The kinds of tokens that are slots, with their letters in a shape."""

STAND_IN = {"n": "a", "d": "1", "s": '""', "r": "1,1,1,1,1,1,1,1"}

Slots = list[str]
Key = tuple[str, ...]
"""A shape: the literal pieces, with a piece of one letter (the kind of the slot) between each two."""


class Cutter:
    """Cuts a text into tokens, one at a time, and remembers the shape and the slots so far.

    White space and comments only become part of the shape when a token follows them.
    """

    __slots__ = ("_after_value", "_literal", "_match", "_trivia", "at", "end", "key", "slots", "text")

    def __init__(self, text: str, at: int) -> None:
        self.text = text
        self.at = at
        """Where the next token is looked for."""
        self.end = at
        """Where the last token that was taken ends."""
        self.key: list[str] = []
        self.slots: Slots = []
        self._literal = ""
        self._trivia = ""
        self._after_value = False
        self._match = TOKEN.match

    def literal(self, text: str, is_value: bool = False) -> None:
        """Takes this text, which stands at the current position, as part of the shape."""
        self._literal += self._trivia + text
        self._trivia = ""
        self.at = self.end = self.at + len(text)
        self._after_value = is_value

    def next(self) -> tuple[str, str]:
        """The kind and text of the next token, which is not taken yet; kind is empty at the end of the text."""
        match = self._match(self.text, self.at)
        if match is not None and match.lastgroup == "trivia":
            self._trivia += match[0]
            self.at = match.end()
            match = self._match(self.text, self.at)
        if match is None:
            return "", ""
        kind: str = match.lastgroup or ""
        token = match[0]
        if self._after_value:
            if token[0] == "-" and kind == "run":
                return "other", "-"  # in `a-1,2,…` the sign is an operator
        elif token == "-":
            number = self._match(self.text, self.at + 1)
            if number is not None and number.lastgroup == "number":
                return "number", "-" + number[0]
        return kind, token

    def take(self, kind: str, token: str) -> None:
        """Takes the token that `next` gave."""
        if self._trivia:
            self._literal += self._trivia
            self._trivia = ""
        slot = SLOT_KIND.get(kind)
        if slot is not None and token not in RESERVED:
            self.key.append(self._literal)
            self.key.append(slot)
            self.slots.append(token)
            self._literal = ""
            self._after_value = True
        else:
            self._literal += token
            self._after_value = kind == "other" and token in ")]}"
        self.at = self.end = self.at + len(token)

    def shape(self) -> Key:
        """The shape of what was taken."""
        return (*self.key, self._literal)


def cut(text: str) -> tuple[Key, Slots] | None:
    """The shape and the slots of a whole text; None if it ends in white space or a comment."""
    cutter = Cutter(text, 0)
    while cutter.end < len(text):
        kind, token = cutter.next()
        if not kind:
            return None
        cutter.take(kind, token)
    return cutter.shape(), cutter.slots


@attrs.frozen
class Slot:
    """A leaf whose text is a slot."""

    kind: type[nodes.Leaf]
    index: int


@attrs.frozen
class Plan:
    """A composite or statement to be built; its parts are nodes ready made, slots and plans."""

    kind: type[Any]
    form: Shape
    parts: tuple[Any, ...]


@attrs.frozen
class Failure:
    """A shape that is not in the grammar. `slot` and `offset` say where: so many characters after that slot (-1: after the start)."""

    slot: int
    offset: int


class Unplannable(Exception):
    """A slot does not coincide with a leaf of the grammar: such a text is left to the plain way."""


@functools.lru_cache(maxsize=16384)
def plan(rule: str, key: Key) -> Plan | Slot | Node | Failure | None:
    """How to build a node of this rule and shape; a Failure if the grammar refuses it; None if it must be parsed plainly."""
    from parsimonious.exceptions import ParseError

    pieces, starts, ends, at = [], [], [], 0
    for i, piece in enumerate(key):
        if i % 2:
            piece = STAND_IN[piece]
            starts.append(at)
            ends.append(at + len(piece))
        pieces.append(piece)
        at += len(piece)
    text = "".join(pieces)
    try:
        tree = grammar()[rule].parse(text)
    except ParseError as error:
        before = bisect.bisect_left(starts, error.pos) - 1
        return Failure(before, max(0, error.pos - (ends[before] if before >= 0 else 0)))
    except RecursionError:
        return Failure(-1, 0)

    used = set()

    def leaf(kind: type[nodes.Leaf], start: int, end: int) -> Slot | Node:
        slot = bisect.bisect_left(starts, end) - 1
        if slot < 0 or ends[slot] <= start:
            return kind(text[start:end])
        if (starts[slot], ends[slot]) != (start, end):
            raise Unplannable
        used.add(slot)
        return Slot(kind, slot)

    def make(kind: type[Any], form: Shape, children: list[Any]) -> Plan | Node:
        if all(isinstance(child, Node) for child in children) and not issubclass(kind, nodes.Statement):
            made: Node = kind(form, tuple(children))
            return made
        return Plan(kind, form, tuple(children))

    try:
        result: Plan | Slot | Node = lower(tree, leaf, make)
    except Unplannable:
        return None
    return result if len(used) == len(starts) else None


def build(what: Plan | Slot | Node, slots: Slots, leaves: dict[str, Node]) -> Node:
    """The node that a plan gives with these slots. `leaves` shares names and numbers between nodes."""
    if isinstance(what, Slot):
        text = slots[what.index]
        if what.kind is nodes.Name or what.kind is nodes.Number:
            found = leaves.get(text)
            if found is None:
                found = leaves[text] = what.kind(text)
            return found
        return what.kind(text)
    if isinstance(what, Plan):
        made: Node = what.kind(what.form, tuple([build(part, slots, leaves) for part in what.parts]))
        return made
    return what


def build_statement(what: Plan, leading: str, slots: Slots, leaves: dict[str, Node]) -> Node:
    """The statement that a plan gives with these slots."""
    made: Node = what.kind(leading, what.form, tuple([build(part, slots, leaves) for part in what.parts]))
    return made
