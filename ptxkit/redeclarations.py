"""Checks of what is declared several times: functions, variables, and aliases of functions (ISA 7.1, 11.2.3, 11.6)."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.isa.types import types
from ptxkit.names import Kind, Names
from ptxkit.problem import Problem
from ptxkit.sizes import extent, natural_alignment, vector_of
from ptxkit.syntax import Alias, Declaration, Declarator, Function, Header, Module, Name, Path

SYSTEM_FUNCTIONS = frozenset(("vprintf", "__assertfail", "malloc", "free", "cudaGraphSetConditional"))
"""Functions that ptxas defines. The machine executes the same (`machine.calling.SYSTEM`)."""


def problems(module: Module, names: Names) -> Iterator[Problem]:
    """Problems of functions that are declared several times, have no definition or alias something invalid, and of variables that are
    declared several times."""
    functions: dict[str, list[tuple[Path, Function]]] = {}
    repeatable: set[str] = set()
    aliases: dict[str, tuple[Path, str]] = {}
    for i, child in enumerate(module.children):
        if type(child) is Function:
            functions.setdefault(child.name, []).append(((i, 0), child))
        elif type(child) is Declaration:
            if child.children and child.children[0].text in (".extern", ".common"):
                repeatable.update([declarator.name.text for declarator in child.declarators])
        elif type(child) is Alias:
            yield from _alias((i,), child, functions, names, aliases)
    for name, declared in functions.items():
        yield from _declared_again(name, declared)
        first = declared[0][1]
        is_elsewhere = name in aliases or name in SYSTEM_FUNCTIONS or first.header.linkage == ".extern"
        if not is_elsewhere and not any(function.body for _, function in declared):
            notes = ("where another module defines it, `.extern` is needed",)
            yield Problem("conflicting-declarations", declared[0][0], f"`{name}` is declared and never defined", notes)
    if repeatable:
        yield from _variables_again(module, repeatable)


def _declared_again(name: str, declared: list[tuple[Path, Function]]) -> Iterator[Problem]:
    kind = "conflicting-declarations"
    first_path, first = declared[0]
    body: Path | None = None
    for path, function in declared:
        header = function.header
        at = path
        related = ((first_path, "the first declaration"),)
        if header.linkage == ".extern" and function.body is not None:
            yield Problem(kind, at, f"`{name}` is `.extern` and has a body", ("what another module defines has none here",))
        if body is not None and not (function.body is not None):
            yield Problem(kind, at, f"`{name}` is declared after its definition", related=((body, "the definition"),))
        if path != first_path:
            if header.is_entry != first.is_entry:
                yield Problem(kind, at, f"`{name}` is a kernel here and a device function there", related=related)
                continue
            found = difference(first.header, header)
            if found is not None:
                yield Problem(kind, at, f"two declarations of `{name}` differ {found}", related=related)
            linkage = first.header.linkage
            if header.linkage != linkage and not (header.linkage is None and linkage in (".visible", ".weak")):
                said = f"`{header.linkage}`" if header.linkage else f"not `{linkage}`"
                yield Problem(kind, at, f"`{name}` is {said} here, unlike before", related=related)
            elif _promises(header) != _promises(first.header):
                differs = min(_promises(header) ^ _promises(first.header))
                yield Problem(kind, at, f"two declarations of `{name}` differ in `{differs}`", related=related)
        if function.body is not None:
            body = body or path


def _promises(header: Header) -> frozenset[str]:
    """What callers rely on besides the parameters."""
    promised = (".noreturn", ".abi_preserve", ".abi_preserve_control")
    return frozenset([" ".join(directive.text.split()) for directive in header.directives if directive.name in promised])


def _variables_again(module: Module, wanted: set[str]) -> Iterator[Problem]:
    found: dict[str, list[tuple[Path, Declaration, Declarator]]] = {}
    for i, child in enumerate(module.children):
        if type(child) is Declaration:
            for j, inner in enumerate(child.children):
                if type(inner) is Declarator and inner.children[0].text in wanted:
                    found.setdefault(inner.name.text, []).append(((i, j), child, inner))
    for name, declared in found.items():
        yield from _variable_again(name, declared)


def _variable_again(name: str, found: list[tuple[Path, Declaration, Declarator]]) -> Iterator[Problem]:
    if len(found) < 2:
        return
    kind = "conflicting-declarations"
    first_path, first, first_declarator = found[0]
    related = ((first_path, "the first declaration"),)
    for path, declaration, declarator in found[1:]:
        linkages = (first.linkage, declaration.linkage)
        if linkages == (".common", ".common"):
            yield Problem(kind, path, f"`{name}` is defined twice", related=related)
        if ".extern" not in linkages:
            continue
        sizes = [tuple([extent(d) for d in one.dimensions]) for one in (first_declarator, declarator)]
        same_sizes = len(sizes[0]) == len(sizes[1]) and all(a == b or a is None or b is None for a, b in zip(*sizes, strict=True))
        if first.type != declaration.type or vector_of(first) != vector_of(declaration) or not same_sizes:
            yield Problem(kind, path, f"two declarations of `{name}` differ in type or size", related=related)
        elif first.linkage == ".extern" and declaration.linkage is None:
            yield Problem(kind, path, f"`{name}` was `.extern`, and what is defined here is not visible", related=related)


def _alias(
    path: Path,
    alias: Alias,
    functions: dict[str, list[tuple[Path, Function]]],
    names: Names,
    aliases: dict[str, tuple[Path, str]],
) -> Iterator[Problem]:
    words = [(i, child.text) for i, child in enumerate(alias.children) if isinstance(child, Name)]
    if len(words) != 2:
        return
    kind = "bad-alias"
    (i, name), (j, of) = words
    usable = True
    for k, word in words:
        declared = functions.get(word)
        if declared is None:
            usable = False
            symbol = names.root.symbols.get(word)
            known = symbol is not None and symbol.kind is Kind.VARIABLE
            message = f"`{word}` is a variable" if known else f"no function `{word}` is declared before"
            yield Problem(kind, (*path, k), message, ("an alias names a function",) if known else ())
        elif declared[0][1].is_entry:
            usable = False
            yield Problem(kind, (*path, k), f"`{word}` is a kernel", ("an alias names a device function",))
    if not usable:
        return
    given, aliased = functions[name], functions[of]
    if name == of:
        yield Problem(kind, (*path, j), f"`{name}` is an alias of itself")
    elif any(function.body for _, function in given):
        yield Problem(kind, (*path, i), f"`{name}` has a body", ("an alias is declared without one",), ((given[0][0], "here"),))
    if name in aliases:
        yield Problem(kind, (*path, i), f"`{name}` is an alias already", related=((aliases[name][0], f"of `{aliases[name][1]}`"),))
    linkage = aliased[0][1].header.linkage
    if linkage in (".weak", ".extern"):
        yield Problem(
            kind, (*path, j), f"`{of}` is `{linkage}`", ("the function that an alias names is defined in the module and not weak",)
        )
    found = difference(given[0][1].header, aliased[0][1].header)
    if found is not None:
        yield Problem(kind, path, f"`{name}` and `{of}` differ {found}", related=((given[0][0], f"`{name}`"), (aliased[0][0], f"`{of}`")))
    elif _promises(given[0][1].header) != _promises(aliased[0][1].header):
        yield Problem(kind, path, f"`{name}` and `{of}` make different promises")
    aliases.setdefault(name, (path, of))


def difference(one: Header, other: Header) -> str | None:
    """How the parameters of two functions differ, as text; None if they do not."""
    first, second = signature(one), signature(other)
    if first == second:
        return None
    if len(first) != len(second) or [p[0] for p in first] != [p[0] for p in second]:
        return "in the number of parameters"
    what = ("", "state spaces", "types", "types", "sizes", "alignments")
    at = next(i for a, b in zip(first, second, strict=True) for i in range(6) if a[i] != b[i])
    return f"in the {what[at]} of the parameters"


def signature(header: Header) -> tuple[tuple[object, ...], ...]:
    """What all declarations of a function share: the space, type, size and alignment of each parameter, and which ones are results."""
    found: list[tuple[object, ...]] = []
    for is_result, parameters in ((True, header.returns), (False, header.parameters)):
        for parameter in parameters:
            known = types().get(parameter.type or "")
            sizes = tuple([extent(dimension) or 0 for dimension in parameter.declarator.dimensions])
            align = natural_alignment(parameter, known) if known is not None else 0
            found.append((is_result, parameter.space, parameter.type, vector_of(parameter), sizes, align))
    return tuple(found)
