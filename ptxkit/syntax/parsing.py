"""From text to a module; never raises on any text.

The scanner knows where statements begin and end, and takes the commonest ones (an instruction on one line, a label, a brace) apart
with one regular expression; operands are looked up by their text. Everything else is cut into a shape and its slots. What the grammar
refuses becomes an `Error` node, and parsing goes on behind it.
"""

from __future__ import annotations

import re
from typing import Any

from ptxkit.memo import collector_paused
from ptxkit.syntax import lexical, nodes, shapes
from ptxkit.syntax.initializers import Initializers
from ptxkit.syntax.lexical import END, KEYWORD_TOKEN, NAME_TOKEN, NOT, NUMBER_TOKEN, OTHER, RUN_TOKEN, STRING_TOKEN, UNCLOSED
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
    shape,
)
from ptxkit.syntax.plans import Key, Plan
from ptxkit.syntax.recovery import missing_semicolon, refused, rest_of_statement
from ptxkit.syntax.shapes import Cutter, Failure, Hopeless, build, build_statement

MAX_DEPTH = 100
"""Blocks may be nested this deep; no compiler comes near."""

MAX_WASTE = 300_000
"""So many tokens of broken statements may be looked at twice or given to the grammar in vain; after that, statements of a shape that the
file has not had before are given up without a look."""

_LINE_BREAK = r"(?:(?<=[,(])|(?<=[,(][ ]))\r?\n|\r?\n(?=[ \t]*+[){(])"
"""An end of line within the operands: where they go on for sure, so that a missing semicolon does not lead on."""

_GAP = rf"(?:[ \t]++(?:\r?\n[ \t]++|{NOT})?+|\r?\n[ \t]++)"
_OPCODE = rf"[A-Za-z_][A-Za-z0-9_]*+(?:\.[A-Za-z0-9_]++{lexical.PARTS}|{NOT})*+"
_GUARD = r"@!?(?:[A-Za-z]|[_$%][A-Za-z0-9_$])[A-Za-z0-9_$]*+"
_DATA_LIST = rf"((?:[0-9]++|[A-Za-z_$%][A-Za-z0-9_$]++)(?:,(?:[0-9]++|[A-Za-z_$%][A-Za-z0-9_$]++)|{NOT})*+)"
"""Numbers and names of a line of DWARF data."""

_STATEMENT = re.compile(
    rf"""((?:[ \t\r\n\f\v]*+(?://[^\n]*+|{lexical.COMMENT})|{NOT})*+)
    (?: ([ \t\r\n\f\v]*+(?:{_GUARD}[ \t]++|{NOT})?+{_OPCODE}(?:{_GAP}(?![:;\s])|(?=;)))
        ([^;"/\n{{}}]*+(?:(?:\{{[^;"/\n{{}}]*+\}}|{_LINE_BREAK})[^;"/\n{{}}]*+|{NOT})*+);
      | ([ \t\r\n\f\v]*+)
        (?: ((?:[A-Za-z_]|[%$][A-Za-z0-9_$])[A-Za-z0-9_$]*+):(?!:)
          | (\{{|\}}++)
          | (\.loc[ \t]++)([0-9]++)([ \t])([0-9]++)([ \t])([0-9]++)(?=[ \t\r]*+(?:\n|//))
          | (\.b(?:8|16|32|64))([ \t]++)(?:([0-9]++)(?=[ \t\r]*+(?:\n|//))|{_DATA_LIST}(?=[ \t]*+\r?\n[ \t]*+\.))
          | (.)
          | {NOT}
        )?+
    )""",
    re.S | re.X,
)
"""A statement and what leads it: comments, white space. An instruction has the white space, its guard and its opcode in one group, the
head, since a file repeats them."""
_COMMENTS, _HEAD, _ARGUMENTS, _SPACE_BEFORE, _LABEL, _BRACE, _LOC, _OTHER = 1, 2, 3, 4, 5, 6, 12, 17
_DATA = (15, 16)

_HEAD_PARTS = re.compile(rf"([ \t\r\n\f\v]*+)(?:({_GUARD})([ \t]++)|{NOT})?+({_OPCODE})(.*+)", re.S)

_QUICK = re.compile(
    rf"""\.(?:reg|local|shared|global|const|param|extern|weak|common|pragma)\b[^;{{}}"/\n@]{{0,5000}}+(?:"[^"\\\n]*+"[ ]*+|{NOT})?+;
      | (?:\.(?:visible|extern|weak)\s++|{NOT})?+\.(?:entry|func)\b
        (?:[^;{{}}"/@\s]++|\s++(?!\{{|\.(?:visible|extern|weak|entry|func)\b)|{NOT}){{1,2000}}+(?:;|(?=\s*+\{{))
      | \.(?:version|target|address_size)[ ]++[0-9A-Za-z_.]++(?=\r?\n)(?!\s*+[,/])""",
    re.X,
)
"""Directives of the commonest layouts. What it takes for one statement is tried, and cut with care if the grammar refuses it."""

