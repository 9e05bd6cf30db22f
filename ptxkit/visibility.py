"""Checks of names: declared twice in a scope, or used before their declaration (ISA 5.4.6)."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.mentions import names_in_order
from ptxkit.names import Kind, Laid, Names, Scope, Symbol, names_in
from ptxkit.problem import Problem
from ptxkit.syntax import Block, Declaration, Declarator, Function, Instruction, Module, Name, Node, Path


def problems(module: Module, names: Names) -> Iterator[Problem]:
    """Problems of names that are declared twice in a scope or used before their declaration. ptxas reports the latter for labels only."""
    yield from _overlaps(names)
    yield from _uses_before_in_module(module, names)
    yield from _uses_before_in_blocks(names)


def _overlaps(names: Names) -> Iterator[Problem]:
    """Names declared both by a count (`%r<4>`) and by another declaration of the scope; parameter names declared again in the body."""
    for path, scope in names.scopes.items():
        if path != scope.path:
            continue
        if len(path) == 2 and path[1] == 1 and scope.parent is not None:
            for parameter in scope.parent.symbols.values():
                again = scope.local(parameter.name)
                if again is not None and again.kind is not Kind.LABEL:
                    message = f"`{parameter.name}` is the name of a parameter"
                    yield Problem("conflicting-declarations", again.path, message, related=((parameter.path, "the parameter"),))
        if not scope.ranges:
            continue
        for name, symbol in scope.symbols.items():
            if symbol.kind is Kind.LABEL or not name[-1:].isdecimal():
                continue
            family = _family_of(scope, name)
            if family is not None:
                first, second = sorted((symbol, family), key=lambda one: one.path)
                note = f"`{family.name}<{family.count}>` declares it"
                yield Problem(
                    "conflicting-declarations",
                    second.path,
                    f"`{name}` is declared twice in one scope",
                    (note,),
                    ((first.path, "the first"),),
                )


def _family_of(scope: Scope, name: str) -> Symbol | None:
    at = len(name)
    while at and name[at - 1].isdecimal():
        at -= 1
        digits = name[at:]
        if len(digits) > 9:
            return None
        for family in scope.ranges.get(name[:at], ()):
            if family.count is not None and int(digits) < family.count and (digits == "0" or digits[0] != "0"):
                return family
    return None


def _uses_before_in_blocks(names: Names) -> Iterator[Problem]:
    """Uses before the declaration in the same block or around it, other than of labels."""
    for laid in names.late:
        path, scope, children = laid.path, laid.scope, laid.children
        late = [symbol for symbol in _symbols(scope) if symbol.kind is not Kind.LABEL and symbol.path[: len(path)] == path]
        first = next((i for i, child in enumerate(children) if type(child) is Instruction or type(child) is Block), None)
        if not late or first is None:
            continue
        last = max(symbol.path[len(path)] for symbol in late)
        if last > first and _may_come_too_late(laid, first, late):
            yield from _uses_before_in_block(laid, first, last, names)


def _symbols(scope: Scope) -> Iterator[Symbol]:
    yield from scope.symbols.values()
    for family in scope.ranges.values():
        yield from family


def _may_come_too_late(laid: Laid, first: int, late: list[Symbol]) -> bool:
    """Whether instructions or inner blocks from an index on may use one of these symbols before its declaration: a quick look."""
    if any(symbol.count is not None for symbol in late) or any(type(child) is Block for _, child in laid.others):
        return True
    declared = {symbol.name: symbol.path[len(laid.path)] for symbol in late}
    return any(
        declared.get(name, 0) > i
        for i, child in enumerate(laid.children[first : max(declared.values())], first)
        if type(child) is Instruction
        for name in names_in_order(child.children)
    )


def _uses_before_in_block(laid: Laid, first: int, last: int, names: Names) -> Iterator[Problem]:
    path, scope = laid.path, laid.scope
    reported: set[str] = set()
    meant: dict[str, int] = {}
    for i in range(first, last):
        for at, name in _used_in(laid.children[i], (*path, i), scope, names):
            position = meant.get(name)
            if position is None:
                symbol = scope.local(name)
                is_late = symbol is not None and symbol.kind is not Kind.LABEL and symbol.path[: len(path)] == path
                position = meant[name] = symbol.path[len(path)] if symbol is not None and is_late else -1
            if position > i and name not in reported and (scope.parent is None or scope.parent.lookup(name) is None):
                reported.add(name)
                symbol = scope.local(name)
                related = ((symbol.path, "the declaration"),) if symbol is not None else ()
                yield Problem("used-before-declaration", at, f"`{name}` is used before it is declared", related=related)


def _used_in(statement: Node, path: Path, scope: Scope, names: Names) -> Iterator[tuple[Path, str]]:
    """The names that a statement uses, with their paths; for an inner scope, those that it does not declare itself."""
    stack: list[tuple[Path, Node, Scope]] = [(path, statement, scope)]
    while stack:
        at, node, inside = stack.pop()
        if type(node) is Instruction:
            used = _names_of(node, at)
            yield from used if inside is scope else [one for one in used if not _hidden(one[1], inside, scope)]
        elif type(node) is Block:
            inside = names.scopes.get(at, inside)
            stack.extend([((*at, i), child, inside) for i, child in enumerate(node.children)][::-1])


def _names_of(instruction: Instruction, path: Path) -> Iterator[tuple[Path, str]]:
    """The names in an instruction, with their paths."""
    for i, child in enumerate(instruction.children):
        if type(child) is Name:
            yield (*path, i), child.text
        elif child.children:
            yield from [((*path, i, *inner), name.text) for inner, name in names_in(child)]


def _hidden(name: str, inside: Scope, outside: Scope) -> bool:
    """Whether a scope between these two declares the name."""
    scope: Scope | None = inside
    while scope is not None and scope is not outside:
        if scope.local(name) is not None:
            return True
        scope = scope.parent
    return False


def _uses_before_in_module(module: Module, names: Names) -> Iterator[Problem]:
    """Functions and variables that a function uses before the module declares them."""
    body = next((i for i, child in enumerate(module.children) if type(child) is Function and child.body is not None), None)
    if body is None:
        return
    late: dict[str, int] = {}
    for i, child in enumerate(module.children[body + 1 :], body + 1):
        for name in _declared_names(child):
            symbol = names.root.symbols.get(name)
            if name not in late and symbol is not None and names.is_used(symbol):
                late[name] = i
    for child in module.children[: body + 1] if late else ():
        for name in _declared_names(child):
            late.pop(name, None)
    if not late:
        return
    reported: set[str] = set()
    meant = {names.root.symbols[name] for name in late}
    for laid in names.blocks:
        used = meant.intersection(names.mentioned[laid.scope].symbols)
        wanted = {symbol.name for symbol in used if late[symbol.name] > laid.path[0]}
        for i, statement in enumerate(laid.children) if wanted - reported else ():
            for at, name in _used_in(statement, (*laid.path, i), laid.scope, names) if type(statement) is Instruction else ():
                if name in wanted and name not in reported:
                    reported.add(name)
                    related = ((names.root.symbols[name].path, "the declaration"),)
                    yield Problem("used-before-declaration", at, f"`{name}` is used before it is declared", related=related)


def _declared_names(statement: Node) -> list[str]:
    if type(statement) is Function:
        return [statement.name]
    if type(statement) is Declaration:
        return [child.children[0].text for child in statement.children if type(child) is Declarator]
    return []
