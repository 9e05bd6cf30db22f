"""Memory accesses: what each instruction reads and writes, with state space, address and size (5.1, 6.4, 9.7.10).

The table names the operands through which an instruction accesses memory. The state space is the one written; for a generic address it is
known if the address is derived from a variable, converted from a space, or a parameter that is declared to point into one.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping

from ptxkit.analyses.cfg.graph import control_flow
from ptxkit.analyses.framework.bindings import bindings
from ptxkit.analyses.framework.routine import Routine, fact
from ptxkit.analyses.memory.address import Address as Based
from ptxkit.analyses.symbolic.terms import Term
from ptxkit.analyses.symbolic.values import Values, values
from ptxkit.frozen import frozen
from ptxkit.isa.binding import Bound, BoundOperand
from ptxkit.isa.bound import GENERIC, number_of
from ptxkit.isa.forms import Memory
from ptxkit.isa.types import types
from ptxkit.memo import collector_paused
from ptxkit.names import Symbol
from ptxkit.syntax import Address, Guard


@frozen(eq=False)
class Access:
    """A memory access by an instruction through one operand."""

    instruction: int
    child: int
    """The child index of the operand in the instruction."""
    memory: Memory
    """The table's entry: read or write, asynchronous or not, proxy, order and scope."""
    space: str
    """The state space, without `::`; empty if unknown."""
    declared: str
    """The space as written; empty for generic addressing."""
    address: Term | None
    """None if unknown, as for an address in a constant expression that is not understood."""
    bytes: int | None
    """Bytes that each thread accesses from the address, if constant; None for collective accesses, where not all of the addresses need
    count."""
    align: int
    """Required alignment of the address in bytes; 0 if there is none."""
    least: int
    """Minimum bytes accessed from the address, even if `bytes` is unknown; 0 if that is unknown, too."""
    lanes: int
    """For collective accesses, the number of lanes, starting from lane 0, whose address counts; 0 for all."""
    where: Location | None
    """The components of the address."""
    part: int | None = None
    """The child index of the operand that limits how many of the bytes are read: a number, or a predicate for reading none."""

    @property
    def reads(self) -> bool:
        return self.memory.access != "write"

    @property
    def writes(self) -> bool:
        return self.memory.access != "read"


@frozen(eq=False)
class Location:
    """The components of an address, with its space."""

    address: Based[Symbol | None, Term]
    """The variable, and the offset without variable and window."""
    space: str
    """The space of the window in which a generic address is, or that of the variable; empty if unknown."""
    windows: int
    """How many times a window base is contained: 1 for a generic address converted from a space, 0 for one within a space."""

    @property
    def symbol(self) -> Symbol | None:
        return self.address.root

    @property
    def offset(self) -> Term:
        return self.address.offset


@frozen
class _Plan:
    operand: BoundOperand
    memory: Memory
    declared: str
    bytes: int | None
    size: BoundOperand | None
    align: int
    lanes: int
    part: BoundOperand | None


_SIZES = ("size", "n")
"""The operand names for the size of a copy or fill."""
_PARTS = ("src", "ignore")
"""The operand names for the number of bytes that are read, or for reading none."""


@functools.lru_cache(maxsize=65536)
def _plans(bound: Bound) -> tuple[_Plan, ...]:
    found = []
    for memory in bound.memory:
        operand = bound.operand(memory.operand)
        if operand is None or operand.role != "addr":
            continue
        spaces = {space.partition("::")[0] for space in operand.spaces if space != GENERIC}
        declared = spaces.pop() if len(spaces) == 1 and GENERIC not in operand.spaces else ""
        size = next((o for o in bound.operands if o.name in _SIZES), None) if bound.converges is None else None
        data = _data(bound, memory)
        count = max(1, _count(data)) if data is not None else 1
        align = operand.align
        width = None
        if size is not None or bound.converges is not None:
            width = None
        elif data is not None:
            width = types()[data.types[0]].bytes * count
            align *= count
        else:
            width = align or None
        lanes = number_of(memory.lanes, bound.slots) if memory.lanes is not None else 0
        part = next((o for o in bound.operands if o.name in _PARTS), None) if size is not None and memory.access == "read" else None
        found.append(_Plan(operand, memory, declared, width, size, align, lanes, part))
    return tuple(found)


