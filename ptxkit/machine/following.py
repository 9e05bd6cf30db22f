"""Tracks undefined values in registers from their origin to their uses.

They are rare: registers that may be read before they are written, values loaded from uninitialized bytes, results of a shuffle from an
absent lane. `Undefined` only has the registers with such values, with a number for each resident thread that identifies the origin (0:
defined). Compiled code tests whether there are any before each instruction, so the cost is small if there are none.
"""

from __future__ import annotations

import itertools
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from ptxkit.frozen import frozen
from ptxkit.isa.binding import Bound
from ptxkit.isa.forms import Call
from ptxkit.machine.groups import Array, taken
from ptxkit.names import Kind
from ptxkit.operands import part

if TYPE_CHECKING:
    from ptxkit.machine.code import Body, Site

REGISTERS = 1 << 24
"""Exclusive upper bound of the registers of a function."""


@frozen(eq=False)
class Read:
    """An operand that is read: its registers, the index of the argument (-1: none), and whether it is an address."""

    name: str
    keys: tuple[int, ...]
    argument: int
    is_address: bool


@frozen(eq=False)
class Plan:
    """How undefined values propagate through an instruction."""

    site: Site
    bound: Bound
    reads: tuple[Read, ...]
    writes: tuple[int, ...]
    """The registers that are written, in order."""
    guard: int
    negated: bool
    how: str
    """`select`, `and`, `or`, `decided-and`, `decided-or`, `equal`, `pack`, `unpack`; if empty, the result is undefined if any operand
    is."""
    names: tuple[str, ...]
    """The operands of `how`."""
    arguments: tuple[str, ...]
    """The names of the arguments in the form."""
    keys: frozenset[int]
    stores: bool
    loads: bool
    addend: Read | None
    """The accumulator of a matrix product: each of its registers is added to one of those that are written."""
    adds: str
    """The operand that says whether it is added; empty if it always is."""


