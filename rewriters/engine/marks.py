"""Comments that mark insertions, so that they can be removed from the text alone.

An inserted statement is preceded by `/*ptxkit+*/`; a replacement by `/*ptxkit= the original */`.
"""

from __future__ import annotations

from typing import Any

from ptxkit.memo import expression
from ptxkit.syntax import Block, Function, Header, Module, Node, parse

INSERTED = "/*ptxkit+*/"
_REPLACED = "/*ptxkit="
_MARK = expression(r"/\*ptxkit(?:(\+)\*/|=((?:[^*]|\*(?!/)|(?!))*+)\*/) ?")
_CLOSE = expression(r"\*(~*)/")
_HELD = expression(r"\*~(~*)/")


def inserted(statement: Node, leading: str = "\n\t") -> Node:
    """The statement on a line of its own, marked as inserted."""
    return led(statement, f"{leading}{INSERTED} ")


def replaced(new: Node, old: Node) -> Node:
    """The statement, marked as a replacement for `old`, at its position."""
    leading = _leading(old)
    body = old.text[len(leading) :]
    held = _CLOSE.sub(r"*~\1/", body)
    return led(new, f"{leading}{_REPLACED} {held}*/ ")


def led(statement: Node, leading: str) -> Node:
    """The statement after other white space and comments."""
    if isinstance(statement, Function):
        return statement.with_children((statement.header.with_leading(leading), *statement.children[1:]))
    return statement.with_leading(leading)  # type: ignore[attr-defined,no-any-return]


def _leading(statement: Node) -> str:
    return statement.leading  # type: ignore[attr-defined,no-any-return]


def without_marked(module: Module) -> Module:
    """The module without insertions, and with replaced statements restored. Unmarked nodes are shared."""
    return _stripped(module)  # type: ignore[no-any-return]


def _stripped(node: Any) -> Any:
    """The same node if nothing in it is marked; the parser bounds the nesting."""
    children: list[Node] = []
    changed = False
    for child in node.children:
        leading = getattr(child, "leading", "")
        mark = _MARK.search(leading) if "/*ptxkit" in leading else None
        if mark is not None and mark[1]:
            changed = True
            continue
        kept = child
        if mark is not None and not isinstance(child, Function):
            kept = _held(child, leading[: mark.start()], _HELD.sub(r"*\1/", mark[2].removeprefix(" ")))
        elif isinstance(child, Function | Block):
            kept = _stripped(child)
        changed = changed or kept is not child
        children.append(kept)
    return node.with_children(children) if changed else node


def _held(new: Node, leading: str, body: str) -> Node:
    """The statement in a mark."""
    if isinstance(new, Header):
        function = parse(body + "{}").children[0]
        return led(function.children[0], leading)
    function = parse(f".func f() {{{body}}}").children[0]
    (found,) = function.children[1].children
    return led(found, leading)
