"""What a change of layout leaves as it was."""

from __future__ import annotations

from ptxkit.isa.binding import split_opcode
from ptxkit.spacing import COMMENT
from ptxkit.syntax.nodes import Block, Leaf, Module, Node, Opcode
from ptxkit.syntax.shapes import END, TOKEN


def content(module: Module) -> list[str]:
    """The tokens and the comments of a module in order, without white space; modifiers are sorted."""
    found: list[str] = []
    stack: list[Node | str] = [module]
    while stack:
        piece = stack.pop()
        if isinstance(piece, Opcode):
            mnemonic, modifiers = split_opcode(piece.text)
            found.append(mnemonic + "".join(sorted(modifiers)))
        elif isinstance(piece, Leaf):
            found += piece.text.replace(",", " , ").split() if "," in piece.text and '"' not in piece.text else [piece.text]
        elif isinstance(piece, str):
            found += _tokens(piece)
        else:
            stack += reversed([*piece.pieces(), *(["}"] if isinstance(piece, Block) and not piece.close else [])])
    return found


def _tokens(literal: str) -> list[str]:
    found: list[str] = []
    at = 0
    while at < len(literal):
        match = TOKEN.match(literal, at)
        assert match is not None
        found += ["".join(comment.split()) for comment in COMMENT.findall(match[1])]
        kind = match.lastindex or END
        if kind != END:
            found.append(match[kind].rstrip())
        at = match.end()
    return found
