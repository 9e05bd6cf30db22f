"""R004 unused-declaration, by request."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit import fixing
from ptxkit.analyses.framework.rule import Facts, Rule
from ptxkit.diagnostics import Diagnostic, Fix, Severity
from ptxkit.names import Kind, Symbol
from ptxkit.syntax import Declarator, Function, Label


def check(facts: Facts) -> Iterator[Diagnostic]:
    """Unused registers, labels, parameters and local variables. Families such as `%r<100>` are exempt: they are declared in bulk."""
    names = facts.names
    for scope in names.all_scopes:
        if scope.parent is None:
            continue
        top = facts.module.children[scope.path[0]]
        if not isinstance(top, Function):
            continue
        of_header = scope.path[1:2] == (0,)
        for symbol in scope.symbols.values():
            returned = of_header and symbol.path[2] < top.header.children.index(top.header.name)
            if names.is_used(symbol) or returned or symbol.linkage is not None:
                continue
            if symbol.kind is not Kind.LABEL or not symbol.name.startswith(("$L__func", "$L__tmp", "$L__info", "$L__BB")):
                yield facts.report(RULE, symbol.path, f"{symbol.kind.value} `{symbol.name}` is never used", fix=_fix(facts, symbol))


def _fix(facts: Facts, symbol: Symbol) -> Fix | None:
    """Removes the declaration. Not for parameters, which callers pass; removing a shared variable moves those after it."""
    if symbol.kind is Kind.PARAMETER:
        return None
    path = symbol.path
    while not isinstance(facts.module.at(path), Label | Declarator) and path:
        path = path[:-1]
    if not path:
        return None
    is_safe = symbol.kind is not Kind.VARIABLE or symbol.space in (".local", ".param")
    return Fix("remove the declaration", (fixing.remove(facts.index, path),), is_safe)


RULE = Rule(
    id="R004",
    name="unused-declaration",
    severity=Severity.INFO,
    summary="a register, label, parameter or local variable that nothing uses",
    why="It costs nothing in the machine code, but often reveals a slip: the wrong name was used somewhere (5.4.1).",
    bad=".entry k() { .reg .u32 lonely; ret; }",
    good=".entry k() { .reg .u32 busy; mov.u32 busy, 1; ret; }",
    proof="No name in its scope refers to it.",
    sanitizer="none of its tools looks for this.",
    check=check,
    default=False,
)
