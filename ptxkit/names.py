"""Name resolution: scopes, symbols, and undeclared names (4.4, 5.4, 7).

A `{}` opens a scope; an inner declaration hides an outer one. Labels, registers, variables, parameters and functions share one name space.
`%r<100>` declares %r0 to %r99 without listing them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Hashable, Iterator, Sequence
from typing import NamedTuple

import attrs

from ptxkit.frozen import frozen
from ptxkit.memo import collector_paused, per_object
from ptxkit.mentions import Mentioned, mentioned
from ptxkit.operands import Keys, Shaper, is_predefined
from ptxkit.patterns import Sketch
from ptxkit.scopes import Kind, Scope, Symbol
from ptxkit.syntax import (
    Alias,
    Align,
    Apply,
    Block,
    Code,
    Declaration,
    Declarator,
    Function,
    Header,
    Instruction,
    Keyword,
    Label,
    Linkage,
    Module,
    Name,
    Node,
    Number,
    Parameter,
    Path,
    Range,
    Setting,
    Space,
    Targets,
    VectorWidth,
    code_of,
    constant_value,
)


@frozen
class Use:
    """An occurrence of a name in a statement."""

    name: str
    path: Path
    scope: Scope = attrs.field(repr=False)


class Laid(NamedTuple):
    """A block of a function, or the module, with its statements sorted."""

    path: Path
    scope: Scope
    code: Code

    @property
    def children(self) -> tuple[Node, ...]:
        """All statements directly in it."""
        return self.code.children

    @property
    def instructions(self) -> Sequence[Instruction]:
        """The instructions directly in it."""
        return [child for child in self.children if type(child) is Instruction] if self.others else self.children  # type: ignore[return-value]

    @property
    def others(self) -> Sequence[tuple[int, Node]]:
        """The other statements, with their indices."""
        return self.code.others

    @property
    def indexed(self) -> list[tuple[int, Instruction]]:
        """The instructions with their indices."""
        return [(i, child) for i, child in enumerate(self.children) if type(child) is Instruction]


@frozen(eq=False)
class Names:
    """All scopes of a module, and the problems with its names."""

    module: Module
    root: Scope
    scopes: dict[Path, Scope]
    """By the path of a block, a function's header, or the module; a block without declarations shares the enclosing scope."""
    duplicates: tuple[tuple[Symbol, Symbol], ...]
    """A symbol that is declared again, and the second declaration."""
    unresolved: tuple[Use, ...]
    """The first use, in each scope, of each name that is neither declared nor a special register."""
    used: frozenset[Symbol]
    """Every symbol that is used."""
    blocks: tuple[Laid, ...] = attrs.field(default=(), repr=False)
    """The blocks of all functions with a body, outer ones first."""
    in_scope: dict[Scope, list[Laid]] = attrs.field(factory=dict, repr=False)
    """The same blocks by scope."""
    late: tuple[Laid, ...] = attrs.field(default=(), repr=False)
    """The blocks that declare a name, other than a label, after an instruction or an inner block."""
    mentioned: dict[Scope, Mentioned] = attrs.field(factory=dict, repr=False)
    """What the names in the instructions of these blocks, and of the module, mean."""
    _sketches: dict[Scope, Sketch] = attrs.field(factory=dict, repr=False)
    _equal_scopes: dict[Hashable, Sketch] = attrs.field(factory=dict, repr=False)
    """The same by all that they depend on."""
    _declarations: dict[Hashable, int] = attrs.field(factory=dict, repr=False)
    """The numbers of symbols, and of the declarations that some have in common."""
    _keys: Keys = attrs.field(factory=Keys, repr=False)
    _shapers: dict[Scope, Shaper] = attrs.field(factory=dict, repr=False)

    @property
    def all_scopes(self) -> tuple[Scope, ...]:
        """Every scope once, outer ones first."""
        return tuple({id(scope): scope for scope in self.scopes.values()}.values())

    def shaper(self, scope: Scope) -> Shaper:
        """The shapes of the operands in a scope, for the instruction table."""
        found = self._shapers.get(scope)
        if found is None:
            found = self._shapers[scope] = Shaper(scope, self._keys)
        return found

    def sketch(self, scope: Scope) -> Sketch:
        """The instructions in a scope by pattern.

        Inner scopes share one sketch if their instructions are equal apart from constants and the numbers of registers declared with a
        count, and their names mean symbols that are declared alike.
        """
        found = self._sketches.get(scope)
        if found is None:
            found = self._sketches[scope] = self._sketched(scope)
        return found

    def _sketched(self, scope: Scope) -> Sketch:
        codes = [laid.code for laid in self.in_scope.get(scope, ())] or [code_of(self.module)]
        mentioned = self.mentioned[scope]
        if scope.ranges:
            # mostly the body of a function, which is hardly ever that of another
            return Sketch(self.shaper(scope), codes, mentioned)
        declared = map(self._declaration_number, mentioned.symbols)
        spelled = [name for code in codes for name in code.spelled(mentioned.names_apart)] if mentioned.apart else ()
        texts = [text for code in codes for text in code.texts]
        key = (len(texts), *texts, *spelled, *declared, *mentioned.missing)
        found = self._equal_scopes.get(key)
        if found is None:
            found = self._equal_scopes[key] = Sketch(self.shaper(scope), codes, mentioned)
        return found

    def _declaration_number(self, symbol: Symbol) -> int:
        """A number that only this symbol and those that are declared like it have."""
        found = self._declarations.get(symbol)
        if found is None:
            own = (symbol.name, symbol.kind, symbol.space, symbol.type, symbol.vector, symbol.dimensions, symbol.align)
            key: Hashable = symbol if symbol.kind is Kind.FUNCTION else own
            found = self._declarations[symbol] = self._declarations.setdefault(key, len(self._declarations))
        return found

    def select(self, scope: Scope, choose: Callable[[Sketch], Collection[str]]) -> Iterator[tuple[Path, Instruction, str]]:
        """The instructions in a scope that have one of the patterns chosen, with their paths and keys."""
        sketch = self.sketch(scope)
        patterns = choose(sketch)
        before = 0
        for laid in self.in_scope[scope] if patterns else ():
            code = laid.code
            numbers = code.numbers(patterns)
            for number, i, instruction in zip(numbers, code.indices(numbers), code.examples(numbers), strict=True):
                yield (*laid.path, i), instruction, sketch.key(before + number, code.patterns[number].text)
            before += len(code.patterns)

    def is_used(self, symbol: Symbol) -> bool:
        return symbol in self.used

    def scope_of(self, path: Path) -> Scope:
        """The innermost scope around the node at a path."""
        for length in range(len(path) - 1, 0, -1):
            found = self.scopes.get(path[:length])
            if found is not None:
                return found
        return self.root

    def lookup(self, path: Path, name: str) -> Symbol | None:
        """The symbol of a name at a path."""
        return self.scope_of(path).lookup(name)


