"""Parses each shape once.

PTX is repetitive: a file of 50,000 instructions has a few hundred shapes. A text is split into tokens; names, numbers and strings are the
*slots*, everything else is the shape. The grammar parses the shape with placeholders in its slots, and the result becomes a plan that
builds the node of any text of that shape. So the grammar stays the only definition of the syntax, and is rarely run.
"""

from __future__ import annotations

import bisect
import functools
import re
from typing import Any

from ptxkit.frozen import frozen
from ptxkit.memo import expression
from ptxkit.syntax import nodes
from ptxkit.syntax.grammar import grammar
from ptxkit.syntax.lexical import (
    AFTER_VALUE,
    END,
    IN_LIST,
    KEYWORD,
    NAME,
    NAME_TOKEN,
    NOT,
    NUMBER,
    NUMBER_TOKEN,
    OTHER,
    RUN_TOKEN,
    STRING,
    STRING_TOKEN,
    TOKEN,
)
from ptxkit.syntax.lowering import lower
from ptxkit.syntax.nodes import Node, Shape
from ptxkit.syntax.plans import Key, Plan, Slot, ready

MAX_DEPTH = 30
"""Maximum nesting of brackets in a statement: the grammar recurses into them."""

MAX_TOKENS = 50_000
"""Maximum number of tokens of a statement, not counting the braces of an initializer."""

RESERVED = frozenset({"function_name", "inlined_at"})
"""Names that the grammar treats as keywords."""

_LETTERS = {RUN_TOKEN: "r", STRING_TOKEN: "s", NUMBER_TOKEN: "d", NAME_TOKEN: "n"}
STAND_IN = {"n": "a", "d": "1", "s": '""', "r": "1,1,1,1,1,1,1,1", "o": "a", "k": ".x", "b": "{}"}
"""The placeholder for each kind of slot: name, number, string, run of numbers, opcode, unknown directive, braces of an initializer."""

Slots = list[Any]
"""The texts of the slots; for braces, the node."""

_CLOSES = {")": "(", "]": "[", "}": "{"}
_DATA_WORDS = frozenset({".b8", ".b16", ".b32", ".b64"})


class Hopeless(Exception):
    """A statement that is too long or too deeply nested to parse."""


class Cutter:
    """Splits a statement into tokens, one at a time, and records the shape and slots so far.

    White space and comments become part of the shape only when a token follows.
    """

    __slots__ = ("_left", "_literal", "_match", "_text", "at", "brackets", "end", "key", "kind", "slots", "token", "trivia", "unmatched")

    def __init__(self, text: str, at: int) -> None:
        self._text = text
        self._match = TOKEN.match
        self._literal = ""
        self._left = MAX_TOKENS
        self.at = at
        """The start of the next token."""
        self.end = at
        """The end of the last token taken."""
        self.key: list[str] = []
        self.slots: Slots = []
        self.brackets: list[tuple[str, int]] = []
        """The open brackets, with their positions."""
        self.unmatched: tuple[str, int] | None = None
        """The first unmatched closing bracket."""
        self.kind, self.token, self.trivia = END, "", ""
        self._look()

    def _look(self) -> None:
        match = self._match(self._text, self.end)
        assert match is not None
        self.kind = kind = match.lastindex or END
        self.trivia = match[1]
        self.token = "" if kind == END else match[kind]
        self.at = self.end + len(self.trivia)

    def take(self) -> None:
        """Takes the next token, and advances to the one after it. Raises Hopeless."""
        kind, token = self.kind, self.token
        self._left -= 1
        if self._left < 0:
            raise Hopeless(f"a statement of more than {MAX_TOKENS} tokens")
        slot = _LETTERS.get(kind)
        if slot is not None and token not in RESERVED:
            self._slot(slot, token)
        else:
            self._literal += self.trivia + token
            self._match = TOKEN.match
            if kind == OTHER:
                self._bracket(token)
            elif token in _DATA_WORDS:
                self._match = IN_LIST.match
        self.end = self.at + len(token)
        self._look()

    def _slot(self, letter: str, content: Any) -> None:
        self.key += (self._literal + self.trivia, letter)
        self.slots.append(content)
        self._literal = ""
        self._match = TOKEN.match if letter in "ok" else AFTER_VALUE.match

    def _bracket(self, token: str) -> None:
        if token in "([{":
            if len(self.brackets) == MAX_DEPTH:
                raise Hopeless(f"brackets nested deeper than {MAX_DEPTH}")
            self.brackets.append((token, self.at))
            if token == "{":
                self._match = IN_LIST.match
        elif token in _CLOSES:
            self._match = AFTER_VALUE.match
            if self.brackets and self.brackets[-1][0] == _CLOSES[token]:
                self.brackets.pop()
            elif self.unmatched is None:
                self.unmatched = (token, self.at)

    def take_whole(self, letter: str, content: Any, end: int) -> None:
        """Takes everything from the next token up to `end` as one slot."""
        self._slot(letter, content)
        self.end = end
        self._look()

    def shape(self) -> Key:
        """The shape of the tokens taken."""
        return (*self.key, self._literal)


