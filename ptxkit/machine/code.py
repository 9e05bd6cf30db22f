"""A function as the machine sees it: instructions in a row, basic blocks, numbered registers, and which of them are live where.

A block ends where control may go elsewhere, and around every instruction at which lanes may wait: for others of their warp, at a barrier,
for what is in flight. Blocks are numbered in reverse post-order, so that of two groups the one at the lower block has further to go.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import attrs
import numpy as np

from ptxkit.checking import Bounds
from ptxkit.isa.binding import Bound, BoundOperand
from ptxkit.isa.mismatch import Mismatch
from ptxkit.isa.notation import Fragment
from ptxkit.machine.fault import Stop
from ptxkit.machine.operation import fitting
from ptxkit.machine.types import dtype_of
from ptxkit.names import Kind, Names, Scope, Symbol
from ptxkit.syntax import (
    Address,
    Block,
    Component,
    Function,
    Group,
    Guard,
    Instruction,
    Label,
    Module,
    Name,
    Node,
    Number,
    Path,
    Prototype,
    Targets,
    Vector,
)

STACK = 0
"""The register with the address of the thread's frame in `.local`."""
TOP = 1
"""The register with the end of what the thread has taken of `.local`: the frame, and what `alloca` took."""
CARRY = 2
"""The condition code register (9.7.2)."""
FIRST = 3
"""Registers of the program are numbered from here on."""

_COMPONENTS = "xyzwrgba"
HOLDING = ("wgmma", "tcgen05.ld")
"""The groups of asynchronous operations that hold registers."""


@attrs.define(eq=False)
class Site:
    """An instruction where it stands. Not to be changed."""

    instruction: Instruction
    bound: Bound | Mismatch
    scope: Scope
    path: Path
    """From the module."""
    body: Body = attrs.field(repr=False)


@attrs.define(eq=False)
class BasicBlock:
    """Instructions `start` to `end` (exclusive). `kind` says what is at the end, and `last` is that instruction's index, or -1.

    `fall` and `taken` are positions in `Body.blocks`: -1 where control runs off the end of the function.
    Kinds: `fall`, `branch` (`negated` guard or none), `indexed`, `call`, `return`, `exit`, `trap`, `sync` (an instruction at which lanes
    may wait; it is alone in its block).
    """

    start: int
    end: int
    kind: str = "fall"
    last: int = -1
    guard: int = -1
    negated: bool = False
    fall: int = -1
    taken: int = -1
    targets: tuple[int, ...] = ()
    live: int = 0
    """The registers that are live at the start, as bits."""
    live_out: int = 0
    all_registers: Any = None
    """The numbers of all registers, where dead ones keep their values."""
    _registers: Any = None
    run: Any = None
    """The compiled code, made when the block is first executed."""
    wait: Any = None
    """Of a `sync` block: what waiting there is (`compiling.Waiting`)."""
    call: Any = None
    both: Any = None
    """Of a branch: its sides, where both are short and only compute (`Scheduler.sides`)."""

    @property
    def registers(self) -> list[int]:
        """The numbers of the registers that are live at the start."""
        if self._registers is None:
            self._registers = list(bits(self.live))
        return self._registers  # type: ignore[no-any-return]

    @property
    def kept(self) -> Any:
        """The registers that a group keeps which is taken apart or joined at the start."""
        return self.all_registers or self.registers

    @property
    def successors(self) -> tuple[int, ...]:
        if self.kind in ("fall", "call", "sync"):
            return (self.fall,)
        if self.kind == "branch":
            return (self.taken, self.fall) if self.guard >= 0 else (self.taken,)
        if self.kind == "indexed":
            return self.targets
        return ()


