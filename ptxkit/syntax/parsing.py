"""From text to a module; never raises on any text.

The scanner knows where statements begin and end, and takes the commonest ones (an instruction on one line, a label, a brace) apart
with one regular expression; operands are looked up by their text. Everything else is cut into a shape and its slots. What the grammar
refuses becomes an `Error` node, and parsing continues after it.
"""

from __future__ import annotations

import re
from typing import Any

from ptxkit.memo import collector_paused, expression
from ptxkit.syntax import lexical, shapes
from ptxkit.syntax.code import Draft
from ptxkit.syntax.initializers import Initializers
from ptxkit.syntax.instructions import GUARD, OPCODE, Irregular, Pattern, Remembered, forget_if_many, remembered
from ptxkit.syntax.lexical import END, KEYWORD_TOKEN, NAME_TOKEN, NOT, NUMBER_TOKEN, OTHER, RUN_TOKEN, STRING_TOKEN, UNCLOSED
from ptxkit.syntax.lowering import plain
from ptxkit.syntax.nodes import (
    Block,
    Data,
    DataType,
    Error,
    Function,
    Header,
    Instruction,
    Label,
    Line,
    Loc,
    Module,
    Node,
    Section,
    SectionHeader,
    shape,
)
from ptxkit.syntax.plans import Key, Plan
from ptxkit.syntax.recovery import missing_semicolon, refused, rest_of_statement
from ptxkit.syntax.shapes import Cutter, Failure, Hopeless, build_statement

MAX_DEPTH = 100
"""Blocks may be nested this deep; no compiler comes near."""

MAX_WASTE = 300_000
"""So many tokens of broken statements may be looked at twice or given to the grammar in vain; after that, statements of a shape that the
file has not had before are given up without a look."""

_LINE_BREAK = r"(?:(?<=[,(])|(?<=[,(][ ]))\r?\n|\r?\n(?=[ \t]*+[){(])"
"""An end of line within the operands: where they go on for sure, so that a missing semicolon does not lead on."""

_GAP = rf"(?:[ \t]++(?:\r?\n[ \t]++|{NOT})?+|\r?\n[ \t]++)"
_DATA_LIST = rf"(?:(?:[0-9]++|[A-Za-z_$%][A-Za-z0-9_$]++)(?:,(?:[0-9]++|[A-Za-z_$%][A-Za-z0-9_$]++)|{NOT})*+)"
"""Numbers and names of a line of DWARF data."""

_BLANK = r"[ \t\r\n\f\v]*+"
_COMMENTS = rf"(?:{_BLANK}(?://[^\n]*+|{lexical.COMMENT})|{NOT})*+"
_DIRECTIVE = rf"""\.(?:reg|local|shared|global|const|param|extern|weak|common|pragma)\b
        [^;{{}}"/\n@]{{0,5000}}+(?:"[^"\\\n]*+"[ ]*+|{NOT})?+;"""

_USUAL = rf"""({_COMMENTS})
    (?: ({_BLANK}(?:{GUARD}[ \t]++|{NOT})?+{OPCODE}(?:{_GAP}(?![:;\s])|(?=;)))
        ([^;"/\n{{}}]*+(?:(?:\{{[^;"/\n{{}}]*+\}}|{_LINE_BREAK})[^;"/\n{{}}]*+|{NOT})*+);
      | ({_BLANK}
          (?: (?:[A-Za-z_]|[%$][A-Za-z0-9_$])[A-Za-z0-9_$]*+:(?=[^:])
            | \{{
            | \}}++
            | \.loc[ \t]++[0-9]++[ \t][0-9]++[ \t][0-9]++(?=[ \t\r]*+(?:\n|//))
            | \.b(?:8|16|32|64)[ \t]++(?:[0-9]++(?=[ \t\r]*+(?:\n|//))|{_DATA_LIST}(?=[ \t]*+\r?\n[ \t]*+\.))
            | {NOT}
          ))
      | ({_BLANK})({_DIRECTIVE})
"""
"""Statements of the layouts that compilers write, with what leads each. The groups are comments, with the white space before them; of an
instruction its head (white space, guard and opcode, since a file repeats them) and its operands; of a label, a brace, a `.loc` or a line
of DWARF data all of it; of a directive the white space before it, and its text."""
_STATEMENT = expression(rf"{_USUAL})", re.S | re.X)
_STATEMENTS = expression(rf"{_USUAL}|(.*+))", re.S | re.X)
"""The same for `findall`. The last group has what follows the last statement that is usual and whole."""

