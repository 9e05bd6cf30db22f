"""Instructions as typed runs of text, for coloring."""

from __future__ import annotations

import enum
import re
from collections.abc import Iterable, Iterator

from ptxkit.analyses.framework.routine import Routine
from ptxkit.analyses.registers.registers import registers
from ptxkit.frozen import frozen
from ptxkit.isa.registers import special_register
from ptxkit.memo import expression
from ptxkit.names import Kind, Scope
from ptxkit.syntax import Component, Group, Instruction, Name, Node, Number, Opcode, Vector

COMMENT = expression(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
MOST_ELEMENTS = 4
"""Maximum number of elements of a list in a picture; beyond that, those in the middle are omitted."""


class Class(enum.StrEnum):
    """The kind of a run of text."""

    PLAIN = "ink"
    OPCODE = "opcode"
    MODIFIER = "modifier"
    REGISTER = "register"
    SPECIAL = "special"
    NUMBER = "number"
    LABEL = "label"
    SYMBOL = "symbol"
    COMMENT = "comment"


@frozen
class Token:
    """A run of text. `variable` numbers the registers by name (a vector and its parts are one); -1 for anything else."""

    kind: Class
    text: str
    variable: int = -1


@frozen
class Variable:
    """A register as written, with its numbers in the analyses: several for a vector."""

    name: str
    type: str
    numbers: tuple[int, ...]


def short(text: str, most: int) -> str:
    """The text, with its middle omitted if it is longer than `most` characters."""
    if len(text) <= most:
        return text
    tail = most // 3
    return f"{text[: most - tail - 1]}…{text[-tail:]}"


def clip(tokens: Iterable[Token], most: int) -> tuple[Token, ...]:
    """The tokens that fit into `most` characters, then an ellipsis if there are more."""
    kept: list[Token] = []
    left = most
    for token in tokens:
        left -= len(token.text)
        if left < 0:
            return (*kept, Token(Class.COMMENT, " …"))
        kept.append(token)
    return tuple(kept)


class Tokenizer:
    """Splits the instructions of a function into tokens. Instructions share equal operands, so each is split once for each scope."""

    def __init__(self, routine: Routine) -> None:
        self.routine = routine
        self.variables: list[Variable] = []
        self._known: dict[tuple[int, int, bool], tuple[Token, ...]] = {}
        self._by_symbol: dict[tuple[int, str], int] = {}
        groups: dict[tuple[int, str], list[int]] = {}
        table = registers(routine).table
        for number, register in enumerate(table):
            groups.setdefault((id(register.symbol), _base(register.name)), []).append(number)
        for key, numbers in groups.items():
            self._by_symbol[key] = len(self.variables)
            self.variables.append(Variable(key[1], table[numbers[0]].type, tuple(numbers)))
        self._scopes = [routine.names.scope_of(routine.where(i)) for i in _starts(routine)]
        self._scope_of = [k for k, (start, end, _) in enumerate(routine.runs) for _ in range(start, end)]

    def __call__(self, i: int, whole: bool = False) -> tuple[Token, ...]:
        """The tokens of instruction `i`, on one line; lists and names are shortened unless `whole`."""
        instruction: Instruction = self.routine.instructions[i]
        scope = self._scopes[self._scope_of[i]]
        tokens: list[Token] = []
        literals = instruction.shape.literals
        _plain(tokens, literals[0])
        for child, literal in zip(instruction.children, literals[1:], strict=True):
            tokens += self._operand(scope, child, whole)
            _plain(tokens, literal)
        while tokens and tokens[-1].kind is Class.PLAIN and not tokens[-1].text.strip(" ;"):
            tokens.pop()
        return tuple(tokens)

    def _operand(self, scope: Scope, operand: Node, whole: bool) -> tuple[Token, ...]:
        key = (id(scope), id(operand), whole)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = tuple(self._tokens(scope, operand, whole))
        return found

    def _tokens(self, scope: Scope, operand: Node, whole: bool) -> list[Token]:
        tokens: list[Token] = []
        stack: list[Node | str] = [operand]
        while stack:
            piece = stack.pop()
            if isinstance(piece, str):
                _plain(tokens, piece)
            elif isinstance(piece, Component) and special_register(piece.text) is not None:
                tokens.append(Token(Class.SPECIAL, piece.text))
            elif piece.children:
                stack.extend(reversed(list(_pieces(piece, whole))))
            else:
                tokens += self._leaf(scope, piece, whole)
        return tokens

    def _leaf(self, scope: Scope, leaf: Node, whole: bool) -> Iterator[Token]:
        text = str(leaf.text)
        if isinstance(leaf, Opcode):
            stem, dot, rest = text.partition(".")
            yield Token(Class.OPCODE, stem)
            if dot:
                yield Token(Class.MODIFIER, dot + rest)
            return
        shown = text if whole else short(text, 40)
        if isinstance(leaf, Number):
            yield Token(Class.NUMBER, shown)
        elif not isinstance(leaf, Name):
            yield Token(Class.MODIFIER if text.startswith(".") else Class.PLAIN, shown)
        else:
            yield self._name(scope, text, shown)

    def _name(self, scope: Scope, name: str, shown: str) -> Token:
        symbol = scope.lookup(name)
        if symbol is None and special_register(name) is not None:
            return Token(Class.SPECIAL, shown)
        variable = self._by_symbol.get((id(symbol), name), -1)
        if variable >= 0:
            return Token(Class.REGISTER, shown, variable)
        return Token(Class.LABEL if symbol is not None and symbol.kind is Kind.LABEL else Class.SYMBOL, shown)


def _starts(routine: Routine) -> list[int]:
    return [start for start, _, _ in routine.runs]


def _base(name: str) -> str:
    return name.partition(".")[0] if not name.startswith("CC.") else name


def _plain(tokens: list[Token], text: str) -> None:
    """Adds the text between operands: white space as one space, comments removed."""
    if not text:
        return
    if "/" in text:
        text = COMMENT.sub(" ", text)
    text = re.sub(r"\s+", " ", text).replace("( ", "(").replace(" )", ")").replace("[ ", "[").replace(" ]", "]")
    if text:
        tokens.append(Token(Class.PLAIN, text))


def _pieces(node: Node, whole: bool) -> Iterator[Node | str]:
    """The pieces of a node; of a long list, only the first and last elements."""
    left_out = len(node.children) - MOST_ELEMENTS if isinstance(node, Vector | Group) and not whole else 0
    if left_out <= 1:
        yield from node.pieces()
        return
    pieces = list(node.pieces())
    yield from pieces[: 2 * (MOST_ELEMENTS // 2) + 1]
    yield f"… {left_out} more, "
    yield from pieces[2 * (MOST_ELEMENTS // 2 + left_out) + 1 :]
