"""The outline of a file: its functions, variables and labels, and its folding ranges."""

from __future__ import annotations

from ptxkit.diagnostics import Span
from ptxkit.frozen import frozen
from ptxkit.lsp.document import Document
from ptxkit.names import Kind
from ptxkit.syntax import Block, Declaration, Function, Label, Node, Path, Section


@frozen
class Entry:
    """A named part of a file: its range, the range of its name, and its parts."""

    name: str
    detail: str
    kind: Kind
    is_kernel: bool
    whole: Span
    own: Span
    inside: tuple[Entry, ...] = ()


def outline(document: Document) -> tuple[Entry, ...]:
    """The functions with their labels and shared variables, and module-level variables, in document order."""
    found: list[Entry] = []
    for i, child in enumerate(document.module.children):
        if isinstance(child, Function):
            found.append(_function(document, (i,), child))
        elif isinstance(child, Declaration):
            found += _declared(document, (i,), child)
    return tuple(found)


def folds(document: Document) -> tuple[tuple[int, int], ...]:
    """The line ranges, from 1, that can be folded: functions, blocks and sections."""
    found: list[tuple[int, int]] = []
    stack: list[tuple[Path, Node]] = [((i,), child) for i, child in enumerate(document.module.children)]
    while stack:
        path, node = stack.pop()
        if isinstance(node, Function | Section):
            stack += [((*path, i), child) for i, child in enumerate(node.children)]
        elif isinstance(node, Block):
            start = document.index.offset(path)
            first = document.index.line_column(start)[0]
            last = document.index.line_column(start + len(node.text) - len(node.leading))[0]
            if last > first:
                found.append((first, last))
            stack += [((*path, i), child) for i, child in enumerate(node.children) if isinstance(child, Block)]
    return tuple(sorted(found))


def _function(document: Document, path: Path, function: Function) -> Entry:
    index = document.index
    start = index.offset(path)
    header = function.header
    at = next(i for i, child in enumerate(header.children) if child is header.name)
    inside: list[Entry] = []
    for inner, statement in function.statements():
        where = (*path, *inner)
        if isinstance(statement, Label):
            span = index.span((*where, 0))
            inside.append(Entry(statement.name.text, "", Kind.LABEL, False, span, span))
        elif isinstance(statement, Declaration) and statement.space != ".reg":
            inside += _declared(document, where, statement)
    whole = index.between(start, start + len(function.text) - len(function.leading))
    what = "kernel" if function.is_entry else "function"
    return Entry(function.name, what, Kind.FUNCTION, function.is_entry, whole, index.span((*path, 0, at)), tuple(inside))


def _declared(document: Document, path: Path, declaration: Declaration) -> list[Entry]:
    index = document.index
    whole = index.span(path)
    detail = " ".join(filter(None, (declaration.space, declaration.type)))
    return [
        Entry(child.children[0].text, detail, Kind.VARIABLE, False, whole, index.span((*path, i, 0)))
        for i, child in enumerate(declaration.children)
        if any(child is declarator for declarator in declaration.declarators)
    ]
