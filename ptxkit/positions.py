"""Where a node stands: computed from the tree when asked, since nodes do not know."""

from __future__ import annotations

import bisect
import functools

from ptxkit.diagnostics import Span
from ptxkit.syntax.nodes import Block, Error, Function, Module, Node, Path, Section, Statement


class Index:
    """Places in a module's text. Making one prints the module once; each question is then cheap."""

    def __init__(self, module: Module) -> None:
        self.module = module
        pieces: list[str] = []
        starts: dict[Path, int] = {}
        stack: list[tuple[Path, Node | str]] = [((), module)]
        at = 0
        while stack:
            path, node = stack.pop()
            if isinstance(node, str):
                pieces.append(node)
                at += len(node)
                continue
            starts[path] = at
            if isinstance(node, Module | Block | Function | Section):
                inner: list[tuple[Path, Node | str]] = []
                i = 0
                for piece in node.pieces():
                    if isinstance(piece, str):
                        inner.append((path, piece))
                    else:
                        inner.append(((*path, i), piece))
                        i += 1
                stack.extend(reversed(inner))
            else:
                text = node.text
                pieces.append(text)
                at += len(text)
        self.text = "".join(pieces)
        self._starts = starts

    @functools.cached_property
    def line_starts(self) -> list[int]:
        """The offset at which each line starts."""
        starts = [0]
        at = self.text.find("\n")
        while at >= 0:
            starts.append(at + 1)
            at = self.text.find("\n", at + 1)
        return starts

    def line_column(self, offset: int) -> tuple[int, int]:
        """Line and column of an offset, both from 1; columns count characters."""
        line = bisect.bisect_right(self.line_starts, offset)
        return line, offset - self.line_starts[line - 1] + 1

    def line_text(self, line: int) -> str:
        """A line without its end; lines count from 1."""
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
        """Where the node at a path starts; a statement starts after the white space and comments that lead it."""
        known = len(path)
        while path[:known] not in self._starts:
            known -= 1
        at = self._starts[path[:known]]
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
        """The path of the innermost node that has the character at an offset; what leads a statement belongs to the block around it."""
        at, path = self._places[bisect.bisect_right(self._places, offset, key=lambda place: place[0]) - 1]
        node = self.module.at(path)
        if isinstance(node, Module | Block | Function | Section):
            return path
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

    @functools.cached_property
    def _places(self) -> list[tuple[int, Path]]:
        """Where statements and blocks start, in the order of the text; of those that start at one place the innermost is last."""
        return sorted((start, path) for path, start in self._starts.items())

    def span(self, path: Path) -> Span:
        """The span of the node at a path, without what leads it; of a function, that of its header."""
        node = self.module.at(path)
        start = self.offset(path)
        if isinstance(node, Function | Section):
            node = node.children[0]
        if isinstance(node, Block):
            return self.between(start, start + 1)
        return self.between(start, start + len(node.text) - _leading(node))


def _leading(node: Node) -> int:
    return len(node.leading) if isinstance(node, Statement | Block | Error | Function | Section) else 0
