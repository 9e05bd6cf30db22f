"""A module as a sequence of classified tokens. Their texts concatenated are the text of the module."""

from __future__ import annotations

import enum
import re
from collections.abc import Iterator, Sequence

from ptxkit import names
from ptxkit.frozen import frozen
from ptxkit.isa.registers import special_register
from ptxkit.isa.types import is_type
from ptxkit.memo import expression
from ptxkit.names import Scope, resolve
from ptxkit.syntax import (
    Block,
    Component,
    Declarator,
    Error,
    Function,
    Header,
    Instruction,
    Keyword,
    Leaf,
    Line,
    Module,
    Name,
    Node,
    Number,
    Numbers,
    Opcode,
    Operator,
    Path,
    Section,
    Selector,
    String,
    lexical,
)


class Kind(enum.StrEnum):
    """The kind of a token."""

    SPACE = "space"
    COMMENT = "comment"
    DIRECTIVE = "directive"
    TYPE = "type"
    OPCODE = "opcode"
    MODIFIER = "modifier"
    REGISTER = "register"
    SPECIAL = "special"
    """A special register (10)."""
    NUMBER = "number"
    STRING = "string"
    LABEL = "label"
    FUNCTION = "function"
    VARIABLE = "variable"
    """A variable or parameter."""
    NAME = "name"
    """An undeclared name."""
    PUNCTUATION = "punctuation"
    ERROR = "error"
    """Text that is not PTX."""


@frozen
class Token:
    """A piece of text; `start` counts characters from 0."""

    kind: Kind
    text: str
    start: int


_KINDS = {
    names.Kind.REGISTER: Kind.REGISTER,
    names.Kind.VARIABLE: Kind.VARIABLE,
    names.Kind.PARAMETER: Kind.VARIABLE,
    names.Kind.LABEL: Kind.LABEL,
    names.Kind.FUNCTION: Kind.FUNCTION,
}
_TRIVIA = expression(r"(?P<space>[ \t\r\n\f\v]+)|(?P<comment>//[^\n]*|/\*[^*]*\*+(?:[^/*][^*]*\*+)*/)")
_NUMBERS = expression(r"(?P<space>\s+)|(?P<punctuation>,)|(?P<number>[^\s,]+)")

Piece = tuple[Kind, str]


def tokens(module: Module) -> Iterator[Token]:
    """The tokens of a module in order, white space and comments included. Accepts any text: each stretch that is not PTX is one ERROR."""
    at = 0
    for run in runs(module):
        for kind, text in run:
            yield Token(kind, text, at)
            at += len(text)


def runs(module: Module) -> Iterator[Sequence[Piece]]:
    """The kinds and texts of the tokens in order, as many at a time as belong to one part of the tree.

    Statements share the operands that they repeat, and so do their tokens: each is taken apart once in a scope, and once for all if it
    has no names.
    """
    scopes = resolve(module).scopes
    everywhere: dict[str | int, Sequence[Piece]] = {}
    within: dict[int, dict[str | int, Sequence[Piece]]] = {}
    stack: list[tuple[Path, Node | str, Scope]] = [((), module, scopes[()])]
    while stack:
        path, piece, scope = stack.pop()
        if isinstance(piece, Module | Function | Section | Block):
            inside: list[tuple[Path, Node | str, Scope]] = []
            own, i = scopes.get(path, scope), 0
            for part in piece.pieces():
                inside.append(((*path, i), part, own))
                i += not isinstance(part, str)
            stack += reversed(inside)
        elif isinstance(piece, Instruction):
            here = within.setdefault(id(scope), {})
            for part in piece.pieces():
                known, key = (everywhere, part) if isinstance(part, str) else (everywhere if type(part) is Opcode else here, id(part))
                run = known.get(key)
                if run is None:
                    run = known[key] = _run(part, scope)
                yield run
        else:
            yield _run(piece, scopes.get(path, scope) if isinstance(piece, Header) else scope)


def _run(part: Node | str, scope: Scope) -> Sequence[Piece]:
    """The tokens of a part of the tree that holds no statements."""
    if type(part) is Name:
        return ((_name(part.text, scope), part.text),)
    return [one for one in _pieces(part, scope) if one[1]]


def _pieces(whole: Node | str, scope: Scope) -> Iterator[Piece]:
    stack = [whole]
    while stack:
        piece = stack.pop()
        if isinstance(piece, str):
            yield from _literal(piece)
        elif isinstance(piece, Error):
            yield from _literal(piece.leading)
            yield Kind.ERROR, piece.body_text
        elif isinstance(piece, Line):
            yield from _literal(piece.leading)
            yield Kind.DIRECTIVE, piece.body_text
        elif isinstance(piece, Leaf):
            yield from _leaf(piece, scope)
        elif isinstance(piece, Component) and special_register(piece.text) is not None:
            yield Kind.SPECIAL, piece.text
        elif isinstance(piece, Declarator):
            # the parameters of a function without a body have no scope
            name = piece.name.text
            yield Kind.VARIABLE if scope.lookup(name) is None else _name(name, scope), name
            stack += reversed(list(piece.pieces())[2:])
        else:
            stack += reversed(list(piece.pieces()))


def _leaf(leaf: Leaf, scope: Scope) -> Iterator[Piece]:
    text = leaf.text
    if isinstance(leaf, Name):
        yield _name(text, scope), text
    elif isinstance(leaf, Number):
        yield Kind.NUMBER, text
    elif isinstance(leaf, Opcode):
        yield from _opcode(text)
    elif isinstance(leaf, Numbers):
        yield from [(Kind(match.lastgroup or ""), match[0]) for match in _NUMBERS.finditer(text)]
    elif isinstance(leaf, String):
        yield Kind.STRING, text
    elif isinstance(leaf, Operator):
        yield Kind.PUNCTUATION, text
    elif isinstance(leaf, Keyword):
        yield Kind.MODIFIER if isinstance(leaf, Selector) else Kind.TYPE if is_type(text) else Kind.DIRECTIVE, text
    else:
        yield Kind.NAME, text


def _name(name: str, scope: Scope) -> Kind:
    symbol = scope.lookup(name)
    if symbol is not None:
        return _KINDS[symbol.kind]
    if special_register(name) is not None:
        return Kind.SPECIAL
    # in a fragment without declarations, follow the naming of compilers
    return Kind.REGISTER if name.startswith("%") else Kind.LABEL if name.startswith("$L") else Kind.NAME


def _opcode(text: str) -> Iterator[Piece]:
    mnemonic, *modifiers = re.split(r"([ \t]*\.)", text)
    yield Kind.OPCODE, mnemonic
    for dot, word in zip(modifiers[::2], modifiers[1::2], strict=True):
        yield Kind.SPACE, dot[:-1]
        yield Kind.TYPE if is_type("." + word) else Kind.MODIFIER, "." + word


def _literal(text: str) -> Iterator[Piece]:
    """The tokens of the text around nodes: white space, comments, punctuation and directive words."""
    at = 0
    while at < len(text):
        match = lexical.TOKEN.match(text, at)
        assert match is not None
        yield from [(Kind(trivia.lastgroup or ""), trivia[0]) for trivia in _TRIVIA.finditer(match[1])]
        group = match.lastindex or lexical.END
        if group != lexical.END:
            word = match[group]
            yield Kind.DIRECTIVE if word[0] == "." or word[0].isalpha() else Kind.PUNCTUATION, word
        at = match.end()
