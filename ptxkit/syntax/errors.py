"""The syntax errors of a module, from the error nodes, open blocks and headers without a body in its tree."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.diagnostics import Diagnostic, Severity, Span
from ptxkit.positions import Index
from ptxkit.syntax.nodes import Block, Error, Function, Header, Module, Node, Path, Section, Unknown

RULES = {
    "E001": "syntax-error",
    "E002": "missing-semicolon",
    "E003": "unbalanced-brace",
    "E004": "unknown-directive",
    "E005": "unfinished-text",
}
"""The syntax findings by id. What makes them is the parser; the rules' pages stand in `ptxkit.analyses.rules`."""


def syntax_errors(module: Module, index: Index | None = None) -> tuple[Diagnostic, ...]:
    """The syntax errors and unknown directives in document order."""
    troubles = list(_troubles(module))
    if not troubles:
        return ()
    places = index or Index(module)
    return tuple([_diagnostic(module, places, path, node) for path, node in troubles])


def _troubles(module: Module) -> Iterator[tuple[Path, Node]]:
    stack: list[tuple[Path, Node]] = [((), module)]
    while stack:
        path, node = stack.pop()
        kind = type(node)
        if kind is Error or kind is Unknown or (kind is Header and (len(path) != 2 or path[1] != 0)) or (kind is Block and not node.close):  # type: ignore[attr-defined]
            yield path, node
        if kind is Module or kind is Block or kind is Function or kind is Section:
            stack.extend([((*path, i), child) for i, child in enumerate(node.children)][::-1])


def _diagnostic(module: Module, index: Index, path: Path, node: Node) -> Diagnostic:
    span = index.span(path)
    function = _function(module, path)
    notes: tuple[str, ...] = ()
    if isinstance(node, Error):
        rule, message = _rule_of(node), node.message
        start = span.start + min(node.at, max(0, len(node.body_text) - 1)) if rule != "E002" else span.end
        span = _one_token(index, start)
        if rule == "E002":
            notes = ("a statement ends with `;`",)
    elif isinstance(node, Unknown):
        word = node.children[0].text
        rule, message = "E004", f"unknown directive `{word}`"
        span = index.between(span.start, span.start + len(word))
    elif isinstance(node, Block):
        rule, message = "E003", "`{` is never closed"
    else:
        rule, message = "E001", "a function needs a body, or `;` where it is only declared"
        span = index.between(span.end, span.end)
    severity = Severity.WARNING if rule == "E004" else Severity.ERROR
    return Diagnostic(rule, RULES[rule], severity, message, span, module.path, function, notes)


def _rule_of(error: Error) -> str:
    if error.message == "missing `;`":
        return "E002"
    if error.message.startswith("`}`"):
        return "E003"
    return "E005" if "never closed" in error.message else "E001"


def _one_token(index: Index, start: int) -> Span:
    from ptxkit.syntax.shapes import TOKEN

    match = TOKEN.match(index.text, start)
    length = min(len(match[0].split("\n")[0]), 60) if match and match.lastgroup != "trivia" else 0
    return index.between(start, start + length)


def _function(module: Module, path: Path) -> str | None:
    """The name of the function that a path leads into."""
    top = module.children[path[0]] if path else None
    return top.name if isinstance(top, Function) else None
