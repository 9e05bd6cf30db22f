"""A function prepared for execution: its instructions in order, with their positions, and its registers, numbered."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import chain
from typing import Any, overload

import attrs
import numpy as np

from ptxkit.checking import Bounds
from ptxkit.frozen import define
from ptxkit.isa.binding import Bound
from ptxkit.isa.forms import Fragment
from ptxkit.isa.mismatch import Mismatch
from ptxkit.machine.blocks import BasicBlock, basic_blocks
from ptxkit.machine.liveness import Liveness, Row
from ptxkit.machine.plans import TOP, Plan, call_parts, fragments_of, holds, is_copy, mask_of, plan_of
from ptxkit.machine.types import dtype_of
from ptxkit.memo import per_object
from ptxkit.mentions import names_in_order
from ptxkit.names import Kind, Laid, Names, Scope, Symbol
from ptxkit.operands import part, selected
from ptxkit.scopes import members
from ptxkit.syntax import (
    Block,
    Component,
    Function,
    Guard,
    Instruction,
    Label,
    Module,
    Name,
    Node,
    Number,
    Opcode,
    Path,
    Targets,
    Vector,
)

MANY_NUMBERS = 100
"""A register family with at most this many members, plus four for each name in use, has all of its members numbered."""


@define(eq=False)
class Site:
    """An instruction with its form and position. Immutable."""

    instruction: Instruction
    bound: Bound | Mismatch
    scope: Scope
    path: Path
    """Relative to the module."""
    body: Body = attrs.field(repr=False)
    number: int
    """Its index among the instructions of the function."""


@define
class Target:
    """What a label stands before."""

    at: int
    """The next instruction."""
    list: Targets | None = None
    """The list of branch targets that it names, if any."""


@define
class _Stretch:
    """Consecutive instructions within one block of the text."""

    first: int
    laid: Laid
    """The block of the text."""
    start: int
    """The first instruction, as an index of those of the block."""
    before: list[int]
    """For each statement of the block that is not an instruction, how many instructions come before it."""

    def place(self, i: int) -> int:
        """The index of an instruction among the statements of the block."""
        at = self.start + i - self.first
        return at + bisect_right(self.before, at)


@define
class _Level:
    """A block of the text whose instructions are being added to the function."""

    laid: Laid
    own: Sequence[Instruction]
    """Its instructions."""
    others: Iterator[tuple[int, tuple[int, Any]]]
    """Its other statements that are still to come: for each, how many came before, its index and itself."""
    before: list[int]
    taken: int = 0
    """How many of its instructions were added."""


class Sites(Sequence[Site]):
    """The instructions of a function with their positions, each created on first access."""

    def __init__(self, body: Body) -> None:
        self._body = body
        self._made: list[Site | None] = [None] * len(body.instructions)

    def __len__(self) -> int:
        return len(self._made)

    @overload
    def __getitem__(self, at: int) -> Site: ...
    @overload
    def __getitem__(self, at: slice) -> list[Site]: ...
    def __getitem__(self, at: int | slice) -> Site | list[Site]:
        if isinstance(at, slice):
            return [self[i] for i in range(*at.indices(len(self._made)))]
        found = self._made[at]
        if found is None:
            found = self._made[at] = self._body.site(range(len(self._made))[at])
        return found

    @property
    def made(self) -> list[Site]:
        """Those that have been created, which include all that were executed under monitors."""
        return [site for site in self._made if site is not None]


@per_object
def _blocks_by_function(names: Names) -> dict[int, dict[Path, Laid]]:
    """The blocks of each function, by its index in the module and by their paths."""
    found: dict[int, dict[Path, Laid]] = {}
    for laid in names.blocks:
        found.setdefault(laid.path[0], {})[laid.path] = laid
    return found


class Body:
    """A function with a body, prepared for compilation in time linear in its instructions.

    What is only needed for executed code is computed on demand: for each instruction, its `Site`; for each chain of blocks, which registers
    are live within it and their dtypes (`Liveness`).
    """

    def __init__(
        self,
        module: Module,
        names: Names,
        bounds: Bounds,
        function: Function,
        index: int,
        keeps_dead: bool = False,
        is_plain: bool = False,
    ) -> None:
        """With `keeps_dead`, registers keep their values after their last use. With `is_plain`, no monitor is active and liveness may be
        deferred."""
        self.module = module
        self.names = names
        self.function = function
        self.path: Path = (index,)
        self.name = function.name
        self.instructions: list[Instruction] = []
        self._labels: dict[int, Target] = {}
        """By `id` of the symbol."""
        self.variables: list[Symbol] = []
        """Symbols that it declares, other than registers and its own parameters."""
        self.used: dict[int, Symbol] = {}
        """The variables and functions that its instructions refer to, by `id`."""
        self.takes_stack = False
        """Whether `alloca` extends the stack beyond the frame."""
        self.types: list[str] = ["", "", ""]
        self.dtypes: list[np.dtype[Any]] = [np.dtype(np.uint64), np.dtype(np.uint64), np.dtype(np.bool_)]
        """The dtype of each register between blocks."""
        self._fragments: dict[int, tuple[tuple[Fragment, bool, tuple[int, ...]], ...]] = {}
        """Matrix fragments of a site, by `id`."""
        self.known: dict[Any, Any] = {}
        """What monitors and others have computed about the text, kept for further launches."""
        self._stretches: list[_Stretch] = []
        self._starts: list[int] = []
        """The first instruction of each stretch."""
        self._firsts: dict[int, int] = {}
        """For a symbol that declares a register family, by `id`: the number of its first register."""
        self._numbers: dict[int, dict[str, tuple[int, ...]]] = {}
        """For other symbols, by `id` and name: the registers."""
        self._places: dict[int, int] = {}
        """For a parameter of a device function, by `id`: the register with its address."""
        self._of_node: dict[int, dict[int, tuple[int, ...]]] = {}
        """For a scope and a node, by `id`: the registers that the node names, in order."""
        self._held = -1
        self._scopes: dict[int, Scope] = {}
        self._has_sparse = False
        self._flatten(index)
        self.sites = Sites(self)
        self.formals = self._formals()
        self._forms = bounds
        self._bounds: list[Bound | Mismatch | None] = [None] * len(self.instructions)
        """The form of each instruction; None until requested."""
        self._plans: dict[int, Plan] = {}
        """Plans by `id` of the form."""
        self.blocks: list[BasicBlock] = basic_blocks(self)
        self.liveness = Liveness(self, keeps_dead, is_plain)

    # --- instructions, in document order

    def _flatten(self, index: int) -> None:
        instructions = self.instructions
        blocks = _blocks_by_function(self.names)[index]

        def enter(path: Path) -> _Level:
            laid = blocks[path]
            if id(laid.scope) not in self._scopes:
                self._scopes[id(laid.scope)] = laid.scope
                self._number(laid.scope)
            return _Level(laid, laid.instructions, enumerate(laid.others), [j - k for k, (j, _) in enumerate(laid.others)])

        def take(level: _Level, end: int) -> None:
            """Adds the instructions of a block up to one of them to the function."""
            if end > level.taken:
                self._starts.append(len(instructions))
                self._stretches.append(_Stretch(len(instructions), level.laid, level.taken, level.before))
                instructions.extend(level.own[level.taken : end])
                level.taken = end

        stack = [enter((index, 1))]
        while stack:
            level = stack[-1]
            laid = level.laid
            label: Target | None = None
            for before, (j, statement) in level.others:
                kind = type(statement)
                if kind is Label:
                    label = Target(len(instructions) + j - before - level.taken)
                    symbol = laid.scope.symbols.get(statement.children[0].text)
                    self._labels.setdefault(id(symbol), label)
                elif kind is Block:
                    take(level, j - before)
                    stack.append(enter((*laid.path, j)))
                    break
                elif label is not None:
                    if kind is Targets:
                        label.list = statement
                    label = None
            else:
                take(level, len(level.own))
                stack.pop()
        for scope in self._scopes.values():
            for symbol in self.names.mentioned[scope].symbols:
                if symbol.kind is not Kind.LABEL and symbol.kind is not Kind.REGISTER:
                    self.used[id(symbol)] = symbol

    def label(self, scope: Scope, name: str) -> Target | None:
        """What the label of that name stands before, as seen from a scope; None if there is none."""
        return self._labels.get(id(scope.lookup(name)))

    def _stretch(self, i: int) -> _Stretch:
        return self._stretches[bisect_right(self._starts, i) - 1]

    def scope_at(self, i: int) -> Scope:
        """The scope of an instruction."""
        return self._stretch(i).laid.scope

    def site(self, i: int) -> Site:
        """Creates the site of an instruction; use `sites`, which caches them."""
        stretch = self._stretch(i)
        laid = stretch.laid
        return Site(self.instructions[i], self.bound(i), laid.scope, (*laid.path, stretch.place(i)), self, i)

    def bound(self, i: int) -> Bound | Mismatch:
        """The form of an instruction."""
        found = self._bounds[i]
        if found is None:
            found = self._bounds[i] = self._forms.one(self.instructions[i], self.scope_at(i))
        return found

    @cached_property
    def forms(self) -> tuple[Bound, ...]:
        """The forms that its instructions have, without repetitions."""
        found = {id(bound): bound for bound in map(self.bound, range(len(self.instructions)))}
        return tuple([bound for bound in found.values() if isinstance(bound, Bound)])

    def _all_bounds(self) -> list[Bound | Mismatch]:
        """The forms of all instructions."""
        found: list[Bound | Mismatch] = []
        for stretch, after in self._ranges():
            found += self._forms.of(stretch.laid.path)[stretch.start : stretch.start + after - stretch.first]
        self._bounds = list(found)
        return found

    def rows(self) -> list[Row]:
        """For each instruction, its parts, its plan, and the registers that each part names, by `id`."""
        plans = [self._plan(bound) for bound in self._all_bounds()]
        of_node = {key: self._look_up(scope) for key, scope in self._scopes.items()}
        named: list[dict[int, tuple[int, ...]]] = []
        for stretch, after in self._ranges():
            named += [of_node[id(stretch.laid.scope)]] * (after - stretch.first)
        return list(zip([one.children for one in self.instructions], plans, named, strict=True))

    def _plan(self, bound: Bound | Mismatch) -> Plan:
        found = self._plans.get(id(bound))
        if found is None:
            found = self._plans[id(bound)] = plan_of(bound)
        return found

    def _ranges(self) -> Iterator[tuple[_Stretch, int]]:
        """The stretches, each with the first instruction behind it."""
        return zip(self._stretches, [*self._starts[1:], len(self.instructions)], strict=True)

    # --- registers

    def _number(self, scope: Scope) -> None:
        """Numbers the registers that a scope declares."""
        self._of_node[id(scope)] = {}
        most = MANY_NUMBERS + 4 * sum([len(laid.code.patterns) for laid in self.names.in_scope[scope]])
        for stem, (symbol, *others) in scope.ranges.items():
            self.variables += [one for one in (symbol, *others) if one.kind is not Kind.REGISTER]
            count = symbol.count
            is_plain = symbol.kind is Kind.REGISTER and symbol.vector == 1 and not others and not stem[-1:].isdecimal()
            if is_plain and count is not None and count <= most:
                type_ = symbol.type or ".b32"
                self._firsts[id(symbol)] = len(self.types)
                self.types += [type_] * count
                self.dtypes += [dtype_of(type_)] * count
        for name, symbol in scope.symbols.items():
            if symbol.kind is Kind.REGISTER:
                self._numbers[id(symbol)] = {name: self._added(symbol)}
            elif symbol.kind is not Kind.LABEL and symbol.kind is not Kind.FUNCTION:
                self.variables.append(symbol)
        if self._has_sparse or any(id(symbol) not in self._firsts for family in scope.ranges.values() for symbol in family):
            # only a few of the members are referenced
            self._has_sparse = True
            for name in names_in_order(self._parts(scope)):
                self.named(scope, name)

    def _parts(self, scope: Scope) -> list[Node]:
        """The guards, opcodes and operands of the instructions in a scope."""
        return list(chain.from_iterable([one.children for laid in self.names.in_scope[scope] for one in laid.instructions]))

    def _look_up(self, scope: Scope) -> dict[int, tuple[int, ...]]:
        """For each operand node in a scope, by `id`: the registers that it names."""
        parts = self._parts(scope)
        nodes = dict(zip(map(id, parts), parts, strict=True))
        quick: dict[str, tuple[int, ...]] = {}
        for stem, (symbol, *_) in scope.ranges.items():
            first = self._firsts.get(id(symbol))
            if first is not None and symbol.count is not None:
                names = members(stem, symbol.count)
                quick.update(zip(names, zip(range(first, first + len(names)), strict=True), strict=True))
        for name in scope.symbols if quick else ():
            quick.pop(name, None)
        of: dict[int, tuple[int, ...]] = {key: () for key, node in nodes.items() if type(node) is Opcode}
        texts = {key: node.text for key, node in nodes.items() if type(node) is Name}
        of.update([(key, numbers) for key, numbers in zip(texts, map(quick.get, texts.values()), strict=True) if numbers is not None])
        self._of_node[id(scope)] = of
        for key, node in nodes.items():
            if key not in of:
                of[key] = self._registers_of(scope, node)
        return of

    def _formals(self) -> list[tuple[Symbol, int]]:
        """Results and parameters of a device function, each with a register that holds its value or, for `.param`, the address of its
        bytes."""
        scope = self.names.scopes[(*self.path, 0)]
        header = self.function.header
        found = []
        if header.is_entry:
            return []
        for parameter in (*header.returns, *header.parameters):
            symbol = scope.lookup(parameter.name)
            if symbol is None:
                continue
            if symbol.kind is Kind.REGISTER:
                found.append((symbol, self.named(scope, parameter.name)[0]))
            else:
                found.append((symbol, self._place(symbol)))
        return found

    def _place(self, symbol: Symbol) -> int:
        """The register with the address of a parameter of a device function."""
        if id(symbol) not in self._places:
            self._places[id(symbol)] = self._new("", np.dtype(np.uint64))
        return self._places[id(symbol)]

    def formal(self, symbol: Symbol) -> int:
        """The register with the address of a parameter of a device function; -1 if the symbol is none."""
        return self._places.get(id(symbol), -1)

    def _new(self, type_: str, dtype: np.dtype[Any]) -> int:
        self.types.append(type_)
        self.dtypes.append(dtype)
        return len(self.types) - 1

    def _added(self, symbol: Symbol) -> tuple[int, ...]:
        """New registers for a symbol: several if it is declared as a vector."""
        first, type_ = len(self.types), symbol.type or ".b32"
        self.types += [type_] * symbol.vector
        self.dtypes += [dtype_of(type_)] * symbol.vector
        return tuple(range(first, first + symbol.vector))

    def named(self, scope: Scope, name: str) -> tuple[int, ...]:
        """The registers of the function with this name: empty if there is none, several if it is declared as a vector."""
        symbol = scope.lookup(name)
        if symbol is None or symbol.kind is not Kind.REGISTER or symbol.path[0] != self.path[0]:
            return ()
        first = self._firsts.get(id(symbol))
        if first is not None:
            return (first + int(name[len(symbol.name) :]),)
        of_symbol = self._numbers.get(id(symbol))
        if of_symbol is None:
            of_symbol = self._numbers[id(symbol)] = {}
        found = of_symbol.get(name)
        if found is None:
            found = of_symbol[name] = self._added(symbol)
        return found

    def _named(self, scope: Scope, name: str) -> tuple[int, ...]:
        """The registers that a name as an operand stands for; for a parameter of a device function, the one with its address."""
        found = self.named(scope, name)
        if found or self.function.header.is_entry:
            return found
        symbol = scope.lookup(name)
        is_formal = symbol is not None and symbol.kind is Kind.PARAMETER and symbol.path[: len(self.path) + 1] == (*self.path, 0)
        return (self._place(symbol),) if is_formal else ()  # type: ignore[arg-type]

    def named_registers(self) -> list[tuple[str, Symbol, tuple[int, ...]]]:
        """The registers that instructions name, with their symbols, ordered by register number."""
        found = {
            (name, id(symbol)): (name, symbol, numbers)
            for scope in self._scopes.values()
            for name in names_in_order(self._parts(scope))
            if (numbers := self.named(scope, name)) and (symbol := scope.lookup(name)) is not None
        }
        return sorted(found.values(), key=lambda one: one[2])

    def registers_of(self, scope: Scope, node: Node) -> tuple[int, ...]:
        """The registers that an operand names, in order."""
        known = self._of_node[id(scope)]
        found = known.get(id(node))
        if found is None:
            found = known[id(node)] = self._registers_of(scope, node)
        return found

    def _registers_of(self, scope: Scope, node: Node) -> tuple[int, ...]:
        kind = type(node)
        if kind is Name:
            return self._named(scope, node.text)
        if kind is Number:
            return ()
        if isinstance(node, Component):
            return selected(self.named(scope, node.base.text), node)
        found: tuple[int, ...] = ()
        for child in node.children:
            found += self.registers_of(scope, child)
        return found

    def guard_registers(self, i: int) -> tuple[int, ...]:
        """The registers that the guard of an instruction names; none if it has no guard."""
        guard = self.instructions[i].children[0]
        return self.registers_of(self.scope_at(i), guard) if type(guard) is Guard else ()

    # --- reads and writes

    def reads_writes(self, i: int) -> tuple[int, int]:
        """The registers that an instruction reads, and those that it certainly writes, as bit sets; without the guard."""
        reads, writes = self.accesses(i)
        return mask_of(reads), mask_of(writes)

    def accesses(self, i: int, votes: dict[np.dtype[Any], list[int]] | None = None) -> tuple[list[int], list[int]]:
        """The registers that an instruction reads and certainly writes, without the guard; `votes` collects the dtypes as which they are
        used."""
        instruction = self.instructions[i]
        plan = self._plan(self.bound(i))
        scope = self.scope_at(i)
        if plan.flow:
            if plan.flow == "call":
                return self._call_accesses(instruction, scope)
            reads = [number for at, *_ in plan.operands for number in self.registers_of(scope, instruction.operands[at])]
            return reads + [number for symbol, number in self.formals if symbol.kind is Kind.REGISTER], []
        children = instruction.children
        first = 2 if type(children[0]) is Guard else 1
        known = self._of_node[id(scope)]
        reads, writes = plan.reads[:], plan.writes[:]
        for at, rest, does_read, does_write, dtype in plan.operands:
            node = children[first + at]
            for step in rest:
                node = node.children[step]
            numbers = known.get(id(node))
            if numbers is None:
                numbers = known[id(node)] = self._registers_of(scope, node)
            if does_read:
                reads += numbers
            if does_write:
                writes += numbers
            if votes is not None and dtype is not None:
                votes.setdefault(dtype, []).extend(numbers)
        return reads, writes

    @property
    def held(self) -> int:
        """The registers that asynchronous operations or opaque fragments use, and copies of these, as a bit set."""
        if self._held < 0:
            self._held = 0
            bounds = self._all_bounds()
            for i in [i for i, bound in enumerate(bounds) if self._plan(bound).holds]:
                site = self.sites[i]
                for numbers in (*self.holds(site), *[numbers for _, _, numbers in self.fragments(site)]):
                    for number in numbers:
                        self._held |= 1 << number
            copies = [self.reads_writes(i) for i, bound in enumerate(bounds) if is_copy(bound)] if self._held else []
            before = 0
            while before != self._held:
                before = self._held
                for reads, writes in copies:
                    if (reads | writes) & self._held:
                        self._held |= reads | writes
        return self._held

    def holds(self, site: Site) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The registers that an asynchronous instruction writes, and those that it reads, until it has been waited for."""
        bound = site.bound
        if not isinstance(bound, Bound) or not holds(bound):
            return (), ()
        results: tuple[int, ...] = ()
        sources: tuple[int, ...] = ()
        for operand in bound.operands:
            node = part(site.instruction.operands[operand.path[0]], operand.path[1:])
            if operand.writes:
                results += self.registers_of(site.scope, node)
            elif type(node) is Vector:
                sources += self.registers_of(site.scope, node)
        return results, sources

    def fragments(self, site: Site) -> tuple[tuple[Fragment, bool, tuple[int, ...]], ...]:
        """The opaque matrix fragments that an instruction reads or writes: the fragment, whether it is written, and its registers."""
        known = self._fragments.get(id(site))
        if known is None:
            found = fragments_of(site.bound) if isinstance(site.bound, Bound) else []
            nodes = [part(site.instruction.operands[operand.path[0]], operand.path[1:]) for _, operand in found]
            known = self._fragments[id(site)] = tuple(
                [
                    (fragment, operand.writes, tuple(self.registers_of(site.scope, node)))
                    for (fragment, operand), node in zip(found, nodes, strict=True)
                ]
            )
        return known

    def _call_accesses(self, instruction: Instruction, scope: Scope) -> tuple[list[int], list[int]]:
        called = call_parts(instruction)
        reads = [TOP, *self.registers_of(scope, called.target)]
        writes: list[int] = []
        for node in called.arguments:
            reads += self.registers_of(scope, node)
        for node in called.results:
            is_register = type(node) is Name and self.named(scope, node.text)
            (writes if is_register else reads).extend(self.registers_of(scope, node))
        return reads, writes
