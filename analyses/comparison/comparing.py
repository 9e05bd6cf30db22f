"""The differences between two modules, function by function."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping

import attrs

from ptxkit.analyses.comparison.alignment import Pair, align
from ptxkit.analyses.comparison.canonical import Body, Item, Renameable, body, plain
from ptxkit.analyses.comparison.correspondence import correspond, gaps
from ptxkit.analyses.comparison.pairing import displaced, pairs, renamed
from ptxkit.frozen import frozen
from ptxkit.names import Symbol, resolve
from ptxkit.statistics import FunctionStatistics, statistics, symbol_bytes
from ptxkit.syntax import (
    Block,
    Data,
    Declaration,
    Empty,
    File,
    Function,
    Index,
    Loc,
    Module,
    Node,
    Path,
    Section,
    SectionHeader,
    Target,
)
from ptxkit.syntax import (
    Line as RawLine,
)

DEBUGGING = (Data, Empty, File, RawLine, Loc, Section, SectionHeader)
"""Module-level statements that do not affect what the module does."""


@frozen
class Line:
    """A location in a file: the line, from 1, and its text on one line."""

    line: int
    text: str


@frozen
class Change:
    """A difference: `before` is in the first module, `after` in the second."""

    kind: str
    """`removed`, `added`, or `changed`."""
    before: Line | None
    after: Line | None


Counts = dict[str, tuple[int, int]]
"""The old and new count of each resource that changed."""


@frozen
class Changed:
    """A function that is in one module only, or differs. Resources are registers in use by type, and bytes of memory."""

    name: str
    is_entry: bool
    status: str
    """`removed`, `added`, `changed`, or `renamed` and otherwise equal."""
    changes: tuple[Change, ...] = ()
    opcodes: Counts = attrs.field(factory=dict)
    resources: Counts = attrs.field(factory=dict)
    was: str = ""
    """The name in the first module, if it differs."""


@frozen
class Comparison:
    """The differences between two modules: at module level, and function by function."""

    module: tuple[Change, ...]
    functions: tuple[Changed, ...]

    @property
    def is_equal(self) -> bool:
        """Whether they are equal up to names of registers and labels, order of declarations, layout, and debugging data."""
        return not self.module and not self.functions


def compare(before: Module, after: Module, names: Mapping[str, str] | None = None) -> Comparison:
    """The changes from one module to another.

    Functions with different names are paired as in `names`, by the name in `before`, otherwise if most of their instructions are equal. Not
    compared: white space and comments, names of registers and labels, unused registers, the order of functions, variables and directives,
    and debugging data (11.5).
    """
    other_names = pairs(before, after, names)
    aside = displaced(before, other_names)
    old, new = _Side(renamed(before, {**other_names, **aside}), before), _Side(after, after)
    changed: list[Changed] = []
    for name, position in old.functions.items():
        other = new.functions.get(name)
        one = _one_sided(old, name, position, "removed") if other is None else _compared(old, new, name, position, other)
        changed += [one] if one else []
    changed += [_one_sided(new, name, position, "added") for name, position in new.functions.items() if name not in old.functions]
    found = _named(changed, other_names, set(names or ()), new)
    own = {now: name for name, now in aside.items()}
    return Comparison(tuple(_of_module(old, new)), tuple([attrs.evolve(one, name=own.get(one.name, one.name)) for one in found]))


def _named(changed: list[Changed], names: Mapping[str, str], said: set[str], new: _Side) -> Iterator[Changed]:
    """The functions with their old names; a renamed but otherwise equal one is a difference unless its pairing was given."""
    was = {now: old for old, now in names.items()}
    yield from [attrs.evolve(one, was=was.get(one.name, "")) for one in changed]
    for now in was.keys() - {one.name for one in changed}:
        if was[now] not in said and now in new.functions:
            function = new.module.children[new.functions[now]]
            assert isinstance(function, Function)
            yield Changed(now, function.is_entry, "renamed", was=was[now])


class _Side:
    """One of the two modules. `written` is the same before its functions were renamed."""

    def __init__(self, module: Module, written: Module) -> None:
        self.module = module
        self.written = written
        self.functions: dict[str, int] = {}
        for i, child in enumerate(module.children):
            if isinstance(child, Function) and (child.name not in self.functions or child.body is not None):
                self.functions[child.name] = i
        self._index: Index | None = None
        self._statistics: dict[str, FunctionStatistics] | None = None

    @property
    def index(self) -> Index:
        """The positions of statements, computed only when something is to be shown."""
        if self._index is None:
            self._index = Index(self.written)
        return self._index

    @property
    def statistics(self) -> dict[str, FunctionStatistics]:
        if self._statistics is None:
            self._statistics = {one.name: one for one in statistics(self.module).functions}
        return self._statistics

    def line(self, path: Path, text: str) -> Line:
        return Line(self.index.line_column(self.index.offset(path))[0], text)

    def shown(self, path: Path) -> Line:
        """The statement at a path, or a function's header, on one line."""
        node = self.written.at(path)
        node = node.children[0] if isinstance(node, Function) else node
        text = node.text[len(node.leading) :]  # type: ignore[attr-defined]
        return self.line(path, "{ }" if isinstance(node, Block) else " ".join(text.split()))

    def item(self, item: Item) -> Line:
        """A statement of the code; for a block, its brace."""
        return self.line(item.path, item.mask) if item.mask in ("{", "}") else self.shown(item.path)


