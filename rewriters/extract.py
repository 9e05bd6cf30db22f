"""Extracts kernels with everything that they need."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.names import Names, Scope, names_in, resolve
from ptxkit.rewriters.engine.rewrite import Manifest, Rewrite, require_readable
from ptxkit.rewriters.engine.tree import without
from ptxkit.rewriters.strip_debug import without_debug_word
from ptxkit.syntax import Alias, Data, Declaration, Function, Instruction, Label, Loc, Module, Node, Path, Section, SectionHeader, Target


def extract(module: Module, *, kernel: str) -> Rewrite:
    """Keeps only some kernels or functions, and what they need.

    That is: the functions that they may call or whose address they take, the variables they use, and what the initial values of these
    variables name. Debugging sections, which describe the whole file, are removed unless a `.loc` names them.

    * `kernel`: The kernels or functions to keep: names with commas.

    Raises ValueError for an unknown name, Refused for a module with syntax errors.
    """
    require_readable(module)
    wanted = kernel.replace(",", " ").split()
    if not wanted:
        raise ValueError("no kernel is named")
    known = {function.name for function in module.functions}
    for name in wanted:
        if name not in known:
            raise ValueError(f"no function is called {name!r}; there are {', '.join(sorted(known)) or 'none'}")
    needed = _closure(module, resolve(module), wanted)
    kept: set[int] = set()
    labels: set[str] = set()
    for i, child in enumerate(module.children):
        if not _defines(child) or _defines(child) & needed:
            kept.add(i)
            if isinstance(child, Function):
                labels |= {loc.function_name for _, loc in child.statements() if isinstance(loc, Loc) and loc.function_name}

    def drop(path: Path, child: Node) -> bool:
        if len(path) > 1:
            return False
        if isinstance(child, Section):
            return not any(isinstance(inner, Label) and inner.name.text in labels for inner in child.find(Label))
        if isinstance(child, SectionHeader | Data):
            return True
        return bool(_defines(child)) and path[0] not in kept

    extracted = without(module, drop)
    children = [without_debug_word(child) if isinstance(child, Target) else child for child in extracted.children]
    return Rewrite(extracted.with_children(children), Manifest("extract", {"kernel": kernel}, changes=tuple(sorted(needed))))


def _defines(child: Node) -> set[str]:
    """The module-level names that a statement declares."""
    if isinstance(child, Function):
        return {child.name}
    if isinstance(child, Declaration):
        return {declarator.name.text for declarator in child.declarators}
    if isinstance(child, Alias):
        return {child.name.text}
    return set()


def _closure(module: Module, names: Names, wanted: list[str]) -> set[str]:
    """The module-level names that those wanted need, themselves included."""
    uses: dict[str, set[str]] = {}
    for i, child in enumerate(module.children):
        found = set(_used(i, child, names))
        for name in _defines(child):
            uses.setdefault(name, set()).update(found)
    needed: set[str] = set()
    work = list(wanted)
    while work:
        name = work.pop()
        if name not in needed:
            needed.add(name)
            work += uses.get(name, ())
    return needed


def _used(index: int, child: Node, names: Names) -> Iterator[str]:
    """The module-level names that a statement uses."""
    root = names.root
    if isinstance(child, Alias):
        yield child.aliased.text
    elif isinstance(child, Declaration):
        yield from [name.text for declarator in child.declarators for _, name in names_in(declarator) if name is not declarator.name]
    elif isinstance(child, Function):
        for path, statement in child.statements():
            scope = names.scope_of((index, *path))
            if isinstance(statement, Instruction):
                for operand in statement.operands:
                    yield from _of_root(operand, scope, root)
            elif not isinstance(statement, Loc):
                yield from _of_root(statement, scope, root)


def _of_root(node: Node, scope: Scope, root: Scope) -> Iterator[str]:
    for _, name in names_in(node):
        symbol = scope.lookup(name.text)
        if symbol is not None and root.symbols.get(symbol.name) is symbol:
            yield symbol.name