@per_object
def resolve(module: Module) -> Names:
    """The names of a module. Takes linear time; the results for the last few modules are cached."""
    with collector_paused():
        return _Resolver(module).run()


def names_in(node: Node) -> Iterator[tuple[Path, Name]]:
    """The names that a node of an instruction or initializer uses, with their paths relative to it."""
    stack: list[tuple[Path, Node]] = [((), node)]
    while stack:
        path, inner = stack.pop()
        if isinstance(inner, Name):
            if inner.text != "_":
                yield path, inner
        elif isinstance(inner, Apply):
            stack.append(((*path, 1), inner.children[1]))
        elif isinstance(inner, Setting):
            continue
        elif inner.children:
            stack.extend([((*path, i), child) for i, child in enumerate(inner.children)])


_DECLARING = frozenset((Declaration, Label, Function, Alias))
"""The statements that declare names in a scope. A block without any of them shares the enclosing scope."""

_USING = frozenset((Declaration, Targets, Alias))
"""The statements besides instructions that use names."""


class _Resolver:
    def __init__(self, module: Module) -> None:
        self.module = module
        self.root = Scope((), None, {}, {})
        self.scopes: dict[Path, Scope] = {(): self.root}
        self.duplicates: list[tuple[Symbol, Symbol]] = []
        self.unresolved: list[Use] = []
        self.used: set[Symbol] = set()
        self.blocks: list[Laid] = []
        self.in_scope: dict[Scope, list[Laid]] = {}
        self.late: list[Laid] = []
        self.mentioned: dict[Scope, Mentioned] = {}

    def run(self) -> Names:
        for i, statement in enumerate(self.module.children):
            self._declare(self.root, (i,), statement)
        self._use_statements([Laid((), self.root, code_of(self.module))])
        for i, statement in enumerate(self.module.children):
            if isinstance(statement, Function):
                self._function((i,), statement)
        return Names(
            self.module,
            self.root,
            self.scopes,
            tuple(self.duplicates),
            tuple(self.unresolved),
            frozenset(self.used),
            tuple(self.blocks),
            self.in_scope,
            tuple(self.late),
            self.mentioned,
        )

    def _function(self, path: Path, function: Function) -> None:
        if function.body is None:
            return
        scope = Scope((*path, 0), self.root, {}, {})
        header = function.header
        for i, list_of in enumerate(header.children):
            for j, parameter in enumerate(list_of.children if type(list_of).__name__ == "Parameters" else ()):
                if isinstance(parameter, Parameter):
                    self._add(scope, _parameter_symbol(parameter, (*path, 0, i, j)))
        body = Scope((*path, 1), scope, {}, {})
        self.scopes[(*path, 0)] = scope
        first = len(self.blocks)
        stack = [Laid(body.path, body, code_of(function.body))]
        while stack:
            self._block(stack.pop(), stack)
        for scope in dict.fromkeys([laid.scope for laid in self.blocks[first:]]):
            self._use_statements(self.in_scope[scope])

    def _block(self, laid: Laid, stack: list[Laid]) -> None:
        """Enters the declarations of a block, and puts its inner blocks on the stack."""
        path, scope, _ = laid
        self.scopes[path] = scope
        self.blocks.append(laid)
        self.in_scope.setdefault(scope, []).append(laid)
        begun = 0
        is_late = False
        for i, child in laid.others:
            kind = type(child)
            if kind is Block:
                code = code_of(child)  # type: ignore[arg-type]
                declares = not _DECLARING.isdisjoint([type(other) for _, other in code.others])
                stack.append(Laid((*path, i), Scope((*path, i), scope, {}, {}) if declares else scope, code))
            elif kind in _DECLARING:
                # a function is declared at module level, wherever the declaration is
                self._declare(self.root if kind is Function else scope, (*path, i), child)
                is_late = is_late or (i > begun and kind is not Label)
            if i == begun and kind is not Block:
                begun += 1
        if is_late:
            self.late.append(laid)

    def _declare(self, scope: Scope, path: Path, statement: Node) -> None:
        kind = type(statement)
        if kind is Declaration:
            for symbol in _declared(statement, path):  # type: ignore[arg-type]
                self._add(scope, symbol)
        elif kind is Label:
            self._add(scope, Symbol(statement.name.text, Kind.LABEL, (*path, 0), declares=statement))  # type: ignore[attr-defined]
        elif kind is Function:
            header: Header = statement.header  # type: ignore[attr-defined]
            at = next((i for i, child in enumerate(header.children) if isinstance(child, Name)), 0)
            symbol = Symbol(header.name.text, Kind.FUNCTION, (*path, 0, at), linkage=header.linkage, declares=statement)
            before = scope.symbols.get(symbol.name)
            # a function may be declared any number of times and defined once
            if before is not None and isinstance(before.declares, Function) and not (before.declares.body and statement.body):  # type: ignore[attr-defined]
                if statement.body:  # type: ignore[attr-defined]
                    scope.symbols[symbol.name] = symbol
                return
            self._add(scope, symbol)
        elif kind is Alias:
            name = statement.children[0]
            if scope.symbols.get(name.text) is None:
                self._add(scope, Symbol(name.text, Kind.FUNCTION, (*path, 0), declares=statement))

    def _add(self, scope: Scope, symbol: Symbol) -> None:
        if symbol.name == "_":
            return
        if symbol.count is not None:
            family = scope.ranges.setdefault(symbol.name, [])
            if family:
                self.duplicates.append((family[0], symbol))
            family.append(symbol)
            return
        before = scope.symbols.get(symbol.name)
        if before is None:
            scope.symbols[symbol.name] = symbol
        elif not _may_repeat(before, symbol):
            self.duplicates.append((before, symbol))
        elif before.linkage == ".extern":
            scope.symbols[symbol.name] = symbol

    def _use_statements(self, blocks: list[Laid]) -> None:
        """Resolves the names in the statements of a scope."""
        scope = blocks[0].scope
        found = self.mentioned[scope] = mentioned(scope, set().union(*[laid.code.names() for laid in blocks]))
        self.used.update(found.symbols)
        missing = {*found.missing, *self._used_by_others(scope, blocks)}
        for laid in blocks if missing else ():
            uses = list(_first_uses(laid, missing))
            self.unresolved.extend(uses)
            missing.difference_update([use.name for use in uses])

    def _used_by_others(self, scope: Scope, blocks: list[Laid]) -> set[str]:
        """Resolves the names in statements other than instructions, and gives those that are not declared."""
        names = {name.text for laid in blocks for _, other in laid.others if type(other) in _USING for _, name in _names_of_other(other)}
        missing = set()
        for name in names:
            symbol = scope.lookup(name)
            if symbol is not None:
                self.used.add(symbol)
            elif not is_predefined(name):
                missing.add(name)
        return missing


