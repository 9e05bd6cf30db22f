"""Changes the performance directives of function headers (11.4)."""

from __future__ import annotations

import attrs

from ptxkit.syntax import Function, Header, PerformanceDirective, Shape, parse, shape


def with_directive(header: Header, name: str, arguments: str) -> Header:
    """The header with this directive, replacing one of the same name. Raises ValueError if it is not a directive."""
    (made,) = parse(f".entry k() {name} {arguments}\n{{}}").children[:1]
    if not isinstance(made, Function) or made.body is None or len(made.header.directives) != 1 or made.header.directives[0].text.find(name):
        raise ValueError(f"not a directive: {name} {arguments}")
    (directive,) = made.header.directives
    for i, child in enumerate(header.children):
        if isinstance(child, PerformanceDirective) and child.name == name:
            return (
                header
                if child.text == directive.text
                else header.with_children((*header.children[:i], directive, *header.children[i + 1 :]))
            )
    *literals, last = header.shape.literals
    gap = next((literals[i] for i, child in enumerate(header.children) if isinstance(child, PerformanceDirective)), "\n")
    return attrs.evolve(header, shape=shape(*literals, gap, last), children=(*header.children, directive))


def without_directive(header: Header, name: str) -> Header:
    """The header without the directives of that name."""
    for i in reversed(range(len(header.children))):
        child = header.children[i]
        if isinstance(child, PerformanceDirective) and child.name == name:
            literals = header.shape.literals
            rest: Shape = shape(*literals[:i], *literals[i + 1 :])
            header = attrs.evolve(header, shape=rest, children=(*header.children[:i], *header.children[i + 1 :]))
    return header
