"""Renumbers registers without gaps."""

from __future__ import annotations

from ptxkit.analyses.framework.routine import Routine, routines
from ptxkit.names import Kind, Scope, Symbol, names_in
from ptxkit.rewriters.engine.renaming import renamed
from ptxkit.rewriters.engine.rewrite import Manifest, Refused, Rewrite, debugging, require_readable
from ptxkit.syntax import Module, Opcode


def renumber(module: Module) -> Rewrite:
    """Renumbers the registers of each family (`%r<100>`) from 0 in order of appearance, and declares only those in use.

    Families keep their names; registers that are declared one by one are not renamed. A number that would mean a different register in an
    inner scope is skipped.

    Raises Refused for a module with syntax errors, and for one with debugging data, which names registers.
    """
    require_readable(module)
    refusals = debugging(module)
    if refusals:
        raise Refused(module, refusals)
    numbers: dict[int, dict[str, int]] = {}
    symbols: dict[int, Symbol] = {}
    for routine in routines(module):
        _number(routine, numbers, symbols)
    names = {key: {old: f"{symbols[key].name}{n}" for old, n in members.items()} for key, members in numbers.items()}
    counts = {key: max(members.values()) + 1 for key, members in numbers.items()}

    def new_name(symbol: Symbol, name: str) -> str:
        return names.get(id(symbol), {}).get(name, name)

    changes = [f"{symbol.name}: {symbol.count} -> {counts[key]}" for key, symbol in symbols.items() if counts[key] != symbol.count]
    new = renamed(module, new_name, lambda symbol: counts.get(id(symbol), symbol.count))
    return Rewrite(new, Manifest("renumber", changes=tuple(changes)))


def _number(routine: Routine, numbers: dict[int, dict[str, int]], symbols: dict[int, Symbol]) -> None:
    """Numbers the members of register families in document order."""
    members: dict[tuple[int, int], list[tuple[Symbol, str]]] = {}
    taken: dict[int, list[Scope]] = {}
    after: dict[int, int] = {}
    for start, end, path in routine.runs:
        scope = routine.names.scopes[path]
        for instruction in routine.instructions[start:end]:
            for child in instruction.children:
                if type(child) is Opcode:
                    continue
                found = members.get((id(child), id(scope)))
                if found is not None:
                    # seen before in this scope: all its registers have their numbers
                    continue
                found = members[id(child), id(scope)] = []
                for _, name in reversed(list(names_in(child))):
                    symbol = scope.lookup(name.text)
                    if symbol is None or symbol.kind is not Kind.REGISTER or symbol.count is None:
                        continue
                    if symbol.path[0] != routine.path[0]:
                        continue
                    known = numbers.setdefault(id(symbol), {})
                    symbols[id(symbol)] = symbol
                    if name.text in known:
                        continue
                    scopes = taken.get(id(symbol))
                    if scopes is None:
                        scopes = taken[id(symbol)] = _inside(routine, symbol)
                    number = after.get(id(symbol), 0)
                    while any(scope_.lookup(f"{symbol.name}{number}") not in (symbol, None) for scope_ in scopes):
                        number += 1
                    known[name.text] = number
                    after[id(symbol)] = number + 1


def _inside(routine: Routine, symbol: Symbol) -> list[Scope]:
    """The scope that declares a family, and all scopes in it with declarations that may hide it."""
    top = routine.names.scope_of(symbol.path)
    found, inside = [top], {id(top)}
    for scope in routine.names.all_scopes:
        if scope.parent is None or id(scope.parent) not in inside:
            continue
        inside.add(id(scope))
        stems = {name.rstrip("0123456789") for name in scope.symbols} | set(scope.ranges)
        if any(symbol.name.startswith(stem) or stem.startswith(symbol.name) for stem in stems):
            found.append(scope)
    return found