def _names_of_other(statement: Node) -> Iterator[tuple[Path, Name]]:
    """The names that a statement other than an instruction uses, with their paths relative to it."""
    kind = type(statement)
    if kind is Targets or kind is Alias:
        yield from names_in(statement)
    elif kind is Declaration:
        for i, child in enumerate(statement.children):
            for j, part in enumerate(child.children[1:], 1) if type(child) is Declarator else ():
                if type(part) is not Range or type(part.children[0]) is not Number:
                    yield from [((i, j, *path), name) for path, name in names_in(part)]


def _first_uses(laid: Laid, missing: set[str]) -> Iterator[Use]:
    missing = set(missing)
    for i, statement in enumerate(laid.children):
        if not missing:
            return
        names = names_in(statement) if type(statement) is Instruction else _names_of_other(statement)
        found = [(path, name.text) for path, name in names if name.text in missing]
        for path, name in sorted(found):
            if name in missing:
                missing.discard(name)
                yield Use(name, (*laid.path, i, *path), laid.scope)


def _may_repeat(before: Symbol, after: Symbol) -> bool:
    """Whether both declarations are allowed in one scope: a variable may be declared `.extern` and then defined."""
    if before.kind is not Kind.VARIABLE or after.kind is not Kind.VARIABLE:
        return False
    linkages = {before.linkage, after.linkage}
    return ".extern" in linkages or linkages == {".common"}