class Undefined(dict[int, Array]):
    """The registers that are undefined in some threads, each with the origin for each resident thread.

    `loaded` is not empty between a load of undefined bytes, or a store, and the end of its instruction. `monitor` decides what counts as a
    use.
    """

    def __init__(self) -> None:
        super().__init__()
        self.loaded: dict[str, Any] = {}
        self.monitor: Any = None
        self.bodies: dict[int, int] = {}
        self._kept: list[Any] = []
        self.plans: dict[int, Plan | None] = {}

    def key(self, body: Body, number: int) -> int:
        """The key of a register of a function."""
        found = self.bodies.get(id(body))
        if found is None:
            found = self.bodies[id(body)] = len(self.bodies)
            self._kept.append(body)
        return found * REGISTERS + number

    def plan(self, site: Site, names: list[str]) -> Plan | None:
        """How undefined values propagate through an instruction with arguments of these names; None if they do not."""
        if id(site) not in self.plans:
            self.plans[id(site)] = self._plan(site, names)
        return self.plans[id(site)]

    def _plan(self, site: Site, names: list[str]) -> Plan | None:
        bound, body = site.bound, site.body
        if not isinstance(bound, Bound):
            return None
        operands = site.instruction.operands
        reads: list[Read] = []
        writes: list[int] = []
        for operand in bound.operands:
            whole = operands[operand.path[0]]
            is_address = operand.role == "addr"
            node = whole if is_address and len(operand.path) < 2 else part(whole, operand.path[1:])
            own = tuple([self.key(body, number) for number in body.registers_of(site.scope, node)])
            if operand.writes:
                writes += own
            if operand.reads and own:
                position = names.index(operand.name) if operand.name in names else -1
                reads.append(Read(operand.name, own, position, is_address))
        guard = site.instruction.guard
        guarded = [self.key(body, number) for number in body.registers_of(site.scope, guard)] if guard is not None else []
        how, what = _how(bound, {read.name: read.keys for read in reads})
        keys = frozenset([*writes, *guarded, *[key for read in reads for key in read.keys]])
        if not keys:
            return None
        memory = [one for one in bound.memory if not one.is_async]
        stores = any(one.access in ("write", "update", "readwrite") for one in memory)
        loads = bool(writes) and bool(memory) and bound.converges is None
        negated = guard is not None and guard.negated
        added = bound.accumulates
        addend = next((read for read in reads if added and read.name == added.operand and len(read.keys) == len(writes)), None)
        adds = added.when if added else ""
        test = guarded[0] if guarded else -1
        return Plan(site, bound, tuple(reads), tuple(writes), test, negated, how, what, tuple(names), keys, stores, loads, addend, adds)

    # --- what compiled code calls

    def of(self, keys: tuple[int, ...], lanes: Any) -> Any:
        """Origins of undefined values in some registers, for each lane; None if all are defined."""
        found = None
        for key in keys:
            column = self.get(key)
            if column is None:
                continue
            found = _largest(found, column[lanes.place])
        return found if found is not None and found.any() else None

    def put(self, key: int, lanes: Any, value: Any) -> None:
        """Marks a register of these lanes as undefined, or as defined (None)."""
        column = self.get(key)
        if column is None:
            if value is None:
                return
            column = self[key] = np.zeros(lanes.residents.count, np.uint8)
        column[lanes.place] = 0 if value is None else value
        if value is None and not column.any():
            del self[key]

    def visit(self, site: Site, names: list[str], lanes: Any, arguments: tuple[Any, ...], predicate: Any = None) -> None:
        """Called before an instruction executes while some register is undefined; `arguments` may be missing unless they `may_decide`."""
        plan = self.plan(site, names)
        # the view passes over the smaller of both, and few registers are read or written
        if plan is not None and not self.keys().isdisjoint(plan.keys):
            self.step(plan, lanes, arguments, predicate)

    def step(self, plan: Plan, lanes: Any, arguments: tuple[Any, ...], predicate: Any = None) -> None:
        """Called before an instruction executes; `predicate` selects lanes (None: all)."""
        source = self.of((plan.guard,), lanes) if predicate is not None else None
        if source is not None and (plan.bound.memory or plan.bound.barrier):
            self.monitor.used(plan, lanes, source, "guard")
        if source is not None and not plan.bound.memory:
            # whether these registers keep their values is undefined
            for key in plan.writes:
                self.put(key, lanes, _largest(self.of((key,), lanes), source))
        if predicate is not None:
            if getattr(predicate, "ndim", 0):
                chosen = np.flatnonzero(predicate)
                if not len(chosen):
                    return
                lanes = lanes.at(chosen)
                source = source[chosen] if source is not None else None
                arguments = tuple([taken(x, chosen) for x in arguments])
            elif not predicate:
                return
        taints = {}
        for read in plan.reads:
            found = self.of(read.keys, lanes)
            if found is None or read is plan.addend:
                continue
            if read.is_address:
                self.monitor.used(plan, lanes, found, "address")
            else:
                taints[read.name] = (found, read)
        result = self._through(plan, lanes, taints, arguments) if taints else None
        if plan.stores and result is not None:
            self.loaded["stored"] = (plan.site, lanes, result)
        if plan.bound.converges is not None and not plan.bound.fragments:
            # propagation between lanes of a warp is not tracked
            result = None
        result = _largest(result, source)
        added = self._added(plan, lanes, arguments) if plan.addend is not None else ()
        for key, other in itertools.zip_longest(plan.writes, added):
            self.put(key, lanes, None if plan.loads else _largest(result, other))

    def _added(self, plan: Plan, lanes: Any, arguments: tuple[Any, ...]) -> list[Any]:
        """Origins in the registers of an accumulator where a product is added to it."""
        assert plan.addend is not None
        adds = np.asarray(dict(zip(plan.arguments, arguments, strict=False)).get(plan.adds, True)).astype(bool)
        found = [self.of((key,), lanes) for key in plan.addend.keys]
        return [None if one is None else np.where(adds, one, 0) for one in found]

    def _through(self, plan: Plan, lanes: Any, taints: dict[str, Any], arguments: tuple[Any, ...]) -> Any:
        """Origins in the result of an instruction that reads undefined values."""
        how = plan.how
        if how == "equal":
            return None
        if how == "pack":
            each = [self.of((key,), lanes) for read in plan.reads for key in read.keys]
            if any(one is None for one in each):
                return None
            return _least(each)
        if how in ("select", "and", "or", "decided-and", "decided-or"):
            values = dict(zip(plan.arguments, arguments, strict=False))
            return _decided(plan, lanes, {name: found for name, (found, _) in taints.items()}, values)
        found = None
        for one, _ in taints.values():
            found = _largest(found, one)
        return found

    def land(self, plan: Plan) -> None:
        """Called after an instruction that accessed undefined bytes or stored an undefined value."""
        loaded = dict(self.loaded)
        self.loaded.clear()
        self.monitor.landed(plan, loaded)

    def enter(self, caller: Body, given: list[int], body: Body, results: int, lanes: Any) -> None:
        """Called when a function is entered: register parameters are as defined as the arguments, results are undefined."""
        for place, (symbol, number) in enumerate(body.formals):
            if symbol.kind is not Kind.REGISTER:
                continue
            source: Any = self.monitor.never(body, number) if place < results and self.monitor is not None else None
            if place >= results and given[place] >= 0:
                source = self.of((self.key(caller, given[place]),), lanes)
            self.put(self.key(body, number), lanes, source)

    def leave(self, body: Body, caller: Body, results: list[int], lanes: Any) -> None:
        """Called when a function returns: the caller's registers are as defined as the results."""
        for (_, number), to in zip(body.formals, results, strict=False):
            if to >= 0:
                self.put(self.key(caller, to), lanes, self.of((self.key(body, number),), lanes))

    def branch(self, site: Site, key: int, lanes: Any) -> None:
        """Called when control flow depends on a register."""
        found = self.of((key,), lanes)
        if found is not None:
            self.monitor.used_at(site, lanes, found, "branch")