def _one_sided(side: _Side, name: str, position: int, status: str) -> Changed:
    """A function that only one module has."""
    is_added = status == "added"

    def counts(found: dict[str, int]) -> Counts:
        return {what: (0, count) if is_added else (count, 0) for what, count in found.items() if count}

    function = side.module.children[position]
    assert isinstance(function, Function)
    code = body(side.module, position)
    where = side.shown((position,))
    change = Change(status, None if is_added else where, where if is_added else None)
    return Changed(name, function.is_entry, status, (change,), counts(_opcodes(code)), counts(_resources(side, name, code)))


def _compared(old: _Side, new: _Side, name: str, i: int, j: int) -> Changed | None:
    """The differences between two functions of one name, if any."""
    one, other = old.module.children[i], new.module.children[j]
    assert isinstance(one, Function) and isinstance(other, Function)
    if one is other and old.module is new.module:
        return None
    changes: list[Change] = []
    heads = plain(one.header), plain(other.header)
    if heads[0] != heads[1] or (one.body is None) != (other.body is None):
        changes.append(Change("changed", old.shown((i,)), new.shown((j,))))
    a, b = body(old.module, i), body(new.module, j)
    declared = _declared(one, i), _declared(other, j)
    changes += _multiset(old, new, *declared)
    found = correspond(a, b)
    changes += _retyped(old, new, a, b, found.names)
    changes += _of_code(old, new, a, b, list(found.pairs))
    if not changes:
        return None
    return Changed(
        name,
        other.is_entry,
        "changed",
        tuple(changes),
        _differing(_opcodes(a), _opcodes(b)),
        _differing(_resources(old, name, a), _resources(new, name, b)),
    )


def _of_module(old: _Side, new: _Side) -> Iterator[Change]:
    """The differences at module level."""

    def statements(module: Module) -> list[tuple[str, Path]]:
        return [(_normalized(child), (i,)) for i, child in enumerate(module.children) if not isinstance(child, (Function, *DEBUGGING))]

    return _multiset(old, new, statements(old.module), statements(new.module))


def _normalized(statement: Node) -> str:
    """The statement without layout; the word `debug` of a target is ignored."""
    if isinstance(statement, Target):
        return " ".join([".target", *[word for word in statement.words if word != "debug"]])
    return plain(statement)


def _declared(function: Function, at: int) -> list[tuple[str, Path]]:
    """The declarations of a function other than registers, with their paths."""
    return [
        (plain(statement), (at, *path))
        for path, statement in function.statements()
        if isinstance(statement, Declaration) and statement.space != ".reg"
    ]


def _multiset(old: _Side, new: _Side, before: list[tuple[str, Path]], after: list[tuple[str, Path]]) -> Iterator[Change]:
    """The differences between two collections. Statements that declare the same name are one change."""
    gone, come = _surplus(before, after), _surplus(after, before)
    by_name = {_subject(text): (text, path) for text, path in reversed(come)}
    for text, path in gone:
        other = by_name.pop(_subject(text), None)
        if other is not None:
            come.remove(other)
        yield Change("changed" if other else "removed", old.shown(path), new.shown(other[1]) if other else None)
    for _, path in come:
        yield Change("added", None, new.shown(path))