class Body:
    """A function with a body, made ready to be compiled. Making one takes time in proportion to its instructions."""

    def __init__(self, module: Module, names: Names, bounds: Bounds, function: Function, index: int, keeps_dead: bool = False) -> None:
        """With `keeps_dead` registers keep their values after their last use."""
        self.module = module
        self.names = names
        self.function = function
        self.path: Path = (index,)
        self.name = function.name
        self.sites: list[Site] = []
        self.labels: dict[tuple[Path, str], int] = {}
        self.lists: dict[tuple[Path, str], Targets | Prototype] = {}
        self.variables: list[Symbol] = []
        """What it declares that is no register: variables and parameters, its own parameters aside."""
        self.used: dict[int, Symbol] = {}
        """The variables and functions that its instructions name, by `id`."""
        self.takes_stack = False
        """Whether `alloca` takes more of the stack than the frame."""
        self.types: list[str] = ["", "", ""]
        self.dtypes: list[np.dtype[Any]] = [np.dtype(np.uint64), np.dtype(np.uint64), np.dtype(np.bool_)]
        self._numbers: dict[tuple[int, str], tuple[int, ...]] = {}
        self._of_node: dict[int, dict[int, tuple[int, ...]]] = {}
        """By `id` of the scope and of the node: the registers that it names, in order."""
        self._plans: dict[int, _Plan] = {}
        self._held = -1
        self._fragments: dict[int, tuple[tuple[Fragment, bool, tuple[int, ...]], ...]] = {}
        self.known: dict[Any, Any] = {}
        """What monitors have found out about its text, for further launches."""
        self._families: dict[int, tuple[str, np.dtype[Any], int, Symbol]] = {}
        """By `id` of a symbol: type, dtype and length of the registers that it declares, and the symbol."""
        self._votes: dict[np.dtype[Any], list[int]] = {}
        """By dtype: the registers that operands use as that, each as often as one does."""
        self._flatten(bounds, index)
        self.formals = self._formals()
        self.blocks: list[BasicBlock] = []
        self._build()
        self._liveness()
        self._choose_dtypes()
        if keeps_dead:
            for block in self.blocks:
                block.all_registers = range(len(self.types))

    # --- instructions, in document order

    def _flatten(self, bounds: Bounds, index: int) -> None:
        body = self.function.body
        assert body is not None
        last_label = ""
        stack: list[tuple[Path, Iterator[tuple[int, Node]], Scope, Iterator[Any]]] = []

        def enter(path: Path, block: Node) -> None:
            where = (index, *path)
            scope = self.names.scopes[where]
            stack.append((path, iter(enumerate(block.children)), scope, iter(bounds.of(where))))
            if scope.path == where:
                for symbol in scope.symbols.values():
                    if symbol.kind in (Kind.VARIABLE, Kind.PARAMETER):
                        self.variables.append(symbol)

        enter((1,), body)
        while stack:
            path, rest, scope, forms = stack[-1]
            for i, statement in rest:
                kind = type(statement)
                if kind is Instruction:
                    self.sites.append(Site(statement, next(forms), scope, (index, *path, i), self))  # type: ignore[arg-type]
                    continue
                if kind is Label:
                    last_label = statement.name.text  # type: ignore[attr-defined]
                    self.labels.setdefault((path, last_label), len(self.sites))
                    continue
                if kind in (Targets, Prototype) and last_label:
                    self.lists.setdefault((path, last_label), statement)  # type: ignore[arg-type]
                last_label = ""
                if kind is Block:
                    enter((*path, i), statement)
                    break
            else:
                stack.pop()

    def find(self, table: dict[tuple[Path, str], Any], site: Site, name: str) -> Any:
        """What a table of labels has for a name, looked for from the scope of an instruction outwards; None if nothing."""
        path = site.path[1:]
        for length in range(len(path) - 1, 0, -1):
            found = table.get((path[:length], name))
            if found is not None:
                return found
        return None

    # --- registers

    def _formals(self) -> list[tuple[Symbol, int]]:
        """The results and parameters of a device function: each a register, which holds it or (`.param`) the address of its bytes."""
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
                key = (id(symbol), "")
                if key not in self._numbers:
                    self._numbers[key] = (self._new("", np.dtype(np.uint64)),)
                found.append((symbol, self._numbers[key][0]))
        return found

    def formal(self, symbol: Symbol) -> int:
        """The register with the address of a parameter of a device function; -1 if it is none."""
        return self._numbers.get((id(symbol), ""), (-1,))[0]

    def _new(self, type_: str, dtype: np.dtype[Any]) -> int:
        self.types.append(type_)
        self.dtypes.append(dtype)
        return len(self.types) - 1

    def named(self, scope: Scope, name: str) -> tuple[int, ...]:
        """The registers of a name: none if it is no register, several for one declared as a vector."""
        symbol = scope.lookup(name)
        if symbol is None or symbol.kind is not Kind.REGISTER:
            return ()
        key = (id(symbol), name)
        found = self._numbers.get(key)
        if found is None:
            kind = self._families.get(key[0])
            if kind is None:
                type_ = symbol.type or ".b32"
                kind = self._families[key[0]] = type_, dtype_of(type_), symbol.vector, symbol
            first = len(self.types)
            if kind[2] == 1:
                self.types.append(kind[0])
                self.dtypes.append(kind[1])
                found = self._numbers[key] = (first,)
            else:
                found = self._numbers[key] = tuple([self._new(kind[0], kind[1]) for _ in range(kind[2])])
        return found

    def named_registers(self) -> list[tuple[str, Symbol, tuple[int, ...]]]:
        """The registers that instructions name, by the number of the first, with their symbols."""
        found = [(name, self._families[key][3], numbers) for (key, name), numbers in self._numbers.items() if name]
        return sorted(found, key=lambda one: one[2])

    def registers_of(self, scope: Scope, node: Node) -> tuple[int, ...]:
        """The registers that an operand names, in order."""
        known = self._of_node.get(id(scope))
        if known is None:
            known = self._of_node[id(scope)] = {}
        found = known.get(id(node))
        if found is None:
            found = known[id(node)] = self._registers_of(scope, node)
        return found

    def _registers_of(self, scope: Scope, node: Node) -> tuple[int, ...]:
        kind = type(node)
        if kind is Name:
            found = self.named(scope, node.text)
            if not found:
                symbol = scope.lookup(node.text)
                if symbol is not None and symbol.kind is not Kind.LABEL:
                    self.used[id(symbol)] = symbol
                    return self._numbers.get((id(symbol), ""), ())
            return found
        if kind is Number:
            return ()
        if isinstance(node, Component):
            base = self.named(scope, node.base.text)
            place = _COMPONENTS.find(node.selector[1:]) % 4 if node.selector[1:] in _COMPONENTS else None
            return base if place is None or len(base) <= place or len(base) == 1 else (base[place],)
        return tuple([number for child in node.children for number in self.registers_of(scope, child)])

    # --- reads and writes

    def reads_writes(self, i: int) -> tuple[int, int]:
        """The registers that an instruction reads, and those that it surely writes, as bits; the guard's aside."""
        reads, writes = self._accesses(self.sites[i], False)
        return _mask(reads), _mask(writes)

    def _accesses(self, site: Site, votes: bool) -> tuple[list[int], list[int]]:
        """The registers that an instruction reads and surely writes, the guard's aside; with `votes` it is noted as which dtype."""
        bound = site.bound
        plan = self._plans.get(id(bound))
        if plan is None:
            plan = self._plans[id(bound)] = _plan(bound, self._votes)
        if plan.flow:
            if plan.flow == "call":
                return self._call_accesses(site)
            return [*self._read_of(site, plan), *[number for symbol, number in self.formals if symbol.kind is Kind.REGISTER]], []
        children = site.instruction.children
        first = 2 if type(children[0]) is Guard else 1
        known = self._of_node.get(id(site.scope))
        if known is None:
            known = self._of_node[id(site.scope)] = {}
        reads, writes = plan.reads[:], plan.writes[:]
        for at, rest, does_read, does_write, noted in plan.operands:
            node = children[first + at]
            for step in rest:
                node = node.children[step]
            numbers = known.get(id(node))
            if numbers is None:
                numbers = known[id(node)] = self._registers_of(site.scope, node)
            if does_read:
                reads += numbers
            if does_write:
                writes += numbers
            if votes and noted is not None:
                noted += numbers
        return reads, writes

    def _read_of(self, site: Site, plan: _Plan) -> Iterator[int]:
        """The registers that the operands of an instruction name."""
        for at, _, _, _, _ in plan.operands:
            yield from self.registers_of(site.scope, site.instruction.operands[at])

    @property
    def held(self) -> int:
        """The registers that asynchronous operations hold, those of opaque fragments, and copies of them, as bits."""
        if self._held < 0:
            self._held = 0
            for site in self.sites:
                for numbers in (*self.holds(site), *[numbers for _, _, numbers in self.fragments(site)]):
                    for number in numbers:
                        self._held |= 1 << number
            copies = [self.reads_writes(i) for i, site in enumerate(self.sites) if is_copy(site.bound)] if self._held else []
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
        group = next((one.group for one in bound.asynchronous if one.action == "open"), "") if isinstance(bound, Bound) else ""
        if group not in HOLDING or not isinstance(bound, Bound):
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
        """The opaque parts of matrices that an instruction reads or writes: which, whether it writes them, and their registers."""
        known = self._fragments.get(id(site))
        if known is None:
            found = _fragments(site.bound) if isinstance(site.bound, Bound) else []
            nodes = [part(site.instruction.operands[operand.path[0]], operand.path[1:]) for _, operand in found]
            known = self._fragments[id(site)] = tuple(
                [
                    (fragment, operand.writes, tuple(self.registers_of(site.scope, node)))
                    for (fragment, operand), node in zip(found, nodes, strict=True)
                ]
            )
        return known

    def _call_accesses(self, site: Site) -> tuple[list[int], list[int]]:
        called = call_parts(site.instruction)
        reads = [TOP, *self.registers_of(site.scope, called.target)]
        writes: list[int] = []
        for node in called.arguments:
            reads += self.registers_of(site.scope, node)
        for node in called.results:
            is_register = type(node) is Name and self.named(site.scope, node.text)
            (writes if is_register else reads).extend(self.registers_of(site.scope, node))
        return reads, writes

    # --- blocks

    def _build(self) -> None:
        sites = self.sites
        count = len(sites)
        leaders = {0}
        ends: dict[int, str] = {}
        jumps: dict[int, tuple[int, ...]] = {}
        kinds: dict[int, str] = {}
        for i, site in enumerate(sites):
            bound = site.bound
            kind = kinds.get(id(bound))
            if kind is None:
                kind = kinds[id(bound)] = _kind(bound)
                self.takes_stack |= isinstance(bound, Bound) and "alloca" in bound.effects
            if not kind:
                continue
            if kind == STRONG:
                leaders.add(i + 1)
                continue
            guarded = type(site.instruction.children[0]) is Guard
            ends[i] = kind
            leaders.add(i + 1)
            if kind in ("branch", "indexed"):
                jumps[i] = self._targets(site, kind)
                leaders.update(jumps[i])
            elif guarded or kind == "sync":
                leaders.add(i)
        starts = sorted(start for start in leaders if start < count)
        at = {start: number for number, start in enumerate(starts)}
        blocks: list[BasicBlock] = []
        extra: list[tuple[int, int]] = []
        for number, start in enumerate(starts):
            end = starts[number + 1] if number + 1 < len(starts) else count
            following = number + 1 if number + 1 < len(starts) else -1
            block = BasicBlock(start, end, fall=following)
            last = end - 1
            kind = ends.get(last, "")
            site = sites[last]
            guard = site.instruction.guard
            if kind == "branch":
                block.kind, block.last, block.end = "branch", last, last
                block.taken = at.get(jumps[last][0], -1) if jumps[last] else -1
                if guard is not None:
                    block.guard, block.negated = self._guard(site, guard), guard.negated
            elif kind == "indexed":
                block.kind, block.last, block.end = "indexed", last, last
                block.targets = tuple([at.get(target, -1) for target in jumps[last]])
                if guard is not None:
                    extra.append((number, last))
            elif kind:
                block.kind, block.last = kind, last
                block.end = last
                if guard is not None:
                    extra.append((number, last))
            blocks.append(block)
        # a guard of something that is a block of its own is a branch around it
        heads: dict[int, int] = {}
        for number, last in extra:
            site = sites[last]
            guard = site.instruction.guard
            assert guard is not None
            test = BasicBlock(blocks[number].start, blocks[number].end, "branch", -1)
            test.guard, test.negated = self._guard(site, guard), guard.negated
            blocks[number].start = blocks[number].end
            test.taken, test.fall = number, blocks[number].fall
            heads[number] = len(blocks)
            blocks.append(test)
        if heads:
            tests = set(heads.values())
            for number, block in enumerate(blocks):
                if number in tests:
                    block.fall = heads.get(block.fall, block.fall)
                    continue
                block.fall = heads.get(block.fall, block.fall)
                block.taken = heads.get(block.taken, block.taken)
                block.targets = tuple([heads.get(target, target) for target in block.targets])
        entry = heads.get(0, 0) if blocks else -1
        self._order(blocks, entry)

    def _guard(self, site: Site, guard: Guard) -> int:
        """The register of a guard. Raises `Stop` if it is none."""
        numbers = self.registers_of(site.scope, guard)
        if not numbers or self.types[numbers[0]] != ".pred":
            raise Stop("unsupported", f"`{guard.text}` is no predicate")
        return numbers[0]

    def _order(self, blocks: list[BasicBlock], entry: int) -> None:
        """Numbers the blocks that can be reached in reverse post-order; of the two paths of a branch the one taken comes later."""
        if entry < 0:
            self.blocks = []
            return
        seen = {entry}
        finished: list[int] = []
        stack = [(entry, iter(blocks[entry].successors))]
        while stack:
            number, rest = stack[-1]
            for successor in rest:
                if successor >= 0 and successor not in seen:
                    seen.add(successor)
                    stack.append((successor, iter(blocks[successor].successors)))
                    break
            else:
                finished.append(number)
                stack.pop()
        order = finished[::-1]
        place = {number: i for i, number in enumerate(order)}
        for number in order:
            block = blocks[number]
            block.fall = place.get(block.fall, -1)
            block.taken = place.get(block.taken, -1)
            block.targets = tuple([place.get(target, -1) for target in block.targets])
        self.blocks = [blocks[number] for number in order]

    def _targets(self, site: Site, kind: str) -> tuple[int, ...]:
        operands = site.instruction.operands
        name = operands[-1].text if operands else ""
        if kind == "branch":
            found = self.find(self.labels, site, name)
            return () if found is None else (found,)
        listed = self.find(self.lists, site, name)
        if not isinstance(listed, Targets):
            return ()
        count = len(self.sites)
        targets = [self.find(self.labels, site, child.text) for child in listed.children]
        return tuple([count if target is None else target for target in targets])

    # --- liveness

    def _liveness(self) -> None:
        blocks, sites, accesses = self.blocks, self.sites, self._accesses
        use: list[set[int]] = []
        define: list[set[int]] = []
        read_at_end: dict[int, int] = {}
        for number, block in enumerate(blocks):
            used = {STACK, TOP}
            defined: set[int] = set()
            for site in sites[block.start : block.end]:
                reads, writes = accesses(site, True)
                guard = site.instruction.children[0]
                if type(guard) is Guard:
                    # the registers of those that do not execute it stay as they are
                    used.update([n for n in (*reads, *writes, *self.registers_of(site.scope, guard)) if n not in defined])
                    continue
                for n in reads:
                    if n not in defined:
                        used.add(n)
                defined.update(writes)
            if block.last >= 0 and block.kind != "branch":
                reads, writes = accesses(sites[block.last], True)
                used.update([n for n in reads if n not in defined])
                defined.update(writes)
                read_at_end[number] = _mask(reads)
            if block.guard >= 0 and block.guard not in defined:
                used.add(block.guard)
            defined.discard(STACK)
            use.append(used)
            define.append(defined)
        # most registers live and die within one block
        crossing = set().union(*use)
        gen = [_mask(used) for used in use]
        kept = [~_mask(defined & crossing) for defined in define]
        live = [0] * len(blocks)
        successors = [[n for n in block.successors if n >= 0] for block in blocks]
        changed = True
        while changed:
            changed = False
            for number in range(len(blocks) - 1, -1, -1):
                out = 0
                for n in successors[number]:
                    out |= live[n]
                new = gen[number] | (out & kept[number])
                if new != live[number]:
                    live[number] = new
                    changed = True
        for number, block in enumerate(blocks):
            block.live = live[number]
            block.live_out = read_at_end.get(number, 0)
            for n in successors[number]:
                block.live_out |= live[n]

    def _choose_dtypes(self) -> None:
        """A register between blocks has the dtype in which most instructions use it: then few have to reinterpret it."""
        most: dict[int, int] = {}
        chosen: dict[int, np.dtype[Any]] = {}
        for dtype, votes in self._votes.items():
            size = dtype.itemsize
            if dtype.kind not in "uif":
                continue
            for number, count in Counter(votes).items():
                own = self.dtypes[number]
                if own.kind in "ui" and size == own.itemsize and count > most.get(number, 0):
                    most[number] = count
                    chosen[number] = dtype
        for number, dtype in chosen.items():
            self.dtypes[number] = dtype
        self._votes = {}


