"""From text to a module; never raises on any text.

The scanner knows where statements begin and end, and takes the commonest ones (an instruction on one line, a label, a brace) apart
with one regular expression; operands are looked up by their text. Everything else is cut into a shape and its slots. What the grammar
refuses becomes an `Error` node, and parsing goes on behind it.
"""

from __future__ import annotations

import gc
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ptxkit.syntax import nodes, shapes
from ptxkit.syntax.lowering import plain
from ptxkit.syntax.nodes import (
    Block,
    Data,
    DataType,
    Error,
    Function,
    Guard,
    Header,
    Instruction,
    Label,
    Line,
    Loc,
    Module,
    Name,
    Node,
    Number,
    Opcode,
    Section,
    SectionHeader,
    Shape,
    shape,
)
from ptxkit.syntax.shapes import Cutter, Failure, Key, Plan, build, build_statement

MAX_DEPTH = 100
"""Blocks may be nested this deep, brackets in a statement too; no compiler comes near, and nothing recurses deeper on hostile text."""

MAX_TOKENS = 50_000
"""A statement may have this many tokens besides runs of plain numbers."""

MAX_WASTE = 2_000_000
"""So many tokens may be looked at twice while looking for the end of broken statements; after that whole stretches are given up."""

_STATEMENT = re.compile(
    rf"""({shapes.TRIVIA}*+)
    (?: (?:(@!?[%$A-Za-z_0-9]++)([ \t]++))?+
        ([A-Za-z_][A-Za-z0-9_]*+(?:\.[A-Za-z0-9_]++(?:::[A-Za-z0-9_]++)*+)*+)
        (?:([ \t]++)((?![:;\s])[^;"/\n{{}}]*+(?:\{{[^;"/\n{{}}]*+\}}[^;"/\n{{}}]*+)*+))?+;
      | ([%$_A-Za-z][A-Za-z0-9_$]*+):(?!:)
      | ([{{}}])
      | \.loc([ \t]++)([0-9]++)([ \t])([0-9]++)([ \t])([0-9]++)(?=[ \t]*+(?:\n|//))
      | (\.b(?:8|16|32|64))([ \t]++)([0-9]++)(?=[ \t]*+(?:\n|//))
      | (.)
    )?+""",
    re.S | re.X,
)
_LEADING, _GUARD, _GUARD_GAP, _OPCODE, _GAP, _ARGUMENTS, _LABEL, _BRACE, _LOC, _DATA, _OTHER = 1, 2, 3, 4, 5, 6, 7, 8, 14, 17, 18

_PIECE = re.compile(r"(?:[^,{}\[\]()]|\{[^{}]*+\}|\[[^\[\]]*+\]|\([^()]*+\))++")
_LEAF = re.compile(rf"(-?{shapes.NUMBER})|{shapes.NAME}")
_SIMPLE_ADDRESS = re.compile(rf"\[({shapes.NAME})(?:\+(-?[0-9]++))?+\]")
_BARE_ADDRESS, _OFFSET_ADDRESS = shape("[", "]"), shape("[", "+", "]")
_LABEL_SHAPE = shape("", ":")


# What attrs' frozen __init__ does, without its detour: two thirds of the time of parsing went there (benchmarks/parse.py).
_new = object.__new__
_set_text = nodes.Leaf.text.__set__  # type: ignore[attr-defined]
_set_leading = nodes.Statement.leading.__set__  # type: ignore[attr-defined]
_set_shape = nodes.Statement.shape.__set__  # type: ignore[attr-defined]
_set_children = nodes.Statement.children.__set__  # type: ignore[attr-defined]


class _Irregular(Exception):
    """An operand that is not in the layout that the fast way knows."""