def _largest(one: Any, other: Any) -> Any:
    """The origins in either of two operands; None: all are defined."""
    if one is None or other is None:
        return other if one is None else one
    return np.maximum(one, other)


def _least(each: list[Any]) -> Any:
    """Undefined where all of them are."""
    found = each[0]
    for one in each[1:]:
        found = np.where((found > 0) & (one > 0), np.maximum(found, one), 0)
    return found if found.any() else None


def _decided(plan: Plan, lanes: Any, taints: dict[str, Any], values: dict[str, Any]) -> Any:
    """The effect of undefined operands in a selection, or in a logical operation that one operand may decide."""
    nothing = np.zeros(lanes.count, np.uint8)
    first, second, *rest = [taints.get(name, nothing) for name in plan.names]
    if plan.how == "select":
        chooser = values.get(plan.names[0])
        if chooser is None:
            return None
        found = np.maximum(first, np.where(np.asarray(chooser).astype(bool), second, rest[0]))
    elif plan.how in ("decided-and", "decided-or"):
        # if the predicate decides, the operands of the comparison may be undefined
        others = [found for name, found in taints.items() if name != plan.names[0]]
        decides = values.get(plan.names[0])
        open_ = np.asarray(decides if plan.how == "decided-and" else ~np.asarray(decides)).astype(bool) if decides is not None else np.True_
        found = first
        for one in others:
            found = np.maximum(found, np.where(open_ | (first > 0), one, 0))
    else:
        a, b = [np.asarray(values[name]) if name in values else None for name in plan.names]
        found = np.maximum(_kept(first, second, b, plan.how), _kept(second, first, a, plan.how))
    return found if found.any() else None


def _kept(mine: Any, other: Any, value: Any, how: str) -> Any:
    """Where an undefined operand affects the result, that is, where the other operand does not decide it."""
    if value is None:
        return mine
    none = np.zeros((), value.dtype)
    decides = value == (none if how == "and" else ~none) if value.dtype.kind in "biu" else np.False_
    return np.where(decides & (other == 0), 0, mine)


@lru_cache(maxsize=4096)
def may_decide(bound: Bound) -> bool:
    """Whether an operand may decide whether others matter, so that its values are needed."""
    return bound.operator in ("select", "and", "or") or (bound.accumulates is not None and bound.accumulates.when != "")


def _how(bound: Bound, keys: dict[str, tuple[int, ...]]) -> tuple[str, tuple[str, ...]]:
    """How undefined operands affect the result, from the computation in the instruction table."""
    if bound.packs:
        return "pack", ()
    operator, value = bound.operator, bound.computes[0].value if bound.computes else None
    names = tuple([name for name in value.arguments if isinstance(name, str)]) if isinstance(value, Call) else ()
    if operator in ("select", "pack", "unpack"):
        return operator, names
    if operator in ("and", "or") and len(names) == 2:
        return operator, names
    if operator in ("and", "or") and len(names) == 1:
        return f"decided-{operator}", (*names, "")
    if operator in ("xor", "sub") and len(names) == 2 and keys.get(names[0]) and keys.get(names[0]) == keys.get(names[1]):
        return "equal", names
    return "", ()