def _fragments(bound: Bound) -> list[tuple[Fragment, BoundOperand]]:
    """The opaque parts of matrices that an instruction has, with their operands."""
    found = [(one, bound.operand(one.operand)) for one in bound.fragments if one.is_opaque]
    return [(one, operand) for one, operand in found if operand is not None]


def is_copy(bound: Bound | Mismatch) -> bool:
    """Whether an instruction puts one register into another."""
    if not isinstance(bound, Bound) or bound.memory or bound.converges is not None:
        return False
    reads = [operand for operand in bound.operands if operand.reads]
    writes = [operand for operand in bound.operands if operand.writes]
    if len(reads) != 1 or len(writes) != 1 or reads[0].types != writes[0].types or reads[0].shape.kind != "register":
        return False
    return any(one.what.value == reads[0].name and bound.holds(one.when) for one in bound.form.computes)


@attrs.frozen
class _Plan:
    """Where instructions of one form and shape have the registers that they read and write: by operand, and by path in one."""

    operands: tuple[tuple[int, Path, bool, bool, list[int] | None], ...]
    """Which operand, the path to it from there, whether it is read, written, and where its dtype has its votes."""
    reads: list[int]
    writes: list[int]
    flow: str
    """`call` or `return`, the instructions that access what they do not name; else nothing."""