_PIECE = re.compile(
    rf"((?:[^,{{}}\[\]()\s]|\{{[^{{}}]*+\}}|\[[^\[\]]*+\]|\([^()]*+\)|\s++(?![,\s]|\Z)|{NOT})++)(\s*+,\s*+|\s*+\Z)", re.ASCII
)
"""An operand, and the comma behind it with the white space around it."""
_LEAF = re.compile(rf"(-?{lexical.NUMBER})|{lexical.NAME}")
_SIMPLE_ADDRESS = re.compile(rf"\[({lexical.NAME})(?:\+(-?[0-9]++)|{NOT})?+\]")
_FLAT_VECTOR = re.compile(rf"\{{([%$_0-9A-Za-z]++(?:, [%$_0-9A-Za-z]++|{NOT})*+)\}}")
_BARE_ADDRESS, _OFFSET_ADDRESS = shape("[", "]"), shape("[", "+", "]")
_LABEL_SHAPE = shape("", ":")


# What attrs' frozen __init__ does, without its detour: two thirds of the time of parsing went there (benchmarks/parse.py).
_new = object.__new__
_set_text = nodes.Leaf.text.__set__  # type: ignore[attr-defined]
_set_leading = nodes.Statement.leading.__set__  # type: ignore[attr-defined]
_set_shape = nodes.Statement.shape.__set__  # type: ignore[attr-defined]
_set_children = nodes.Statement.children.__set__  # type: ignore[attr-defined]


class _Irregular(Exception):
    """An operand that is not in the layout that the fast path knows."""


class _Operands(dict[str, Node]):
    """Operands by their text; each is parsed once in a file."""

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
            if offset is None:
                made = nodes.Address(_BARE_ADDRESS, (self[base],))
            else:
                made = nodes.Address(_OFFSET_ADDRESS, (self[base], self[offset]))
        elif first == "{" and (vector := _FLAT_VECTOR.fullmatch(text)) is not None:
            elements = tuple([self[element] for element in vector[1].split(", ")])
            made = nodes.Vector(shape("{", *[", "] * (len(elements) - 1), "}"), elements)
        elif (leaf := _LEAF.fullmatch(text)) is not None:
            made = Number(text) if leaf[1] is not None else Name(text)
        elif "," in text and first not in _BRACKETS:
            raise _Irregular
        else:
            made = self._shaped(text)
        self[text] = made
        return made

    def _shaped(self, text: str) -> Node:
        if not text or text[0].isspace() or text[-1].isspace() or _hopeless(text):
            raise _Irregular
        cut = shapes.cut(text)
        plan = shapes.plan("operand", cut[0]) if cut else None
        if cut is None or plan is None or isinstance(plan, Failure):
            raise _Irregular
        return build(plan, cut[1], self)


_SIGILS, _BRACKETS = frozenset("%_$"), frozenset("[{(")


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


class _Interned(dict[str, Any]):
    """Nodes by their text, made by a function of it."""

    def __init__(self, make: Any) -> None:
        super().__init__()
        self.make = make

    def __missing__(self, text: str) -> Any:
        made = self[text] = self.make(text)
        return made


class _Forms(dict[int | tuple[str, ...], nodes.Shape]):
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


class _Heads(dict[str, tuple[str, tuple[Node, ...], _Forms]]):
    """What an instruction has before its operands, by the text: white space, the guard and the opcode, and the shapes there are."""

    def __init__(self) -> None:
        super().__init__()
        self.guards, self.opcodes = _Interned(_make_guard), _Interned(_make_opcode)
        self.leadings: dict[str, str] = {}
        self.forms: dict[tuple[str | None, str], _Forms] = {}

    def __missing__(self, text: str) -> tuple[str, tuple[Node, ...], _Forms]:
        m = _HEAD_PARTS.fullmatch(text)
        assert m is not None
        space, guard, guard_gap, opcode, gap = m.groups()
        before: tuple[Node, ...] = (self.opcodes[opcode],) if guard is None else (self.guards[guard], self.opcodes[opcode])
        forms = self.forms.get((guard_gap, gap))
        if forms is None:
            forms = self.forms[guard_gap, gap] = _Forms(guard_gap, gap)
        made = self[text] = (self.leadings.setdefault(space, space), before, forms)
        return made


def _make_guard(text: str) -> Guard:
    start = 2 if text[1] == "!" else 1
    return Guard(shape(text[:start], ""), (Name(text[start:]),))