def _dimensions(declarator: Declarator) -> tuple[int | None, ...]:
    sizes = []
    for dimension in declarator.dimensions:
        value = constant_value(dimension.children[0]) if dimension.children else None
        sizes.append(int(value) if value is not None and math.isfinite(value) else None)
    return tuple(sizes)


def _declared(declaration: Declaration, path: Path) -> Iterator[Symbol]:
    linkage = space = type_ = align = None
    vector = 1
    for i, child in enumerate(declaration.children):
        kind = type(child)
        if kind is Declarator:
            what = Kind.REGISTER if space == ".reg" else Kind.PARAMETER if space and space.startswith(".param") else Kind.VARIABLE
            parts = child.children
            dimensions = _dimensions(child) if len(parts) > 1 else ()  # type: ignore[arg-type]
            count = child.count if len(parts) > 1 else None  # type: ignore[attr-defined]
            yield Symbol(parts[0].text, what, (*path, i, 0), space, type_, vector, align, dimensions, count, linkage, declaration)
        elif kind is Space:
            space = child.text
        elif kind is Keyword:
            type_ = child.text
        elif kind is Linkage:
            linkage = child.text
        elif kind is VectorWidth:
            vector = declaration.vector
        elif kind is Align:
            align = declaration.align


def _parameter_symbol(parameter: Parameter, path: Path) -> Symbol:
    space = parameter.space
    kind = Kind.REGISTER if space == ".reg" else Kind.PARAMETER
    declarator = parameter.declarator
    at = (*path, len(parameter.children) - 1, 0)
    return Symbol(
        declarator.name.text,
        kind,
        at,
        space,
        parameter.type,
        parameter.vector,
        parameter.align,
        _dimensions(declarator),
        None,
        None,
        parameter,
    )


__all__ = ["Kind", "Laid", "Names", "Scope", "Symbol", "Use", "names_in", "resolve"]
