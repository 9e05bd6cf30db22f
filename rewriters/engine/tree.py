"""Removes statements from a tree while keeping the comments around them."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeVar

import attrs

from ptxkit.memo import expression
from ptxkit.syntax import Block, Function, Module, Node, Path

_COMMENTS = expression(r"(?:.*(?://[^\n]*|\*/))?", re.S)

Container = TypeVar("Container", bound=Node)


def without(container: Container, drop: Callable[[Path, Node], bool], at: Path = ()) -> Container:
    """The module, block or function without the statements that `drop` selects, at any depth. Comments before them are kept.

    `drop` receives the path of each statement, which starts with `at`.
    """
    if isinstance(container, Function):
        if container.body is None:
            return container
        body = without(container.body, drop, (*at, 1))
        return container if body is container.body else container.with_children((container.header, body))
    children: list[Node] = []
    held = ""
    changed = False
    for i, child in enumerate(container.children):
        if drop((*at, i), child):
            held = _joined(held, _comments(child.leading))  # type: ignore[attr-defined]
            changed = True
            continue
        kept = without(child, drop, (*at, i)) if isinstance(child, Function | Block) else child
        if held:
            kept = _led(kept, held)
            held = ""
        changed = changed or kept is not child
        children.append(kept)
    if not changed:
        return container
    new = container.with_children(children)
    if held and isinstance(new, Block):
        return attrs.evolve(new, close=_joined(held, new.close))
    if held and isinstance(new, Module):
        return attrs.evolve(new, trailing=_joined(held, new.trailing))
    return new


def _comments(leading: str) -> str:
    """The leading text up to the end of its last comment; empty if there is none."""
    found = _COMMENTS.match(leading)
    return found[0] if found else ""


def _joined(held: str, after: str) -> str:
    """Joins two pieces of text, the first of which may end in a line comment."""
    return held + ("\n" if held and after and not after.startswith(("\n", "\r")) else "") + after


def _led(node: Node, held: str) -> Node:
    leading = _joined(held, node.leading)  # type: ignore[attr-defined]
    if held and not leading.endswith(("\n", " ", "\t", "/")) and "//" in held:
        leading += "\n"
    if isinstance(node, Function):
        return node.with_children((node.header.with_leading(leading), *node.children[1:]))
    return node.with_leading(leading)  # type: ignore[attr-defined,no-any-return]
