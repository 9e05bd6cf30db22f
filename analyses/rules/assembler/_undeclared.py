"""Undeclared names, classified by their position."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.cfg.graph import flow_of
from ptxkit.analyses.framework.rule import Facts
from ptxkit.names import Kind, Scope, Symbol, Use
from ptxkit.syntax import Address, Group, Instruction, Module, Node, Path, Targets

Found = tuple[Use, tuple[str, ...], tuple[tuple[Path, str], ...]]


def undeclared(facts: Facts, kind: Kind) -> Iterator[Found]:
    """The undeclared names of one kind, each with notes (a similar name) and a related location (a label of another function)."""
    for use in facts.names.unresolved:
        if _kind_wanted(facts.module, use) is kind:
            yield use, _similar(use), _elsewhere(facts, use)


def _kind_wanted(module: Module, use: Use) -> Kind:
    """The kind that an undeclared name would need, judging by its position."""
    statement, inside = _statement_around(module, use.path)
    if isinstance(statement, Targets):
        return Kind.FUNCTION if statement.shape.literals[0].startswith(".calltargets") else Kind.LABEL
    if not isinstance(statement, Instruction):
        return Kind.VARIABLE
    opcode = statement.opcode
    flow = flow_of(opcode.text)
    operand = statement.children[inside[0]]
    last = statement.operands[-1] if statement.operands else None
    if flow in ("branch", "branch-indexed") and operand is last:
        return Kind.LABEL
    if flow == "call":
        return Kind.PARAMETER if isinstance(operand, Group) else Kind.FUNCTION
    if use.name.startswith("%") or not isinstance(operand, Address):
        return Kind.REGISTER
    return Kind.PARAMETER if any(modifier.startswith(".param") for modifier in opcode.modifiers) else Kind.VARIABLE


def _statement_around(module: Module, path: Path) -> tuple[Node, Path]:
    """The innermost statement on a path, and the rest of the path."""
    node: Node = module
    found: tuple[Node, Path] = (module, path)
    for i, step in enumerate(path):
        node = node.children[step]
        if isinstance(node, Instruction | Targets):
            return node, path[i + 1 :]
        found = (node, path[i + 1 :]) if hasattr(node, "leading") else found
    return found


def _similar(use: Use) -> tuple[str, ...]:
    """A note with the most similar declared name."""
    names: list[str] = []
    scope: Scope | None = use.scope
    while scope is not None:
        names += scope.symbols
        for family in scope.ranges.values():
            for symbol in family:
                if symbol.count and use.name.startswith(symbol.name) and use.name[len(symbol.name) :].isdecimal():
                    return (f"`{symbol.name}<{symbol.count}>` declares {symbol.name}0 to {symbol.name}{symbol.count - 1}",)
        scope = scope.parent
    import difflib

    close = difflib.get_close_matches(use.name, names[:2000], n=1, cutoff=0.75)
    return (f"`{close[0]}` is declared",) if close else ()


def _elsewhere(facts: Facts, use: Use) -> tuple[tuple[Path, str], ...]:
    """Other declarations of the name as a label: in another function, or in a scope that does not enclose the use."""
    for scope in facts.names.all_scopes:
        symbol: Symbol | None = scope.symbols.get(use.name)
        if symbol is not None and symbol.kind is Kind.LABEL:
            same = symbol.path[0] == use.path[0]
            return (
                (symbol.path, "this label is in a scope that does not enclose the branch" if same else "this label is in another function"),
            )
    return ()
