"""A function as the machine sees it: instructions in a row, basic blocks, numbered registers, and which of them are live where.

A block ends where control may go elsewhere, and around every instruction at which lanes may wait: for others of their warp, at a barrier,
for what is in flight. Blocks are numbered in reverse post-order, so that of two groups the one at the lower block has further to go.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import chain
from typing import Any

import attrs
import numpy as np

from ptxkit.checking import Bounds
from ptxkit.isa.binding import Bound
from ptxkit.isa.mismatch import Mismatch
from ptxkit.machine.fault import Stop
from ptxkit.machine.liveness import READS, VOTE, WRITES, Accesses, Liveness
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
    Opcode,
    Path,
    Prototype,
    Targets,
    Vector,
)

Array = np.ndarray[Any, Any]

STACK = 0
"""The register with the address of the thread's frame in `.local`."""
TOP = 1
"""The register with the end of what the thread has taken of `.local`: the frame, and what `alloca` took."""
CARRY = 2
"""The condition code register (9.7.2)."""
FIRST = 3
"""Registers of the program are numbered from here on."""

_COMPONENTS = "xyzwrgba"
_REGISTER = Kind.REGISTER
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
        self._runs: list[tuple[int, Scope]] = []
        """Where instructions of another scope than those before begin, and the scope."""
        self._held = -1
        self.known: dict[Any, Any] = {}
        """What monitors have found out about its text, for further launches."""
        self._families: dict[int, tuple[str, np.dtype[Any], int, Symbol]] = {}
        """By `id` of a symbol: type, dtype and length of the registers that it declares, and the symbol."""
        self._flatten(bounds, index)
        self.formals = self._formals()
        self.blocks: list[BasicBlock] = []
        self._build()
        self._liveness()
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
        add = self.sites.append
        while stack:
            path, rest, scope, forms = stack[-1]
            whole = (index, *path)
            if not self._runs or self._runs[-1][1] is not scope:
                self._runs.append((len(self.sites), scope))
            for i, statement in rest:
                kind = type(statement)
                if kind is Instruction:
                    add(Site(statement, next(forms), scope, (*whole, i), self))  # type: ignore[arg-type]
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
        return self._numbers.get((id(symbol), name)) or self._declared(symbol, name)

    def _declared(self, symbol: Symbol, name: str) -> tuple[int, ...]:
        """Numbers for the registers of a name."""
        key = id(symbol)
        kind = self._families.get(key)
        if kind is None:
            type_ = symbol.type or ".b32"
            kind = self._families[key] = type_, dtype_of(type_), symbol.vector, symbol
        if kind[2] > 1:
            found = tuple([self._new(kind[0], kind[1]) for _ in range(kind[2])])
        else:
            found = (len(self.types),)
            self.types.append(kind[0])
            self.dtypes.append(kind[1])
        self._numbers[key, name] = found
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
        reads, writes = self._accesses(self.sites[i])
        return _mask(reads), _mask(writes)

    def _accesses(self, site: Site, votes: list[tuple[int, int]] | None = None) -> tuple[list[int], list[int]]:
        """The registers that an instruction reads and surely writes, the guard's aside; `votes` get each with the dtype it is used as."""
        plan = _plan(site.bound)
        if plan.flow:
            if plan.flow == "call":
                return self._call_accesses(site)
            return [*self._read_of(site, plan), *[number for symbol, number in self.formals if symbol.kind is Kind.REGISTER]], []
        children = site.instruction.children
        first = 2 if type(children[0]) is Guard else 1
        known = self._of_node.setdefault(id(site.scope), {})
        reads, writes = list(plan.reads), list(plan.writes)
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
            if votes is not None and noted:
                votes += [(number, noted) for number in numbers]
        return reads, writes

    def _read_of(self, site: Site, plan: _Plan) -> Iterator[int]:
        """The registers that the operands of an instruction name."""
        for at, _, _, _, _ in plan.operands:
            yield from self.registers_of(site.scope, site.instruction.operands[at])

    @property
    def held(self) -> int:
        """The registers that asynchronous operations hold, and those that these are copied from or to, as bits."""
        if self._held < 0:
            self._held = 0
            for site in self.sites:
                for numbers in self.holds(site):
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
        """Which registers are live where, and in which dtype a register is held between blocks: that in which most instructions use it."""
        blocks = self.blocks
        of_site = np.full(len(self.sites) + 1, -1)
        for number, block in enumerate(blocks):
            of_site[block.start : block.end] = number
            if block.last >= 0 and block.kind != "branch":
                of_site[block.last] = number
        accesses = self._all_accesses(of_site)
        found = Liveness(accesses, of_site, len(blocks), len(self.types))
        found.reads_at_end([(number, block.guard) for number, block in enumerate(blocks) if block.guard >= 0])
        found.solve([[n for n in block.successors if n >= 0] for block in blocks], always=_mask((STACK, TOP)))
        ends = found.of_instructions([block.last if block.kind != "branch" else -1 for block in blocks])
        for block, live, out, at_end in zip(blocks, found.live, found.live_out, ends, strict=True):
            block.live, block.live_out = live, out | at_end
        for number, dtype in accesses.preferred(self.dtypes):
            self.dtypes[number] = dtype

    def _all_accesses(self, of_site: Array) -> Accesses:
        """The accesses of registers by all instructions."""
        sites = self.sites
        children = [site.instruction.children for site in sites]
        numbers: list[tuple[int, ...]] = []
        ends = [start for start, _ in self._runs[1:]]
        for (start, scope), end in zip(self._runs, [*ends, len(sites)], strict=True):
            parts = list(chain.from_iterable(children[start:end]))
            keys = list(map(id, parts))
            known = self._of_node.setdefault(id(scope), {})
            self._name_all(scope, dict(zip(keys, parts, strict=True)), known)
            numbers += map(known.__getitem__, keys)
        roles: list[tuple[int, ...]] = []
        others: list[tuple[int, int, int]] = []
        for i, (site, parts_of) in enumerate(zip(sites, children, strict=True)):
            guarded = type(parts_of[0]) is Guard
            role = _roles(site.bound, guarded, len(parts_of))
            if role is None:
                role = (0,) * len(parts_of)
                if of_site[i] >= 0:
                    others += self._irregular(i, site, guarded)
            roles.append(role)
        return Accesses.of(numbers, roles, others)

    def _name_all(self, scope: Scope, nodes: dict[int, Node], known: dict[int, tuple[int, ...]]) -> None:
        """Finds the registers of all these parts of instructions."""
        look_up, of_name = scope.lookup, self._numbers
        inside: list[tuple[int, Node]] = []
        for key, node in nodes.items():
            if key in known:
                continue
            kind = type(node)
            if kind is Name:
                name = node.text
                symbol = look_up(name)
                if symbol is None:
                    known[key] = ()
                elif symbol.kind is _REGISTER:
                    known[key] = of_name.get((id(symbol), name)) or self._declared(symbol, name)
                else:
                    known[key] = self._registers_of(scope, node)
            elif kind is Opcode or kind is Number:
                known[key] = ()
            else:
                inside.append((key, node))
        # most of what these have in them has been found by now
        find = known.get
        for key, node in inside:
            found: tuple[int, ...] = ()
            for child in node.children:
                numbers = find(id(child))
                if numbers is None:
                    found = self._registers_of(scope, node)
                    break
                found += numbers
            known[key] = found if type(node) is not Component else self._registers_of(scope, node)

    def _irregular(self, i: int, site: Site, guarded: bool) -> Iterator[tuple[int, int, int]]:
        """The accesses of an instruction that has more of them than its operands show, or parts of operands with a role each."""
        votes: list[tuple[int, int]] = []
        reads, writes = self._accesses(site, votes)
        within = guarded and _kind(site.bound) in ("", STRONG)
        for number in (*reads, *self.registers_of(site.scope, site.instruction.children[0])) if within else reads:
            yield i, number, READS
        for number in writes:
            yield i, number, READS if within else WRITES
        for number, vote in votes:
            yield i, number, vote * VOTE

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

    operands: tuple[tuple[int, Path, bool, bool, int], ...]
    """Which operand, the path to it from there, whether it is read, written, and the number of the dtype that it is used as, or 0."""
    reads: tuple[int, ...]
    writes: tuple[int, ...]
    flow: str
    """`call` or `return`, the instructions that access what they do not name; else nothing."""