class _Operands(dict[str, Node]):
    """Operands by their text; each is parsed once in a file."""

    def __missing__(self, text: str) -> Node:
        made: Node
        if text[1:].isidentifier() and text[0] in "%_$" and text.isascii():
            made = _new(Name)
            _set_text(made, text)
        elif (leaf := _LEAF.fullmatch(text)) is not None:
            made = Number(text) if leaf[1] is not None else Name(text)
        elif (address := _SIMPLE_ADDRESS.fullmatch(text)) is not None:
            base, offset = address[1], address[2]
            if offset is None:
                made = nodes.Address(_BARE_ADDRESS, (self[base],))
            else:
                made = nodes.Address(_OFFSET_ADDRESS, (self[base], self[offset]))
        else:
            made = self._shaped(text)
        self[text] = made
        return made

    def _shaped(self, text: str) -> Node:
        if not text or text[0].isspace() or text[-1].isspace() or _depth(text) > MAX_DEPTH:
            raise _Irregular
        cut = shapes.cut(text)
        plan = shapes.plan("operand", cut[0]) if cut else None
        if cut is None or plan is None or isinstance(plan, Failure):
            raise _Irregular
        return build(plan, cut[1], self)


class _Interned(dict[str, Any]):
    """Nodes by their text, made by a function of it."""

    def __init__(self, make: Any) -> None:
        super().__init__()
        self.make = make

    def __missing__(self, text: str) -> Any:
        made = self[text] = self.make(text)
        return made


class _Shapes(dict[tuple[str | None, str | None, int], nodes.Shape]):
    """The shapes of plain instructions by gap after the guard, gap after the opcode and number of operands."""

    def __missing__(self, key: tuple[str | None, str | None, int]) -> nodes.Shape:
        guard_gap, gap, operands = key
        head = [""] if guard_gap is None else ["", guard_gap]
        tail = [";"] if gap is None else [gap, *[", "] * (operands - 1), ";"]
        made = self[key] = shape(*head, *tail)
        return made


def _make_guard(text: str) -> Guard:
    start = 2 if text[1] == "!" else 1
    return Guard(shape(text[:start], ""), (Name(text[start:]),))


def _depth(text: str) -> int:
    """How deep the brackets of a text are nested."""
    depth = deepest = 0
    for bracket in re.findall(r"[\[({\])}]", text):
        depth += 1 if bracket in "[({" else -1
        deepest = max(deepest, depth)
    return deepest