def _plan(bound: Bound | Mismatch, votes: dict[np.dtype[Any], list[int]]) -> _Plan:
    if not isinstance(bound, Bound):
        return _Plan((), [], [], "")
    operands: dict[tuple[int, Path], tuple[int, Path, bool, bool, list[int] | None]] = {}
    for operand in bound.operands:
        if operand.role == "addr":
            # all that stands in an address is read
            operands[operand.path[0], ()] = (operand.path[0], (), True, False, None)
            continue
        reads = not operand.writes or operand.role == "rw"
        mine = None
        if operand.types and operand.how != "wide":
            mine = votes.setdefault(dtype_of(fitting(operand)), [])
        operands[operand.path[0], operand.path[1:]] = (operand.path[0], operand.path[1:], reads, operand.writes, mine)
    effects = bound.effects
    read_too = [CARRY] if "r" in bound.carry else []
    written_too = [CARRY] if "w" in bound.carry else []
    if "alloca" in effects or "stacksave" in effects or "stackrestore" in effects:
        read_too.append(TOP)
    if "alloca" in effects or "stackrestore" in effects:
        written_too.append(TOP)
    return _Plan(tuple(operands.values()), read_too, written_too, bound.flow if bound.flow in ("call", "return") else "")


@attrs.frozen
class CallParts:
    """The operands of a `call`, by what they are for."""

    results: tuple[Node, ...]
    target: Node
    arguments: tuple[Node, ...]
    prototype: str