Row = tuple[str, ...]
"""The groups of one statement."""

_CHUNK = 4096
"""So many characters are taken apart at a time. After a statement that is not usual the rest of them are taken apart again."""
_LABEL_SHAPE = shape("", ":")

_LINE_PARTS = expression(
    rf"""({_BLANK})(?:([^{{}}:]++):|(\.loc[ \t]++)([0-9]++)([ \t])([0-9]++)([ \t])([0-9]++)|(\.b[0-9]++)([ \t]++)([^ \t]++))""", re.X
)
"""A label, a `.loc` or a line of DWARF data, as a statement's group has it."""

_QUICK = expression(
    rf"""{_DIRECTIVE}
      | (?:\.(?:visible|extern|weak)\s++|{NOT})?+\.(?:entry|func)\b
        (?:[^;{{}}"/@\s]++|\s++(?!\{{|\.(?:visible|extern|weak|entry|func)\b)|{NOT}){{1,2000}}+(?:;|(?=\s*+\{{))
      | \.(?:version|target|address_size)[ ]++[0-9A-Za-z_.]++(?=\r?\n)(?!\s*+[,/])""",
    re.X,
)
"""Directives of the commonest layouts. What it takes for one statement is tried, and cut with care if the grammar refuses it."""


def parse(text: str, path: str | None = None) -> Module:
    """Parses a text into a module. `module.text == text` holds for any text, and `module.diagnostics` has its syntax errors.

    `path` is only remembered. Positions in diagnostics count characters. Never raises on bad text;
    raises TypeError for what is not a string.

        >>> module = parse(".version 8.5\\n.target sm_90\\n.entry k() { .reg .b32 %r; add.u32 %r, %r, 1; // more\\n ret; }")
        >>> [instruction.opcode.text for instruction in module.kernels[0].instructions]
        ['add.u32', 'ret']
        >>> path, node = next((path, node) for path, node in module.walk() if isinstance(node, Instruction))
        >>> print(module.replace(path, node.with_opcode("sub.u32")).text.splitlines()[2])
        .entry k() { .reg .b32 %r; sub.u32 %r, %r, 1; // more
        >>> [(found.span.line, found.message) for found in parse("ret").diagnostics]
        [(1, 'missing `;`')]
    """
    if not isinstance(text, str):
        raise TypeError(f"expected PTX as str, not {type(text).__name__}")
    with collector_paused():
        forget_if_many()
        parser = _Parser(text, remembered(), _Effort())
        trailing = parser.run()
        return Module(parser.draft.code().children, trailing, path)


def parse_statement(text: str) -> Node:
    """Parses one statement (or function, block, section). Raises ValueError if the text is not exactly one, or has an error."""
    module = parse(text)
    if len(module.children) != 1 or module.trailing.strip():
        raise ValueError(f"not one statement but {len(module.children)}: {text!r}")
    (statement,) = module.children
    troubles = () if type(statement) is Instruction else module.diagnostics
    if troubles:
        raise ValueError(f"not one statement: {text!r} ({troubles[0].message})")
    return statement


def parse_operand(text: str) -> Node:
    """Parses one operand. Raises ValueError if the text is none."""
    forget_if_many()
    try:
        return remembered().operands[text]
    except (Irregular, Hopeless):
        raise ValueError(f"not an operand: {text!r}") from None


class _Effort:
    """What was done in vain for a text: it bounds what more is done."""

    def __init__(self) -> None:
        self.waste = 0
        self.failures: dict[tuple[str, Key], Failure] = {}