def _data(bound: Bound, memory: Memory) -> BoundOperand | None:
    """The operand that holds what is read or written."""
    for operand in bound.operands:
        kind = types().get(operand.types[0]) if operand.types else None
        if kind is None or kind.kind in ("predicate", "opaque") or operand.name == "policy":
            continue
        if operand.role == "w" if memory.access == "read" else operand.role == "r":
            return operand
    return None


def _count(data: BoundOperand) -> int:
    return len(data.shape.parts) if data.shape.kind == "vector" else data.shape.count if data.shape.kind == "register" else data.width


@fact
def accesses(routine: Routine) -> tuple[Access, ...]:
    """The reachable memory accesses, in document order. Those of matrices and tensors have no size."""
    with collector_paused():
        return tuple(_accesses(routine))


def accesses_of(routine: Routine, i: int) -> tuple[Access, ...]:
    """The accesses of an instruction."""
    return accesses_by_instruction(routine).get(i, ())


@fact
def accesses_by_instruction(routine: Routine) -> Mapping[int, tuple[Access, ...]]:
    """The accesses of each instruction that has any."""
    found: dict[int, list[Access]] = {}
    for access in accesses(routine):
        found.setdefault(access.instruction, []).append(access)
    return {i: tuple(own) for i, own in found.items()}


def _accesses(routine: Routine) -> Iterator[Access]:
    known = values(routine)
    blocks = control_flow(routine)
    bounds = bindings(routine)
    plans: dict[int, tuple[_Plan, ...]] = {}
    for block in sorted(blocks.reachable):
        for i in range(blocks.blocks[block].start, blocks.blocks[block].end):
            bound = bounds[i]
            own = plans.get(id(bound))
            if own is None:
                own = plans[id(bound)] = _plans(bound) if isinstance(bound, Bound) else ()
            for plan in own:
                yield _access(routine, known, i, plan)


def _access(routine: Routine, known: Values, i: int, plan: _Plan) -> Access:
    children = routine.instructions[i].children
    first = 2 if type(children[0]) is Guard else 1
    at = first + plan.operand.path[0]
    node = children[at]
    address = known.operand(i, node) if isinstance(node, Address) and plan.operand.path[1:] in ((), (0,)) else None
    size = plan.bytes
    if plan.size is not None:
        count = known.operand(i, children[first + plan.size.path[0]])
        size = count.constant if count is not None else None
    where = locate(known, address) if address is not None else None
    space = plan.declared or (where.space if where is not None else "")
    least = size if size is not None else plan.memory.row or (plan.align if plan.memory.is_async and plan.size is None else 0)
    part = first + plan.part.path[0] if plan.part is not None else None
    return Access(i, at, plan.memory, space, plan.declared, address, size, plan.align, least, plan.lanes, where, part)


def locate(known: Values, address: Term) -> Location:
    """The components of an address."""
    symbol = None
    space = ""
    windows = 0
    rest = []
    for atom, factor in address.linear[1]:
        inner = atom.args[0] if atom.operator in ("zext", "trunc") else atom
        if factor == 1 and inner.operator == "address" and symbol is None:
            symbol = known.symbol(inner)
        elif factor == 1 and inner.operator == "window":
            windows += 1
            space = space or inner.name
        else:
            rest.append((atom, factor))
            if factor == 1 and atom.operator == "parameter" and not space:
                pointer = getattr(getattr(known.symbol(atom), "declares", None), "pointer", None)
                space = (pointer.space or "") if pointer is not None else ""
    if symbol is not None and not space and (symbol.space == ".global" or not windows):
        space = (symbol.space or "").partition("::")[0]
    return Location(Based(symbol, known.terms.part(address, tuple(rest))), space, windows)


def size_of(symbol: Symbol) -> int | None:
    """The bytes of a variable or parameter, or None if its declaration does not give them."""
    kind = types().get(symbol.type or "")
    if kind is None or not kind.bytes:
        return None
    size = kind.bytes * symbol.vector
    for dimension in symbol.dimensions:
        if dimension is None:
            return None
        size *= dimension
    return size