@contextmanager
def _collector_paused() -> Iterator[None]:
    """Without the cyclic garbage collector, which would look at every new node in vain: a tree has no cycles."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def parse(text: str, path: str | None = None) -> Module:
    """The module for a text; `module.text == text` for any text whatever, and `module.diagnostics` says what is wrong with it.

    `path` is only remembered. Positions in diagnostics count characters. Never raises on bad text.
    """
    with _collector_paused():
        return _Parser(text).module(path)


def parse_statement(text: str) -> Node:
    """The one statement (or function, block, section) that a text holds. Raises ValueError if it is not exactly one, or has an error."""
    module = parse(text)
    if module.diagnostics or len(module.children) != 1 or module.trailing.strip():
        reason = module.diagnostics[0].message if module.diagnostics else f"{len(module.children)} statements"
        raise ValueError(f"not one statement: {text!r} ({reason})")
    return module.children[0]


def parse_operand(text: str) -> Node:
    """The operand that a text is. Raises ValueError if it is none."""
    try:
        return _Operands()[text]
    except _Irregular:
        raise ValueError(f"not an operand: {text!r}") from None


class _Parser:
    """One run over a text. Blocks that are open stand on a stack; nothing recurses into them."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.operands = _Operands()
        self.waste = 0

    def module(self, path: str | None) -> Module:
        text, operands = self.text, self.operands
        guards, opcodes, shapes_of = _Interned(_make_guard), _Interned(Opcode), _Shapes()
        leadings: dict[str, str] = {}
        share = leadings.setdefault
        match, operand = _STATEMENT.match, operands.__getitem__
        statements: list[Node] = []
        add = statements.append
        stack: list[tuple[list[Node], str]] = []
        children: tuple[Node, ...]
        at = 0
        while True:
            m = match(text, at)
            assert m is not None
            kind = m.lastindex
            if kind == _ARGUMENTS:
                leading, guard, guard_gap, opcode, gap, arguments = m.group(1, 2, 3, 4, 5, 6)
                try:
                    if "{" in arguments or "(" in arguments:
                        pieces = [piece.lstrip(" ") for piece in _PIECE.findall(arguments)]
                        if ", ".join(pieces) != arguments:
                            raise _Irregular
                    else:
                        pieces = arguments.split(", ")
                    if guard is None:
                        children = (opcodes[opcode], *map(operand, pieces))
                    else:
                        children = (guards[guard], opcodes[opcode], *map(operand, pieces))
                except _Irregular:
                    at = self.other(leading, m.end(_LEADING), statements)
                    continue
                instruction = _new(Instruction)
                _set_leading(instruction, share(leading, leading))
                _set_shape(instruction, shapes_of[guard_gap, gap, len(pieces)])
                _set_children(instruction, children)
                add(instruction)
            elif kind == _LABEL:
                leading, label = m.group(_LEADING, _LABEL)
                statements.append(Label(share(leading, leading), _LABEL_SHAPE, (operands[label],)))
            elif kind == _OPCODE:
                leading, guard, guard_gap, opcode = m.group(1, 2, 3, 4)
                children = (opcodes[opcode],) if guard is None else (guards[guard], opcodes[opcode])
                statements.append(Instruction(share(leading, leading), shapes_of[guard_gap, None, 0], children))
            elif kind == _BRACE:
                leading, brace = m.group(_LEADING, _BRACE)
                if brace == "{":
                    if len(stack) == MAX_DEPTH:
                        statements.append(Error(leading, text[m.start(_BRACE) :], f"blocks nested deeper than {MAX_DEPTH}", 0))
                        at = len(text)
                        continue
                    stack.append((statements, share(leading, leading)))
                    statements = []
                    add = statements.append
                elif stack:
                    outer, opening = stack.pop()
                    _close(outer, Block(opening, tuple(statements), leading + "}"))
                    statements = outer
                    add = statements.append
                else:
                    statements.append(Error(leading, "}", "`}` closes nothing", 0))
            elif kind == _LOC:
                leading, a, file, b, line, c, column = m.group(_LEADING, *range(_LOC - 5, _LOC + 1))
                parts = (operands[file], operands[line], operands[column])
                statements.append(Loc(share(leading, leading), shape(".loc" + a, b, c, ""), parts))
            elif kind == _DATA:
                leading, word, gap, number = m.group(_LEADING, *range(_DATA - 2, _DATA + 1))
                statements.append(Data(share(leading, leading), shape("", gap, ""), (DataType(word), operands[number])))
            elif kind == _OTHER:
                at = self.other(m[_LEADING], m.start(_OTHER), statements)
                continue
            else:
                trailing = m[_LEADING]
                break
            at = m.end()
        while stack:
            outer, opening = stack.pop()
            _close(outer, Block(opening, tuple(statements), ""))
            statements = outer
        return Module(tuple(statements), trailing, path)

    def other(self, leading: str, at: int, statements: list[Node]) -> int:
        """Takes one statement that the fast way does not know, adds its node, and returns where it ends."""
        text = self.text
        first = text[at]
        if first == "#" or text.startswith("@@", at):
            end = _line_end(text, at)
            statements.append(Line(leading, shape(text[at:end]), ()))
            return end
        if text.startswith("/*", at):
            statements.append(Error(leading, text[at:], "comment that is never closed", 0))
            return len(text)
        rule, cutter, complete = self._cut(at)
        end = cutter.end
        plan: Any = Failure(-1, 0)
        key = cutter.shape()
        if complete:
            plan = self._plan(rule, key)
        if isinstance(plan, Plan):
            statement = build_statement(plan, leading, cutter.slots, self.operands)
        elif plan is None:
            statement = plain(rule, text[at:end], leading)
        else:
            statement = self._error(leading, at, end, rule, key, cutter.slots, plan)
            self.waste += len(key) // 2 if at + len(statement.body_text) < end else 0
            end = at + len(statement.body_text)
        if isinstance(statement, Header) and type(statement) is Header and statement.shape.literals[-1].endswith(";"):
            statements.append(Function((statement,)))
        else:
            statements.append(statement)
        return end

    def _plan(self, rule: str, key: Key) -> Any:
        if len(key) > MAX_TOKENS or _depth("".join(key[::2])) > MAX_DEPTH:
            return Failure(-1, 0)
        return shapes.plan(rule, key)

    def _cut(self, at: int) -> tuple[str, Cutter, bool]:
        """The grammar's rule for the statement that starts here, the cutter after its last token, and whether it can be complete."""
        cutter = Cutter(self.text, at)
        kind, token = cutter.next()
        if token == ";":
            cutter.take(kind, token)
            return "directive", cutter, True
        if kind == "keyword":
            return "directive", cutter, self._cut_directive(cutter, token)
        if token == "@":
            cutter.take(kind, token)
            kind, token = cutter.next()
            if token == "!":
                cutter.take(kind, token)
                kind, token = cutter.next()
            if kind != "name":
                return "instruction", cutter, self._skip(cutter)
            cutter.take(kind, token)
            kind, token = cutter.next()
        if kind != "name":
            return "instruction", cutter, self._skip(cutter)
        return self._cut_instruction(cutter, token)

    def _skip(self, cutter: Cutter) -> bool:
        """Goes to the end of a statement that cannot be one."""
        text = self.text
        end = _line_end(text, cutter.at)
        semicolon = text.find(";", cutter.at, end)
        cutter.literal(text[cutter.at : end if semicolon < 0 else semicolon + 1])
        return False

    def _cut_instruction(self, cutter: Cutter, name: str) -> tuple[str, Cutter, bool]:
        text = self.text
        label = _LABEL_AHEAD.match(text, cutter.at)
        if label is not None:
            cutter.take("name", name)
            cutter.literal(text[cutter.at : label.end()])
            return "label", cutter, True
        opcode = _OPCODE_AHEAD.match(text, cutter.at)
        if opcode is None:
            return "instruction", cutter, self._skip(cutter)
        cutter.literal(opcode[0])
        depth = 0
        after_value = False
        while True:
            kind, token = cutter.next()
            if not kind or (depth == 0 and token == "}") or (token == "/" and text.startswith("/*", cutter.at)):
                return "instruction", cutter, True
            value = kind in shapes.SLOT_KIND
            if after_value and (value or token in ("@", "{", "[")):
                return "instruction", cutter, True
            cutter.take(kind, token)
            if token == ";":
                return "instruction", cutter, True
            depth += (token in _OPENING) - (token in _CLOSING)
            after_value = value or kind == "keyword" or token in _CLOSING

    def _cut_directive(self, cutter: Cutter, word: str) -> bool:
        cutter.take("keyword", word)
        if word in _LINE_DIRECTIVES or _DATA_WORD.fullmatch(word):
            return self._cut_line(cutter, word)
        header = word in _HEADER_WORDS
        depth = 0
        last_kind, last = "keyword", word
        while True:
            kind, token = cutter.next()
            if not kind or (token == "/" and self.text.startswith("/*", cutter.at)):
                return True
            if depth == 0 and (token == "}" or (token == "{" and last not in ("=", ","))):
                return True
            value = kind in shapes.SLOT_KIND
            after_value = last_kind in shapes.SLOT_KIND or last in _CLOSING or last == ">"
            if after_value and depth == 0 and (value or token == "@") and not (header and last == ")"):
                return True
            if kind == "keyword" and last_kind == "name" and depth == 0 and not header:
                return True
            cutter.take(kind, token)
            if token == ";" and not (header and last_kind == "string"):
                return True
            header = header or token in _HEADER_WORDS
            depth += (token in _OPENING) - (token in _CLOSING)
            last_kind, last = kind, token

    def _cut_line(self, cutter: Cutter, word: str) -> bool:
        """A directive that no semicolon ends: it goes on as long as its next token can belong to it."""
        data = word.startswith(".b")
        last = word
        while True:
            kind, token = cutter.next()
            open_ended = last in _JOINING or last in shapes.RESERVED
            if token in _JOINING or (kind == "name" and token in shapes.RESERVED):
                joins = True
            elif kind in ("name", "keyword"):
                joins = open_ended or (last is word and (data or word in _NAMING))
            elif kind in ("number", "run", "string"):
                joins = not data or open_ended or last is word
            else:
                joins = data and token == ";"
            if not joins:
                return True
            cutter.take(kind, token)
            if token == ";":
                return True
            last = token

    def _error(self, leading: str, at: int, end: int, rule: str, key: Key, slots: list[str], failure: Failure) -> Error:
        """The error node for a statement that the grammar refused: as little of the text as recovery allows, and what is wrong with it."""
        text = self.text
        where = at + _offset(key, slots, failure)
        newline = text.find("\n", at, end)
        for _ in range(3):
            if newline < 0:
                break
            ended = _without_trailing_trivia(text[at:newline])
            if ended and not ended.endswith((";", ",")) and self._accepts(rule, ended + ";"):
                return Error(leading, ended, "missing `;`", len(ended))
            newline = text.find("\n", newline + 1, end)
        body = _without_trailing_trivia(text[at:end])
        if not body.endswith(";") and self._accepts(rule, body + ";"):
            return Error(leading, body, "missing `;`", len(body))
        stop = _line_end(text, max(where, at))
        if self.waste < MAX_WASTE and stop < end:
            body = _without_trailing_trivia(text[at:stop])
        body = body or text[at:end] or text[at]
        return Error(leading, body, _message(text, at, where, end), min(where - at, len(body)))

    def _accepts(self, rule: str, text: str) -> bool:
        if len(text) > 10_000:
            return False
        cut = shapes.cut(text)
        return cut is not None and isinstance(self._plan(rule, cut[0]), Plan)