class _Parser:
    """One run over a text. Blocks that are open stand on a stack; nothing recurses into them.

    Of instructions, only the pattern and the text of the operands are kept.
    """

    def __init__(self, text: str, known: Remembered, effort: _Effort, *, is_part: bool = False) -> None:
        """`is_part` says that the text is a part of another one, of statements that are to be taken with care."""
        self.text = text
        self.is_part = is_part
        self.known = known
        self.effort = effort
        self.operands = known.operands
        self.data_types: dict[str, DataType] = {}
        self.initializers = Initializers(self.operands)
        self.lines: dict[str, Node] = {}
        self.repeated: dict[tuple[str, str], Node] = {}
        self.draft = Draft()
        """The innermost block that is open."""
        self.stack: list[tuple[Draft, str]] = []
        """For each block that is open: the one around it, and what leads it."""

    def run(self, at: int = 0) -> str:
        """Takes all statements from `at` on, and gives the white space and comments after the last."""
        text = self.text
        while True:
            end = min(at + _CHUNK, len(text))
            reached = self._take(_STATEMENTS.findall(text, at, end), end)
            if reached == at:
                leading = _leading(text, at)
                if at + len(leading) == len(text):
                    break
                reached = self._take_unusual(at, leading)
            at = reached
        while self.stack:
            self._close("")
        return leading

    def _take(self, rows: list[Row], end: int) -> int:
        """Takes the statements whose groups these are, the last of which end at `end`, and gives where it had to stop."""
        if rows[0][-1]:
            return end - len(rows[0][0]) - len(rows[0][-1])
        comments, heads, operands, lines, spaces, directives, _ = zip(*rows, strict=True)
        patterns = self.known.found(heads, operands)
        known = 0
        for i in [i for i, pattern in enumerate(patterns) if pattern is None]:
            if heads[i] and self._learn(patterns, i, heads[i], operands[i]):
                continue
            self.draft.extend(patterns, operands, comments, known, i)
            known = i + 1
            comment, line, directive = comments[i], lines[i], directives[i]
            if line:
                if line[-1] not in "{}":
                    key = comment + line
                    self.draft.add(self.lines.get(key) or self._line(comment, line, key))
                elif line[-1] == "{" and len(self.stack) == MAX_DEPTH:
                    begin = end - _length(rows[known:]) - 1
                    message = f"blocks nested deeper than {MAX_DEPTH}"
                    self.draft.add(Error(comment + line[:-1], self.text[begin:], message, 0))
                    return len(self.text)
                else:
                    self._brace(comment, line)
                continue
            if heads[i]:
                row_end = end - _length(rows[known:])
                body = heads[i].lstrip(_WHITE)
                at = self._take_irregular(comment + heads[i][: -len(body)], f"{body}{operands[i]};", row_end)
            elif directive:
                leading = comment + spaces[i]
                statement = self.repeated.get((leading, directive)) or self._quickly(leading, directive)
                if statement is not None:
                    self._add(statement)
                    continue
                row_end = end - _length(rows[known:])
                at = self._take_other(leading, row_end - len(directive))
            else:
                return end - _length(rows[i:])
            if at != row_end:
                return at
        self.draft.extend(patterns, operands, comments, known, len(rows))
        return end

    def _take_irregular(self, leading: str, text: str, end: int) -> int:
        """Takes the statements of a text that looked like an instruction and ends at `end`, with care; gives where it stops."""
        if self.is_part:
            return self._take_other(leading, end - len(text))
        inner = _Parser(text, self.known, self.effort, is_part=True)
        inner.run(inner.other(leading, 0))
        for statement in inner.draft.code().children:
            self.draft.add(statement)
        return end

    def _learn(self, patterns: list[Pattern | None], i: int, head: str, operands: str) -> bool:
        """Finds the pattern of an instruction; False if it has none."""
        try:
            patterns[i] = self.known.pattern(head, operands)
        except (Irregular, Hopeless):
            return False
        return True

    def _take_unusual(self, at: int, leading: str) -> int:
        """Takes a statement that is longer than what is taken apart at a time, or of another layout; gives where it ends."""
        text = self.text
        usual = _STATEMENT.match(text, at)
        if usual is not None:
            return self._take([(*usual.groups(""), "")], usual.end())
        return self._take_other(leading, at + len(leading))

    def _take_other(self, leading: str, at: int) -> int:
        """Takes one statement with care, and gives where it ends."""
        text = self.text
        end = self.other(leading, at)
        last = self.draft.last
        if type(last) is not Header:
            return end
        has_body = text.startswith("{", _space_end(text, end))
        if self.stack and has_body:
            # no function stands in another: the brace at the end of the one before is missing
            self.draft.remove_last()
            while self.stack:
                self._close("")
            self.draft.add(last)
        elif not self.stack and not has_body and not last.is_entry:
            # a function that is no kernel, and has no body, needs no semicolon, as ptxas reads it
            self.draft.replace_last(Function((last,)))
        return end

    def _line(self, comments: str, line: str, key: str) -> Node:
        """The label, `.loc` or line of DWARF data of this text; of the latter two all that are the same are one node."""
        parts = _LINE_PARTS.fullmatch(line)
        assert parts is not None
        space, label, loc, file, b, row, c, column, data_type, gap, data = parts.groups()
        leading, operands = self.known.heads.leadings.setdefault(comments + space, comments + space), self.operands
        made: Node
        if label is not None:
            return Label(leading, _LABEL_SHAPE, (operands[label],))
        if loc is not None:
            made = Loc(leading, shape(loc, b, c, ""), (operands[file], operands[row], operands[column]))
        else:
            elements = data.split(",")
            commas = [","] * (len(elements) - 1)
            made = Data(leading, shape("", gap, *commas, ""), (self._data_type(data_type), *map(operands.__getitem__, elements)))
        self.lines[key] = made
        return made

    def _data_type(self, text: str) -> DataType:
        return self.data_types.get(text) or self.data_types.setdefault(text, DataType(text))

    def _brace(self, comments: str, line: str) -> None:
        """Begins a block, or ends as many as there are closing braces."""
        brace = line.lstrip()
        leading = comments + line[: -len(brace)]
        if brace == "{":
            self.stack.append((self.draft, leading))
            self.draft = Draft()
            return
        while self.stack and brace:
            self._close(leading + "}")
            leading, brace = "", brace[1:]
        if brace:
            self.draft.add(Error(leading, brace, "`}` closes nothing", 0, "E003"))

    def _close(self, close: str) -> None:
        """Ends the innermost block that is open. It follows the statements around it: as the body of a header, if one stands before it."""
        outer, leading = self.stack.pop()
        block = Block(leading, self.draft.code(), close)
        before = outer.last
        if type(before) is Header:
            outer.replace_last(Function((before, block)))
        elif type(before) is SectionHeader:
            outer.replace_last(Section((before, block)))
        else:
            outer.add(block)
        self.draft = outer

    def other(self, leading: str, at: int) -> int:
        """Takes one statement that the fast path does not know, adds its node, and returns where it ends."""
        text = self.text
        line = _LINE.match(text, at)
        if line is not None:
            self.draft.add(Line(leading, shape(line[0]), ()))
            return line.end()
        quick = _QUICK.match(text, at)
        if quick is not None:
            statement = self.repeated.get((leading, quick[0])) or self._quickly(leading, quick[0])
            if statement is not None:
                self._add(statement)
                return quick.end()
        cutter = Cutter(text, at)
        try:
            rule = self._cut(cutter)
            plan = self._plan(rule, cutter.shape()) if rule else Failure(-1, 0)
            if plan is None:
                plan = _plainly(rule, text[at : cutter.end], leading)
            unended = type(plan) is Failure and self._wants_semicolon(rule, cutter)
        except Hopeless as trouble:
            body = rest_of_statement(text, at, cutter.end)
            self._add(Error(leading, body, str(trouble), 0))
            return at + len(body)
        if type(plan) is Plan:
            plan = build_statement(plan, leading, cutter.slots, self.operands)
        if isinstance(plan, Node):
            self._add(plan)
            return cutter.end
        if unended and self._begins_statement(cutter):
            error = missing_semicolon(leading, text[at : cutter.end])
        else:
            error = refused(leading, text, at, cutter, None if unended else plan)
        self.effort.waste += len(cutter.key)
        self._add(error)
        return at + len(error.body_text)

    def _add(self, statement: Node) -> None:
        if type(statement) is Header and statement.shape.literals[-1].endswith(";"):
            statement = Function((statement,))
        self.draft.add(statement)

    def _quickly(self, leading: str, text: str) -> Node | None:
        """The directive that a text without comments seems to be, shared with all that are the same; None if it is for the careful path."""
        cut = shapes.cut(text)
        if cut is None:
            return None
        key, slots = cut
        try:
            plan = self._plan("directive", key)
        except Hopeless:
            return None
        if type(plan) is not Plan:
            return None
        statement = self.repeated[leading, text] = build_statement(plan, leading, slots, self.operands)
        return statement

    def _plan(self, rule: str, key: Key) -> Any:
        """The plan for a shape. The grammar is not asked twice for what it refused, nor at all once too much was refused."""
        known = self.effort.failures.get((rule, key))
        if known is not None:
            return known
        if self.effort.waste > MAX_WASTE:
            raise Hopeless("not looked at, after so many errors")
        plan = shapes.plan(rule, key)
        if type(plan) is Failure:
            self.effort.waste += 10 + len(key)
            self.effort.failures[rule, key] = plan
        return plan

    def _wants_semicolon(self, rule: str, cutter: Cutter) -> bool:
        """Whether nothing but its semicolon is missing from a statement."""
        if not rule or cutter.brackets or cutter.unmatched or self.effort.waste > MAX_WASTE:
            return False
        *pieces, last = cutter.shape()
        return not last.endswith(";") and type(self._plan(rule, (*pieces, last + ";"))) is Plan

    def _begins_statement(self, cutter: Cutter) -> bool:
        """Whether what the cutter looks at looks like another statement, rather than more of the same."""
        if "\n" in cutter.trivia or cutter.token in _NEW_STATEMENT or cutter.kind == KEYWORD_TOKEN:
            return True
        return cutter.kind == NAME_TOKEN and self.text.startswith(".", cutter.at + len(cutter.token))

    def _cut(self, cutter: Cutter) -> str:
        """Takes the tokens of the statement that starts here, and gives the grammar's rule for it; no rule if it can be none."""
        if cutter.token == ";":
            cutter.take()
            return "directive"
        if cutter.kind == KEYWORD_TOKEN:
            self._cut_directive(cutter)
            return "directive"
        if cutter.token == "@":
            cutter.take()
            if cutter.token == "!":
                cutter.take()
            if cutter.kind != NAME_TOKEN:
                return ""
            cutter.take()
        if cutter.kind != NAME_TOKEN:
            return ""
        return self._cut_instruction(cutter)

    def _cut_instruction(self, cutter: Cutter) -> str:
        text = self.text
        if _LABEL_AHEAD.match(text, cutter.at):
            cutter.take()
            cutter.take()
            return "label"
        opcode = _OPCODE_AHEAD.match(text, cutter.at)
        if opcode is None:
            return ""
        cutter.take_whole("o", opcode[0], opcode.end())
        if "\n" in cutter.trivia and _INSTRUCTION_AHEAD.match(text, cutter.at):
            return "instruction"
        after_value = after_keyword = False
        while True:
            kind, token = cutter.kind, cutter.token
            if kind == END or (kind >= UNCLOSED and kind != OTHER) or (token == "}" and not cutter.brackets):
                return "instruction"
            value = kind in _VALUES
            if after_value and (value or token in _STARTING):
                return "instruction"
            if kind == KEYWORD_TOKEN and (token in _BEGINNING or token in _SPACES) and "\n" in cutter.trivia:
                return "instruction"
            cutter.take()
            if token == ";":
                return "instruction"
            # what follows the type in `(.s64) a` belongs to it
            after_value = value or kind == KEYWORD_TOKEN or token in "]}" or (token == ")" and not after_keyword)
            after_keyword = kind == KEYWORD_TOKEN

    def _cut_directive(self, cutter: Cutter) -> None:
        word = cutter.token
        if word in _KNOWN or word[2:].isdecimal():
            cutter.take()
        else:
            cutter.take_whole("k", word, cutter.at + len(word))
        if word in _LINE_DIRECTIVES or word in _DATA_WORDS:
            self._cut_line(cutter, word)
            return
        header = word in _HEADER_WORDS
        unplaced = word == ".align" or word in _LINKAGES
        last_kind, last = KEYWORD_TOKEN, word
        while True:
            kind, token = cutter.kind, cutter.token
            outside = not cutter.brackets
            if kind == END or (kind >= UNCLOSED and kind != OTHER) or (outside and token == "}"):
                return
            if token == "{" and outside and last == "=":
                braces = self.initializers.braces(self.text, cutter.at)
                if braces is not None:
                    cutter.take_whole("b", *braces)
                    last_kind, last = OTHER, "}"
                    continue
            if token == "{" and outside and last not in _BEFORE_BRACES:
                return
            is_space = unplaced and token in _SPACES
            if kind == KEYWORD_TOKEN and not is_space and not self._may_follow(token, last_kind, last, header, cutter):
                return
            unplaced = unplaced and (kind == NUMBER_TOKEN or token == ".align" or token in _LINKAGES)
            value = kind in _VALUES
            if outside and (value or token == "@") and (last_kind in _VALUES or last in _ENDING) and not (header and last == ")"):
                return
            cutter.take()
            if token == ";" and not (header and last_kind == STRING_TOKEN):
                return
            header = header or token in _HEADER_WORDS
            last_kind, last = kind, token

    def _may_follow(self, word: str, last_kind: int, last: str, header: bool, cutter: Cutter) -> bool:
        """Whether a directive's word can stand here within a directive, rather than begin the next one."""
        if last in _LINKAGES:
            return True
        if word in _BEGINNING:
            return False
        if word in _SPACES:
            in_parameters = bool(cutter.brackets) and cutter.brackets[-1][0] == "(" and word in (".param", ".reg")
            return in_parameters or last == ".ptr"
        return header or bool(cutter.brackets) or not (last_kind == NAME_TOKEN or last in ("]", ">"))

    def _cut_line(self, cutter: Cutter, word: str) -> None:
        """A directive that no semicolon ends: it goes on as long as its next token can belong to it."""
        data = word in _DATA_WORDS
        last = word
        while True:
            kind, token = cutter.kind, cutter.token
            open_ended = last in _JOINING or last in shapes.RESERVED
            if token in _JOINING or (kind == NAME_TOKEN and token in shapes.RESERVED):
                joins = True
            elif kind in (NAME_TOKEN, KEYWORD_TOKEN):
                joins = open_ended or (last is word and (data or word in _NAMING))
            elif kind in (NUMBER_TOKEN, RUN_TOKEN, STRING_TOKEN):
                joins = not data or open_ended or last is word
            else:
                joins = data and token == ";"
            if not joins:
                return
            cutter.take()
            if token == ";":
                return
            last = token