def _make_opcode(text: str) -> Opcode:
    made = _new(Opcode)
    _set_text(made, text)
    return made


def parse(text: str, path: str | None = None) -> Module:
    """Parses a text into a module. `module.text == text` holds for any text, and `module.diagnostics` has its syntax errors.

    `path` is only remembered. Positions in diagnostics count characters. Never raises on bad text;
    raises TypeError for what is no string.

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
        return _Parser(text).module(path)


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
    try:
        return _Operands()[text]
    except (_Irregular, Hopeless):
        raise ValueError(f"not an operand: {text!r}") from None


class _Parser:
    """One run over a text. Blocks that are open stand on a stack; nothing recurses into them."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.operands = _Operands()
        self.initializers = Initializers(self.operands)
        self.waste = 0
        self.repeated: dict[tuple[str, str], Node] = {}
        self.failures: dict[tuple[str, Key], Failure] = {}

    def module(self, path: str | None) -> Module:
        text, operands = self.text, self.operands
        heads, data_types = _Heads(), _Interned(DataType)
        share = heads.leadings.setdefault
        operand = operands.__getitem__
        statements: list[Node] = []
        stack: list[tuple[list[Node], str]] = []
        at: int | None = 0
        while at is not None:
            for m in _STATEMENT.finditer(text, at):
                kind = m.lastindex
                if kind == _ARGUMENTS:
                    comments, head, arguments = m.group(_COMMENTS, _HEAD, _ARGUMENTS)
                    leading, before, forms = heads[head]
                    tail_gaps: int | tuple[str, ...]
                    try:
                        if "{" in arguments or "(" in arguments:
                            pieces, tail_gaps = _split(arguments)
                        else:
                            pieces = arguments.split(", ") if arguments else []
                            tail_gaps = len(pieces)
                        try:
                            children = (*before, *map(operand, pieces))
                        except _Irregular:
                            pieces, tail_gaps = _split(arguments)
                            children = (*before, *map(operand, pieces))
                    except (_Irregular, Hopeless):
                        at = self.other(comments + leading, m.start(_HEAD) + len(leading), statements)
                        break
                    if comments:
                        leading = share(comments + leading, comments + leading)
                    instruction = _new(Instruction)
                    _set_leading(instruction, leading)
                    _set_shape(instruction, forms[tail_gaps])
                    _set_children(instruction, children)
                    statements.append(instruction)
                    continue
                leading = m[_COMMENTS] + m[_SPACE_BEFORE]
                leading = share(leading, leading)
                if kind == _LABEL:
                    statements.append(Label(leading, _LABEL_SHAPE, (operands[m[_LABEL]],)))
                elif kind == _BRACE:
                    brace = m[_BRACE]
                    if brace == "{":
                        if len(stack) == MAX_DEPTH:
                            statements.append(Error(leading, text[m.start(_BRACE) :], f"blocks nested deeper than {MAX_DEPTH}", 0))
                            at = len(text)
                            break
                        stack.append((statements, leading))
                        statements = []
                        continue
                    while stack and brace:
                        statements = _closed(stack, statements, leading + "}")
                        leading, brace = "", brace[1:]
                    if brace:
                        statements.append(Error(leading, brace, "`}` closes nothing", 0, "E003"))
                elif kind == _LOC:
                    word, file, b, line, c, column = m.group(*range(_LOC - 5, _LOC + 1))
                    statements.append(Loc(leading, shape(word, b, c, ""), (operands[file], operands[line], operands[column])))
                elif kind in _DATA:
                    word, gap = m.group(_DATA[0] - 2, _DATA[0] - 1)
                    elements = m[kind].split(",")
                    parts = (data_types[word], *map(operand, elements))
                    statements.append(Data(leading, shape("", gap, *[","] * (len(elements) - 1), ""), parts))
                elif kind == _OTHER:
                    at = self.other(leading, m.start(_OTHER), statements)
                    if stack and type(statements[-1]) is Header and text.startswith("{", _space_end(text, at)):
                        # no function stands in another: the brace at the end of the one before is missing
                        header_of_next = statements.pop()
                        while stack:
                            statements = _closed(stack, statements, "")
                        statements.append(header_of_next)
                    elif not stack and _is_declared_only(statements[-1]) and not text.startswith("{", _space_end(text, at)):
                        statements[-1] = Function((statements[-1],))
                    break
                else:
                    at, trailing = None, leading
                    break
        while stack:
            statements = _closed(stack, statements, "")
        return Module(tuple(statements), trailing, path)

    def other(self, leading: str, at: int, statements: list[Node]) -> int:
        """Takes one statement that the fast path does not know, adds its node, and returns where it ends."""
        text = self.text
        line = _LINE.match(text, at)
        if line is not None:
            statements.append(Line(leading, shape(line[0]), ()))
            return line.end()
        quick = _QUICK.match(text, at)
        if quick is not None:
            statement = self.repeated.get((leading, quick[0])) or self._quickly(leading, quick[0])
            if statement is not None:
                return self._add(statements, statement, quick.end())
        cutter = Cutter(text, at)
        try:
            rule = self._cut(cutter)
            plan = self._plan(rule, cutter.shape()) if rule else Failure(-1, 0)
            if plan is None:
                plan = _plainly(rule, text[at : cutter.end], leading)
            unended = type(plan) is Failure and self._wants_semicolon(rule, cutter)
        except Hopeless as trouble:
            body = rest_of_statement(text, at, cutter.end)
            return self._add(statements, Error(leading, body, str(trouble), 0), at + len(body))
        if type(plan) is Plan:
            return self._add(statements, build_statement(plan, leading, cutter.slots, self.operands), cutter.end)
        if isinstance(plan, Node):
            return self._add(statements, plan, cutter.end)
        if unended and self._begins_statement(cutter):
            error = missing_semicolon(leading, text[at : cutter.end])
        else:
            error = refused(leading, text, at, cutter, None if unended else plan)
        self.waste += len(cutter.key)
        return self._add(statements, error, at + len(error.body_text))

    def _add(self, statements: list[Node], statement: Node, end: int) -> int:
        if type(statement) is Header and statement.shape.literals[-1].endswith(";"):
            statement = Function((statement,))
        statements.append(statement)
        return end

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
        known = self.failures.get((rule, key))
        if known is not None:
            return known
        if self.waste > MAX_WASTE:
            raise Hopeless("not looked at, after so many errors")
        plan = shapes.plan(rule, key)
        if type(plan) is Failure:
            self.waste += 10 + len(key)
            self.failures[rule, key] = plan
        return plan

    def _wants_semicolon(self, rule: str, cutter: Cutter) -> bool:
        """Whether nothing but its semicolon is missing from a statement."""
        if not rule or cutter.brackets or cutter.unmatched or self.waste > MAX_WASTE:
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
_LINE = re.compile(r"(?:#|@@DWARF\b)[^\n]*+")
_LABEL_AHEAD = re.compile(rf"{lexical.NAME}{lexical.TRIVIA}*+:(?!:)")
_OPCODE_AHEAD = re.compile(lexical.OPCODE)
_INSTRUCTION_AHEAD = re.compile(rf"{lexical.NAME}(?:\.(?!(?:[xyzwrgba]|[bh][0-9])[ \t]*+[,;|])[A-Za-z]|[ \t]++[A-Za-z%$_\[{{(])")
"""What looks like an instruction, and not like the first operand of one: `v.x,`."""
_SPACE = re.compile(rf"{lexical.TRIVIA}*+")