def call_parts(instruction: Instruction) -> CallParts:
    """The results, the function, the arguments and the name of the list or prototype of a call (9.7.13.5)."""
    operands = list(instruction.operands)
    results: tuple[Node, ...] = ()
    if operands and isinstance(operands[0], Group) and len(operands) > 1:
        results = operands.pop(0).children
    target = operands.pop(0)
    arguments: tuple[Node, ...] = ()
    if operands and isinstance(operands[0], Group):
        arguments = operands.pop(0).children
    return CallParts(results, target, arguments, operands[0].text if operands else "")


STRONG = "strong"
"""After an access that others may wait for a block ends, so that a schedule can have others run between it and the next one."""


def _kind(bound: Bound | Mismatch) -> str:
    """What an instruction is at the end of a block; empty for one within."""
    if not isinstance(bound, Bound):
        return ""
    flow = bound.flow
    if flow:
        return {"branch": "branch", "branch-indexed": "indexed", "brkpt": ""}.get(flow, flow)
    if bound.converges is not None or bound.barrier or (bound.completes and bound.form.mnemonic == "mbarrier"):
        return "sync"
    if bound.asynchronous and any(a.action == "wait" for a in bound.asynchronous):
        return "sync"
    if bound.form.mnemonic in WAITING:
        return "sync"
    return STRONG if any(memory.order not in ("", "weak", ".weak") for memory in bound.memory) else ""


WAITING = frozenset(("mbarrier", "griddepcontrol", "nanosleep", "tcgen05"))
"""Instructions without a barrier or convergence in the table at which lanes may wait all the same."""


def _mask(numbers: Iterable[int]) -> int:
    """Numbers as bits."""
    mask = 0
    for number in numbers:
        mask |= 1 << number
    return mask


def bits(mask: int) -> Iterator[int]:
    """The numbers of the bits that are set, ascending."""
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


def part(node: Node, path: Path) -> Node:
    """The part of an operand at a path of the table's, which counts the parts of an address and not its offset."""
    for step in path:
        node = node.parts[step] if isinstance(node, Address) else node.children[step]
    return node