def _surplus(some: list[tuple[str, Path]], others: list[tuple[str, Path]]) -> list[tuple[str, Path]]:
    """Those that the others contain fewer times."""
    left = Counter([text for text, _ in others])
    found = []
    for text, path in some:
        if left[text]:
            left[text] -= 1
        else:
            found.append((text, path))
    return found


def _subject(text: str) -> str:
    """The subject of a statement: the name that it declares, or its directive."""
    if text.startswith((".version", ".target")):
        return text.partition(" ")[0]
    before = text.partition("=")[0].partition("[")[0].split()
    return next((word for word in reversed(before) if word not in (";", "(", ")", ",")), "")


def _retyped(old: _Side, new: _Side, a: Body, b: Body, names: dict[Renameable, Renameable]) -> Iterator[Change]:
    """Registers that are declared with another type."""
    for one, other in names.items():
        before, after = a.registers.get(one), b.registers.get(other)
        if before is not None and after is not None and _type(before) != _type(after):
            lines = [
                side.line(symbol.path, f".reg {_type(symbol)} {name[1]}")
                for side, symbol, name in ((old, before, one), (new, after, other))
            ]
            yield Change("changed", *lines)


def _type(symbol: Symbol) -> str:
    return (f".v{symbol.vector} " if symbol.vector > 1 else "") + (symbol.type or "?")


def _of_code(old: _Side, new: _Side, a: Body, b: Body, pairs: list[Pair]) -> Iterator[Change]:
    """The statements between equal ones, paired first if they differ in registers only, then if they have the same operation."""
    for i0, i1, j0, j1 in gaps(pairs, len(a.items), len(b.items)):
        one, other = a.items[i0:i1], b.items[j0:j1]
        for k0, k1, l0, l1, paired in _side_by_side(one, other, [lambda item: item.mask, _operation]):
            if paired:
                yield Change("changed", old.item(one[k0]), new.item(other[l0]))
                continue
            for item in one[k0:k1]:
                yield Change("removed", old.item(item), None)
            for item in other[l0:l1]:
                yield Change("added", None, new.item(item))


def _side_by_side(
    a: tuple[Item, ...], b: tuple[Item, ...], keys: list[Callable[[Item], str]], i: int = 0, j: int = 0
) -> Iterator[tuple[int, int, int, int, bool]]:
    """Consecutive parts of both sequences: pairs of statements with equal first keys, or else equal next keys, and unpaired ones."""
    if not keys or not a or not b:
        if a or b:
            yield i, i + len(a), j, j + len(b), False
        return
    key = keys[0]
    pairs = align([key(item) for item in a], [key(item) for item in b])
    i0 = j0 = 0
    for i1, j1 in (*pairs, (len(a), len(b))):
        yield from _side_by_side(a[i0:i1], b[j0:j1], keys[1:], i + i0, j + j0)
        if i1 < len(a):
            yield i + i1, i + i1 + 1, j + j1, j + j1 + 1, True
        i0, j0 = i1 + 1, j1 + 1


def _operation(item: Item) -> str:
    return item.opcode.partition(".")[0] or item.mask


def _opcodes(code: Body) -> dict[str, int]:
    return Counter([item.opcode for item in code.items if item.opcode])


def _resources(side: _Side, name: str, code: Body) -> dict[str, int]:
    """Registers by type, and bytes of memory."""
    found: dict[str, int] = Counter()
    for symbol in code.registers.values():
        found[f"{symbol.type} registers"] += symbol.vector
    known = side.statistics.get(name)
    if known is not None:
        found["bytes of .shared"] = known.shared_bytes
        found["bytes of .local"] = known.local_bytes
    scope = resolve(side.module).scopes.get((side.functions[name], 0))
    if scope is not None:
        found["bytes of .param"] = sum([symbol_bytes(symbol) for symbol in scope.symbols.values()])
    return found


def _differing(before: dict[str, int], after: dict[str, int]) -> Counts:
    """Largest changes first."""
    both = {what: (before.get(what, 0), after.get(what, 0)) for what in {**before, **after}}
    return dict(sorted([one for one in both.items() if one[1][0] != one[1][1]], key=lambda one: (-abs(one[1][1] - one[1][0]), one[0])))