_VALUES = frozenset({RUN_TOKEN, STRING_TOKEN, NUMBER_TOKEN, NAME_TOKEN})
_STARTING = frozenset("@{[")
"""What cannot follow an operand, so begins something else."""
_NEW_STATEMENT = frozenset({"", "@", "}"})
_ENDING = frozenset(")]}>")
_BEFORE_BRACES = frozenset("=,")
_LINKAGES = frozenset({".visible", ".extern", ".weak", ".common"})
_HEADER_WORDS = frozenset({".entry", ".func", ".callprototype"})
_SPACES = frozenset({".reg", ".sreg", ".const", ".global", ".local", ".param", ".shared", ".tex"})
_DATA_WORDS = frozenset({".b8", ".b16", ".b32", ".b64"})
_LINE_DIRECTIVES = frozenset({".version", ".target", ".address_size", ".file", ".loc", ".section"})
_BEGINNING = _LINKAGES | _HEADER_WORDS | _LINE_DIRECTIVES | {".alias", ".branchtargets", ".calltargets"}
"""The words that only stand at the start of a statement, or behind a linkage."""
_KNOWN = _BEGINNING | _SPACES | _DATA_WORDS | {".pragma", ".align", ".ptr", ".attribute"}
"""The words that the grammar knows at the start of a directive: any other is as good as the next."""
_NAMING = frozenset({".target", ".section"})
_JOINING = frozenset({",", "+", "-"})
_LINE = expression(r"(?:#|@@DWARF\b)[^\n]*+")
_LABEL_AHEAD = expression(rf"{lexical.NAME}{lexical.TRIVIA}*+:(?!:)")
_OPCODE_AHEAD = expression(lexical.OPCODE)
_INSTRUCTION_AHEAD = expression(rf"{lexical.NAME}(?:\.(?!(?:[xyzwrgba]|[bh][0-9])[ \t]*+[,;|])[A-Za-z]|[ \t]++[A-Za-z%$_\[{{(])")
"""What looks like an instruction, and not like the first operand of one: `v.x,`."""
_WHITE = " \t\r\n\f\v"
_SPACE = expression(rf"{lexical.TRIVIA}*+")


def _plainly(rule: str, text: str, leading: str) -> Node | Failure:
    """The statement by the grammar alone. Raises Hopeless."""
    from parsimonious.exceptions import ParseError

    try:
        return plain(rule, text, leading)
    except ParseError as error:
        return Failure(-1, error.pos)
    except RecursionError:
        raise Hopeless("an expression nested too deep") from None


def _leading(text: str, at: int) -> str:
    """The white space and the comments from `at` on."""
    match = _SPACE.match(text, at)
    assert match is not None
    return match[0]


def _space_end(text: str, at: int) -> int:
    return at + len(_leading(text, at))


def _length(rows: list[Row]) -> int:
    """How much text these statements take, with the semicolons of instructions."""
    return sum([sum(map(len, row)) + bool(row[1]) for row in rows])
