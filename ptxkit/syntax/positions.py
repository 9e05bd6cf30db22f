"""Positions of nodes, computed from the tree on demand, since nodes do not store them."""

from __future__ import annotations

import bisect
import functools
from collections.abc import Iterator, Sequence

from ptxkit.diagnostics import Span
from ptxkit.memo import per_object
from ptxkit.syntax.statements import Block, Error, Headed, Statement
from ptxkit.syntax.tree import Container, Node, Path


def line_starts(text: str) -> list[int]:
    """The offset of each line."""
    starts = [0]
    at = text.find("\n")
    while at >= 0:
        starts.append(at + 1)
        at = text.find("\n", at + 1)
    return starts


class Index:
    """Positions in a module's text. Construction prints the module once; queries are then cheap."""

    def __init__(self, module: Container) -> None:
        self.module = module
        texts: list[str] = []
        at = 0
        # by block, section or function, the start of its children
        own: list[int] = []
        self._children: dict[Path, list[int]] = {(): own}
        stack: list[tuple[Path, Iterator[str | Node], list[int]]] = [((), iter(module.pieces()), own)]
        while stack:
            path, pieces, starts = stack[-1]
            for piece in pieces:
                if not isinstance(piece, str):
                    if isinstance(piece, Container):
                        inner: Path = (*path, len(starts))
                        starts.append(at)
                        own = self._children[inner] = []
                        stack.append((inner, iter(piece.pieces()), own))
                        break
                    starts.append(at)
                    piece = piece.text
                texts.append(piece)
                at += len(piece)
            else:
                stack.pop()
        self.text = "".join(texts)

    @property
    def starts(self) -> Sequence[int]:
        """The start of each child of the module, including its leading text."""
        return self._children[()]

    @functools.cached_property
    def line_starts(self) -> list[int]:
        """The offset of each line."""
        return line_starts(self.text)

    def line_column(self, offset: int) -> tuple[int, int]:
        """Line and column of an offset, both from 1; columns count characters."""
        line = bisect.bisect_right(self.line_starts, offset)
        return line, offset - self.line_starts[line - 1] + 1

    def line_text(self, line: int) -> str:
        """A line without its line end; lines count from 1."""
        start = self.line_starts[line - 1]
        end = self.line_starts[line] if line < len(self.line_starts) else len(self.text)
        return self.text[start:end].rstrip("\r\n")

    def between(self, start: int, end: int) -> Span:
        """The span between two offsets."""
        line, column = self.line_column(start)
        if end - start < 100 and self.text.find("\n", start, end) < 0:
            return Span(start, end, line, column, line, column + end - start)
        end_line, end_column = self.line_column(end)
        return Span(start, end, line, column, end_line, end_column)

    def offset(self, path: Path) -> int:
        """The start of the node at a path; for a statement, after its leading white space and comments."""
        at = known = 0
        while known < len(path) and (starts := self._children.get(path[:known])) is not None:
            at = starts[path[known]]
            known += 1
        node = self.module.at(path[:known])
        for step in path[known:]:
            i = 0
            for piece in node.pieces():
                if isinstance(piece, str):
                    at += len(piece)
                elif i == step:
                    node = piece
                    break
                else:
                    at += len(piece.text)
                    i += 1
        return at + _leading(node)

    def path_at(self, offset: int) -> Path:
        """The path of the innermost node at an offset; leading text of a statement belongs to the block around it."""
        path: Path = ()
        at = 0
        while (starts := self._children.get(path)) is not None:
            i = bisect.bisect_right(starts, offset) - 1
            if i < 0:
                return path
            at, path = starts[i], (*path, i)
        node = self.module.at(path)
        if not at + _leading(node) <= offset < at + len(node.text):
            return path[:-1]
        while True:
            i = 0
            for piece in node.pieces():
                text = piece if isinstance(piece, str) else piece.text
                if offset < at + len(text):
                    break
                at += len(text)
                i += not isinstance(piece, str)
            else:
                return path
            if isinstance(piece, str):
                return path
            path, node = (*path, i), piece

    def span(self, path: Path) -> Span:
        """The span of the node at a path, without its leading text; for a function, that of its header."""
        node = self.module.at(path)
        start = self.offset(path)
        if isinstance(node, Headed):
            node = node.children[0]
        if isinstance(node, Block):
            return self.between(start, start + 1)
        return self.between(start, start + len(node.text) - _leading(node))


def _leading(node: Node) -> int:
    return len(node.leading) if isinstance(node, Statement | Block | Error | Headed) else 0


@per_object
def index_of(module: Container) -> Index:
    """The positions in a module, cached for the last few modules."""
    return Index(module)