def _plainly(rule: str, text: str, leading: str) -> Node | Failure:
    """The statement by the grammar alone. Raises Hopeless."""
    from parsimonious.exceptions import ParseError

    try:
        return plain(rule, text, leading)
    except ParseError as error:
        return Failure(-1, error.pos)
    except RecursionError:
        raise Hopeless("an expression nested too deep") from None


def _space_end(text: str, at: int) -> int:
    """Where the white space and the comments from `at` on end."""
    match = _SPACE.match(text, at)
    assert match is not None
    return match.end()


def _split(arguments: str) -> tuple[list[str], tuple[str, ...]]:
    """The operands of an instruction and what follows each. Raises _Irregular if it is not as simple as that."""
    found = _PIECE.findall(arguments)
    pieces, tail_gaps = [piece for piece, _ in found], tuple([gap for _, gap in found])
    if not pieces or sum(map(len, pieces)) + sum(map(len, tail_gaps)) != len(arguments) or "," in tail_gaps[-1]:
        raise _Irregular
    return pieces, tail_gaps


def _is_declared_only(statement: Node) -> bool:
    """Whether the header of a function that is no kernel stands there: with no body it needs no semicolon, as ptxas reads it."""
    return type(statement) is Header and not statement.is_entry


def _closed(stack: list[tuple[list[Node], str]], statements: list[Node], close: str) -> list[Node]:
    """Ends the innermost block that is open, and gives the statements around it.

    The block follows them: together with the header that it is the body of, if it is one.
    """
    outer, opening = stack.pop()
    block = Block(opening, tuple(statements), close)
    before = outer[-1] if outer else None
    if type(before) is Header:
        outer[-1] = Function((before, block))
    elif type(before) is SectionHeader:
        outer[-1] = Section((before, block))
    else:
        outer.append(block)
    return outer
