"""Renames functions, variables, labels and registers with all their uses."""

from __future__ import annotations

import re

from ptxkit.isa.registers import special_register
from ptxkit.names import Kind, Symbol, resolve
from ptxkit.rewriters.engine.renaming import renamed
from ptxkit.rewriters.engine.rewrite import Manifest, Refusal, Refused, Rewrite, debugging, require_readable
from ptxkit.syntax import Module

WHAT = ("symbols", "functions", "variables", "labels", "registers", "all")


def rename(module: Module, *, prefix: str = "", suffix: str = "", names: str = "", what: str = "symbols") -> Rewrite:
    """Renames what a module defines, with all uses.

    `.extern` names are kept unless `names` has them; linkage is kept. A leading `%` or `$` stays in front.

    * `prefix`: Put this before every name.
    * `suffix`: Put this after every name.
    * `names`: Rename only these: pairs such as `old=new,other=new2`.
    * `what`: What to rename: symbols (functions and variables of the module), functions, variables, labels, registers or all.

    Raises Refused if a new name is already in use, and for a module with syntax errors; ValueError for names that nothing declares, and for
    new names that are not identifiers.
    """
    require_readable(module)
    if what not in WHAT:
        raise ValueError(f"one of {', '.join(WHAT)} is renamed, not {what!r}")
    pairs = dict([_pair(word) for word in names.replace(",", " ").split()])
    table = resolve(module)
    root = table.root
    unknown = sorted(pairs.keys() - root.symbols.keys())
    if unknown:
        raise ValueError(f"no function or variable of the module is called {unknown[0]!r}")

    def new_name(symbol: Symbol, name: str) -> str:
        is_global = root.symbols.get(symbol.name) is symbol
        if pairs:
            return pairs.get(name, name) if is_global else name
        if not _is_meant(symbol, what, is_global):
            return name
        sigil = name[:1] if name[:1] in ("%", "$") else ""
        end = suffix if symbol.count is None else ""
        return f"{sigil}{prefix}{name[len(sigil) :]}{end}"

    taken = {name for scope in table.all_scopes for name in (*scope.symbols, *scope.ranges)}
    stems = {name for scope in table.all_scopes for name in scope.ranges}
    refusals = list(debugging(module)) if what in ("registers", "all") and not pairs else []
    outside: dict[str, str] = {}
    done: list[str] = []
    for scope in table.all_scopes:
        for symbol in (*scope.symbols.values(), *[one for family in scope.ranges.values() for one in family]):
            new = new_name(symbol, symbol.name)
            if new == symbol.name:
                continue
            if not _is_name(new, symbol):
                raise ValueError(f"{new!r} is not a name for {symbol.name!r}")
            outside[symbol.name] = new
            if scope is root:
                done.append(f"{symbol.name} -> {new}")
            stem = new.rstrip("0123456789")
            if new in taken or (stem != new and stem in stems) or (symbol.count is not None and any(one.startswith(new) for one in taken)):
                refusals.append(Refusal("name-collision", symbol.path, f"`{new}` is declared already, in the module or in a function"))
    if refusals:
        raise Refused(module, refusals)
    options = {"prefix": prefix, "suffix": suffix, "names": names, "what": what}
    return Rewrite(renamed(module, new_name, outside=outside), Manifest("rename", options, changes=tuple(done)))


def _is_name(text: str, symbol: Symbol) -> bool:
    """Whether text is a valid name for a symbol (4.3); `%` is for registers only, and names of special registers are reserved."""
    if not re.fullmatch(r"(?:[a-zA-Z][\w$]*|[_$%][\w$]+)", text, re.ASCII) or text == "WARP_SZ" or special_register(text) is not None:
        return False
    return not text.startswith("%") or symbol.name.startswith("%")


def _pair(word: str) -> tuple[str, str]:
    old, equals, new = word.partition("=")
    if not equals or not new:
        raise ValueError(f"pairs of names as old=new are expected, not {word!r}")
    return old, new


def _is_meant(symbol: Symbol, what: str, is_global: bool) -> bool:
    if symbol.kind is Kind.LABEL:
        return what in ("labels", "all")
    if symbol.kind is Kind.REGISTER:
        return what in ("registers", "all")
    if not is_global or symbol.linkage == ".extern":
        return False
    return what in ("symbols", "all", "functions" if symbol.kind is Kind.FUNCTION else "variables")
