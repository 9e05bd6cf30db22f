"""Declarations, references and renaming."""

from __future__ import annotations

import bisect
import re

from ptxkit.analyses.registers.registers import registers
from ptxkit.diagnostics import Edit
from ptxkit.lsp.document import Document
from ptxkit.memo import expression
from ptxkit.names import Kind, Symbol
from ptxkit.syntax import Function, Name

_NAME = expression(r"[A-Za-z][\w$]*|[_$%][\w$]+", re.ASCII)


class CannotRename(Exception):
    """Why a name cannot be renamed, or not to the given name."""


def definition(document: Document, offset: int) -> int | None:
    """The position of the declaration of the name at an offset; None if it is not a name, or undeclared."""
    found = document.symbol_at(offset)
    return None if found is None else document.index.offset(found[2].path)


def references(document: Document, offset: int, declaration: bool = True) -> tuple[tuple[int, str], ...]:
    """The references to the symbol at an offset, each with its text: one register of a family, or all of them at the family's
    declaration."""
    found = document.symbol_at(offset)
    if found is None:
        return ()
    _, name, symbol = found
    occurrences = _occurrences(document, name.text, symbol)
    declared = document.index.offset(symbol.path)
    return occurrences if declaration else tuple([occurrence for occurrence in occurrences if occurrence[0] != declared])


def highlights(document: Document, offset: int) -> tuple[tuple[int, str, bool], ...]:
    """The references to the name at an offset, each with whether it is declared or written there rather than read."""
    found = document.symbol_at(offset)
    if found is None:
        return ()
    return tuple([(at, text, _is_written(document, at, text, found[2])) for at, text in references(document, offset)])


def _is_written(document: Document, at: int, name: str, symbol: Symbol) -> bool:
    path = document.index.path_at(at)
    if path == symbol.path:
        return True
    routine = next((routine for routine in document.routines if path[: len(routine.path)] == routine.path), None)
    if routine is None or symbol.kind is not Kind.REGISTER:
        return False
    own = path[len(routine.path) :]
    i = bisect.bisect_right(routine.paths, own) - 1
    if i < 0 or own[: len(routine.paths[i])] != routine.paths[i]:
        return False
    # if an instruction reads and writes one register, its first operand is the destination
    instruction = routine.instructions[i]
    known = registers(routine)
    operand = own[len(routine.paths[i])] - (len(instruction.children) - len(instruction.operands))
    is_first = operand == 0 or not any(node.text == name for node in instruction.operands[:operand])
    return is_first and operand >= 0 and any(known.table[n].name.partition(".")[0] == name for n in known.writes[i])


def rename(document: Document, offset: int, new: str) -> tuple[Edit, ...]:
    """The edits that rename the symbol at an offset. Raises CannotRename.

    A register of `%r<100>` gets its own declaration; at the declaration of a family, the stem of all its registers is changed.
    """
    if not _NAME.fullmatch(new):
        raise CannotRename(f"`{new}` is not a name")
    found = document.symbol_at(offset)
    if found is None:
        raise CannotRename("there is no name that something declares")
    _, name, symbol = found
    if symbol.kind is Kind.FUNCTION and symbol.linkage == ".extern":
        raise CannotRename(f"`{symbol.name}` is defined elsewhere")
    occurrences = _occurrences(document, name.text, symbol)
    is_family = symbol.count is not None and name.text == symbol.name
    edits = [Edit(at, at + len(name.text if not is_family else symbol.name), new) for at, text in occurrences]
    if symbol.count is not None and not is_family and document.meaning(symbol.path, new) is not symbol:
        edits.append(_own_declaration(document, symbol, new))
    edits.sort(key=lambda edit: edit.start)
    _check(document, new, tuple(edits))
    return tuple(edits)


def _occurrences(document: Document, name: str, symbol: Symbol) -> tuple[tuple[int, str], ...]:
    """The occurrences of a name that denote this symbol. The whole text is searched: declarations are visible in inner scopes."""
    if symbol.count is not None and name == symbol.name:
        pattern = re.compile(rf"(?<![\w$%]){re.escape(name)}\d*(?![\w$])")
    else:
        pattern = re.compile(rf"(?<![\w$%]){re.escape(name)}(?![\w$])")
    start, end = _extent(document, symbol)
    found = []
    for match in pattern.finditer(document.text, start, end):
        path = document.index.path_at(match.start())
        node = document.module.at(path)
        if isinstance(node, Name) and node.text == match[0] and document.index.offset(path) == match.start():
            if document.meaning(path, match[0]) is symbol:
                found.append((match.start(), match[0]))
    return tuple(found)


def _extent(document: Document, symbol: Symbol) -> tuple[int, int]:
    """The range in which a symbol may be used: its function, or the whole text."""
    top = document.module.children[symbol.path[0]]
    if symbol.kind is Kind.FUNCTION or not isinstance(top, Function):
        return 0, len(document.text)
    start = document.index.offset(symbol.path[:1])
    return start, start + len(top.text)


def _own_declaration(document: Document, symbol: Symbol, new: str) -> Edit:
    """Declares one register after the statement that declares its family."""
    path = symbol.path
    while document.module.at(path) is not symbol.declares:
        path = path[:-1]
    span = document.index.span(path)
    margin = document.index.line_text(span.line)[: span.column - 1]
    vector = f".v{symbol.vector} " if symbol.vector > 1 else ""
    return Edit(span.end, span.end, f"\n{margin if margin.isspace() else ''}.reg {vector}{symbol.type} {new};")


def _check(document: Document, new: str, edits: tuple[Edit, ...]) -> None:
    """Raises CannotRename if these edits change the meaning of a name, or declare one twice."""
    pieces, moved, at, length = [], [], 0, 0
    for edit in edits:
        pieces += [document.text[at : edit.start], edit.text]
        length += edit.start - at
        moved.append(length + edit.text.rindex(new))
        length += len(edit.text)
        at = edit.end
    after = Document("".join([*pieces, document.text[at:]]), document.path)
    if len(after.names.duplicates) > len(document.names.duplicates):
        raise CannotRename("that name is declared there already")
    meanings = [after.symbol_at(occurrence) for occurrence in moved]
    symbol = next((found[2] for found in meanings if found is not None), None)
    if symbol is None or any(found is None or found[2] is not symbol for found in meanings):
        raise CannotRename("that name means something else there")
    if len(_occurrences(after, new, symbol)) != len(edits):
        raise CannotRename("that name is used for something else there")