@lru_cache(maxsize=16384)
def _plan(bound: Bound | Mismatch) -> _Plan:
    if not isinstance(bound, Bound):
        return _Plan((), (), (), "")
    operands: dict[tuple[int, Path], tuple[int, Path, bool, bool, int]] = {}
    for operand in bound.operands:
        if operand.role == "addr":
            # all that stands in an address is read
            operands[operand.path[0], ()] = (operand.path[0], (), True, False, 0)
            continue
        reads = not operand.writes or operand.role == "rw"
        vote = 0
        if operand.types and operand.how != "wide":
            dtype = dtype_of(fitting(operand))
            vote = dtype.num if dtype.kind in "uif" else 0
        operands[operand.path[0], operand.path[1:]] = (operand.path[0], operand.path[1:], reads, operand.writes, vote)
    effects = bound.effects
    read_too = [CARRY] if "r" in bound.carry else []
    written_too = [CARRY] if "w" in bound.carry else []
    if "alloca" in effects or "stacksave" in effects or "stackrestore" in effects:
        read_too.append(TOP)
    if "alloca" in effects or "stackrestore" in effects:
        written_too.append(TOP)
    flow = bound.flow if bound.flow in ("call", "return") else ""
    return _Plan(tuple(operands.values()), tuple(read_too), tuple(written_too), flow)


@lru_cache(maxsize=16384)
def _roles(bound: Bound | Mismatch, guarded: bool, count: int) -> tuple[int, ...] | None:
    """What instructions of one form and shape do with the registers of each of their parts, guard and opcode among them: see `Accesses`.

    None for those of which their parts do not say it all. What ends a block has its guard in a block before it.
    """
    plan = _plan(bound)
    if plan.flow or plan.reads or plan.writes or any(path for _, path, _, _, _ in plan.operands):
        return None
    kind = _kind(bound)
    roles = [0] * count
    if kind == "branch":
        return tuple(roles)
    within = guarded and kind in ("", STRONG)
    if within:
        roles[0] = READS
    for at, _, reads, writes, vote in plan.operands:
        # the registers of those that do not execute it stay as they are
        roles[guarded + 1 + at] = (READS if reads or (writes and within) else 0) | (WRITES if writes and not within else 0) | vote * VOTE
    return tuple(roles)


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


@lru_cache(maxsize=16384)
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