_PART = expression(
    rf"""((?:(?<=[A-Za-z0-9_$"])[ \t\r\n]*+-|{NOT})?+
        (?:[)\]}}][ \t\r\n]*+-?+|[^A-Za-z0-9_$%."/)\]}}-]++|{KEYWORD}|%(?![A-Za-z0-9_$])|/(?![/*])|-(?!\.?[0-9])|{NOT})*+)
        (?:(-?{NUMBER}|{NAME}|{STRING})|{NOT})?+""",
    re.X,
)
_LETTER_OF = {**dict.fromkeys("0123456789.-", "d"), '"': "s"}


def cut(text: str) -> tuple[Key, Slots] | None:
    """The shape and the slots of a text without comments; None if one regular expression cannot split it.

    Gives the same as a `Cutter` that takes every token, several times faster.
    """
    key: list[str] = []
    slots: Slots = []
    size = 0
    letter = _LETTER_OF.get
    for literal, slot in _PART.findall(text):
        size += len(literal) + len(slot)
        key.append(literal)
        if not slot:
            break
        if slot in RESERVED:
            return None
        key.append(letter(slot[0], "n"))
        slots.append(slot)
    return (tuple(key), slots) if size == len(text) else None


@frozen
class Failure:
    """A shape that the grammar rejects. The position is `offset` characters after the slot `slot` (-1: after the start)."""

    slot: int
    offset: int


class Unplannable(Exception):
    """A slot does not coincide with a leaf of the grammar; the full parser handles such a text."""


@functools.lru_cache(maxsize=16384)
def plan(rule: str, key: Key) -> Plan | Slot | Node | Failure | None:
    """How to build a node of this rule and shape; a Failure if the grammar rejects it; None if it must be parsed plainly.

    Raises Hopeless if the grammar would recurse too deeply.
    """
    found = ready(rule, key)
    return by_grammar(rule, key) if found is None else found


def by_grammar(rule: str, key: Key) -> Plan | Slot | Node | Failure | None:
    """The same, without precomputed plans."""
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
        raise Hopeless("an expression nested too deep") from None

    used = set()

    def leaf(kind: type[nodes.Leaf], start: int, end: int) -> Slot | Node:
        slot = bisect.bisect_left(starts, end) - 1
        if slot < 0 or ends[slot] <= start:
            return kind(text[start:end])
        if (starts[slot], ends[slot]) != (start, end):
            raise Unplannable
        used.add(slot)
        return Slot(kind, slot)

    def make(kind: type[Any], form: Shape, children: list[Any], start: int) -> Plan | Slot | Node:
        slot = bisect.bisect_left(starts, start)
        if kind is nodes.Braces and slot < len(starts) and starts[slot] == start and key[2 * slot + 1] == "b":
            used.add(slot)
            return Slot(kind, slot)
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
    """The node of a plan with these slots. `leaves` holds (or creates) the name or number for each text, so that nodes share them."""
    if type(what) is Slot:
        kind, content = what.kind, slots[what.index]
        if kind is nodes.Name or kind is nodes.Number:
            return leaves[content]
        return content if kind is nodes.Braces else kind(content)  # type: ignore[call-arg]
    if type(what) is Plan:
        made: Node = what.kind(what.form, tuple([build(part, slots, leaves) for part in what.parts]))
        return made
    return what  # type: ignore[return-value]


def build_statement(what: Plan, leading: str, slots: Slots, leaves: dict[str, Node]) -> Node:
    """The statement of a plan with these slots."""
    made: Node = what.kind(leading, what.form, tuple([build(part, slots, leaves) for part in what.parts]))
    return made