_LINE_DIRECTIVES = frozenset({".version", ".target", ".address_size", ".file", ".loc", ".section"})
_NAMING = frozenset({".target", ".section"})
_JOINING = frozenset({",", "+", "-"})
_OPENING, _CLOSING = frozenset("([{"), frozenset(")]}")
_HEADER_WORDS = frozenset({".entry", ".func", ".callprototype"})
_DATA_WORD = re.compile(r"\.b(?:8|16|32|64)")
_LABEL_AHEAD = re.compile(rf"{shapes.NAME}{shapes.TRIVIA}*+:(?!:)")
_OPCODE_AHEAD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*+(?:\.[A-Za-z0-9_]++(?:::[A-Za-z0-9_]++)*+)*+")


def _close(outer: list[Node], block: Block) -> None:
    """Puts a finished block behind what precedes it: together with the header that it is the body of, if it is one."""
    before = outer[-1] if outer else None
    if type(before) is Header:
        outer[-1] = Function((before, block))
    elif type(before) is SectionHeader:
        outer[-1] = Section((before, block))
    else:
        outer.append(block)


def _line_end(text: str, at: int) -> int:
    end = text.find("\n", at)
    return len(text) if end < 0 else end


def _without_trailing_trivia(text: str) -> str:
    """The text up to its last token."""
    end = at = 0
    while at < len(text):
        match = shapes.TOKEN.match(text, at)
        assert match is not None
        at = match.end()
        if match.lastgroup != "trivia":
            end = at
    return text[:end]


def _offset(key: Key, slots: list[str], failure: Failure) -> int:
    """Where in the text a failure lies that was found in its shape."""
    before = 2 * (failure.slot + 1)
    return sum(map(len, key[:before:2])) + sum(map(len, slots[: failure.slot + 1])) + failure.offset


def _message(text: str, at: int, where: int, end: int) -> str:
    if _depth(text[at:end]) > MAX_DEPTH:
        return f"brackets nested deeper than {MAX_DEPTH}"
    match = shapes.TOKEN.match(text, where)
    while match is not None and match.lastgroup == "trivia":
        match = shapes.TOKEN.match(text, match.end())
    if match is None:
        return "the file ends in the middle of a statement"
    token = match[0]
    if token == '"':
        return "string that is never closed"
    if token.startswith("/") and text.startswith("/*", match.start()):
        return "comment that is never closed"
    if len(token) > 30:
        token = token[:27] + "..."
    return f"syntax error at `{token}`" if token.isprintable() else f"syntax error at character {ascii(token)}"
