"""The syntax errors of a module, from the error nodes, unclosed blocks and headers without a body in its tree."""

from __future__ import annotations

import bisect
from collections.abc import Iterator

from ptxkit.diagnostics import Diagnostic, Related, Severity, Span
from ptxkit.syntax.lexical import END, TOKEN
from ptxkit.syntax.positions import Index
from ptxkit.syntax.statements import Block, Declaration, Empty, Error, Function, Header, Instruction, Section, Unknown, Version
from ptxkit.syntax.tree import Container, Node, Path

RULES = {
    "E001": "syntax-error",
    "E002": "missing-semicolon",
    "E003": "unbalanced-brace",
    "E004": "unknown-directive",
    "E005": "unfinished-text",
}
"""Syntax findings by id. The parser detects them; their documentation pages are those of `ptxkit.analyses.rules`."""


def syntax_errors(module: Container, file: str | None, index: Index | None = None) -> tuple[Diagnostic, ...]:
    """The syntax errors and unknown directives of a module in document order; `file` is its path."""
    troubles = list(_troubles(module))
    if not troubles:
        return ()
    if any(type(node) is Error and node.message.startswith("comment") for _, node in troubles):
        # the comment includes the closing braces
        troubles = [(path, node) for path, node in troubles if type(node) is not Block]
    positions = index or Index(module)
    closes = _closes_before(module, positions, troubles)
    return tuple([_diagnostic(module, file, positions, path, node, closes.get(path, ())) for path, node in troubles])


_SUSPECTS = frozenset({Block, Function, Section, Error, Unknown, Header, Empty, Declaration, Version})


def _troubles(module: Container) -> Iterator[tuple[Path, Node]]:
    stack: list[tuple[Path, Node]] = [((), module)]
    outside = _outside(module)
    while stack:
        path, node = stack.pop()
        kind = type(node)
        if isinstance(node, Container):
            if kind is Block and not node.close:  # type: ignore[attr-defined]
                yield path, node
            if kind is Function and len(node.children) == 1:
                continue  # declared only, in a module or in the body of a function
            others = node.others if isinstance(node, Block) else list(enumerate(node.children))
            suspects = [(i, child) for i, child in others if type(child) in _SUSPECTS or (not path and i in outside)]
            empty = {i for i, child in suspects if type(child) is Empty}
            # of consecutive lone semicolons, one is reported
            stack += [((*path, i), child) for i, child in suspects[::-1] if i not in empty or i - 1 not in empty]
        elif _is_trouble(path, node):
            yield path, node


def _is_trouble(path: Path, node: Node) -> bool:
    if isinstance(node, Declaration):
        return node.type is None
    if isinstance(node, Version):
        return "." not in node.children[0].text
    if type(node) is Header:
        return len(path) != 2 or path[1] != 0
    return True


def _outside(module: Container) -> frozenset[int]:
    """The start of each run of instructions outside any function, unless a stray `}` before or after it is reported already."""
    found: set[int] = set()
    first: int | None = None
    after_error = False
    for i, child in enumerate(module.children):
        kind = type(child)
        if kind is Instruction and first is None and not after_error:
            first = i
        elif kind is Error and child.rule == "E003":  # type: ignore[attr-defined]
            first, after_error = None, True
        elif kind is Function:
            found.update(() if first is None else (first,))
            first, after_error = None, False
    return frozenset(found if first is None else {*found, first})


def _diagnostic(module: Container, file: str | None, index: Index, path: Path, node: Node, related: tuple[Related, ...]) -> Diagnostic:
    notes: tuple[str, ...] = ()
    if isinstance(node, Error):
        rule, message = node.rule, node.message
        start = index.offset(path)
        if rule == "E002":
            start += len(node.body_text)
            notes = ("a statement ends with `;`",)
        else:
            start += min(node.offset, max(0, len(node.body_text) - 1))
        return Diagnostic(
            rule, RULES[rule], Severity.ERROR, message, _one_token(index, start), file, _function(module, path), notes, related
        )
    span = index.span(path)
    if isinstance(node, Unknown):
        word = node.children[0].text
        rule, message = "E004", f"unknown directive `{word}`"
        span = index.between(span.start, span.start + len(word))
    elif isinstance(node, Block):
        rule, message = "E003", "`{` is never closed"
    elif isinstance(node, Instruction):
        rule, message = "E001", "an instruction outside of any function"
    elif isinstance(node, Empty):
        rule, message = "E001", "`;` with no statement before it"
    elif isinstance(node, Declaration):
        rule, message = "E001", "a declaration without a type"
    elif isinstance(node, Version):
        rule, message = "E001", "a version has two numbers with a dot between them"
    else:
        rule, message = "E001", "a function needs a body, or `;` where it is only declared"
        span = index.between(span.end, span.end)
    severity = Severity.WARNING if rule == "E004" else Severity.ERROR
    return Diagnostic(rule, RULES[rule], severity, message, span, file, _function(module, path), notes, related)


def _closes_before(module: Container, index: Index, troubles: list[tuple[Path, Node]]) -> dict[Path, tuple[Related, ...]]:
    """For the first stray `}` or instruction after each function, the end of that function: its brace may be the extra one."""
    functions = [i for i, child in enumerate(module.children) if isinstance(child, Function) and child.body is not None]
    found: dict[Path, tuple[Related, ...]] = {}
    reported = -1
    for path, node in troubles:
        is_suspect = type(node) is Instruction or (isinstance(node, Error) and node.message.startswith("`}`"))
        before = bisect.bisect(functions, path[0]) - 1 if path else -1
        if not is_suspect or len(path) != 1 or before == reported:
            continue
        reported = before
        function = module.children[functions[before]]
        assert isinstance(function, Function)
        end = index.offset((functions[before],)) - len(function.leading) + len(function.text)
        found[path] = (Related(index.between(end - 1, end), f"`{function.name}` ends here"),)
    return found


def _one_token(index: Index, start: int) -> Span:
    match = TOKEN.match(index.text, start, start + 100)
    token = match[match.lastindex] if match and match.lastindex != END and match.lastindex and not match[1] else ""
    return index.between(start, start + min(len(token.split("\n")[0]), 60))


def _function(module: Container, path: Path) -> str | None:
    """The name of the function that contains a path."""
    top = module.children[path[0]] if path else None
    return top.name if isinstance(top, Function) else None
