"""Variables in shared and local memory that are read before anything can have written them (8.2.6).

All uses of the variable's address must be known: in loads and stores, and in sums that end up there. Then a load that precedes every store
on every path reads an uninitialized value, at least in the first thread to arrive.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator

from ptxkit.analyses.cfg.dominators import dominators
from ptxkit.analyses.cfg.graph import control_flow
from ptxkit.analyses.framework.routine import Routine, fact
from ptxkit.analyses.memory.accesses import Access, accesses, accesses_by_instruction
from ptxkit.analyses.registers.registers import registers
from ptxkit.analyses.registers.ssa import Origin, ssa
from ptxkit.analyses.symbolic.terms import Term
from ptxkit.analyses.symbolic.values import values
from ptxkit.frozen import frozen
from ptxkit.names import Kind, Symbol, names_in
from ptxkit.syntax import Node

SPACES = (".shared", ".local")


@frozen(eq=False)
class Unwritten:
    """A variable that is read before it is written."""

    symbol: Symbol
    load: Access
    store: Access | None
    """The first later store; None if there is none."""


@fact
def unwritten(routine: Routine) -> tuple[Unwritten, ...]:
    """The variables of a function that are uninitialized when first read; in device functions, only local ones."""
    accessing: dict[Symbol, list[Access]] = {}
    for access in accesses(routine):
        symbol = access.where.symbol if access.where is not None else None
        if symbol is not None and _counts(routine, symbol):
            accessing.setdefault(symbol, []).append(access)
    suspects = []
    for symbol, found in accessing.items():
        load = _first_load(routine, found)
        if load is not None:
            suspects.append(Unwritten(symbol, load, next((access for access in found if access.writes), None)))
    if not suspects:
        return ()
    escaping = _escaping(routine)
    return tuple([found for found in suspects if found.symbol not in escaping])


def _counts(routine: Routine, symbol: Symbol) -> bool:
    """Whether a variable belongs to this very function, so that nothing else can have set its value."""
    if symbol.kind is not Kind.VARIABLE or symbol.linkage is not None or symbol.space not in SPACES:
        return False
    if symbol.path[: len(routine.path)] != routine.path:
        return False
    return symbol.space == ".local" or routine.function.header.is_entry


def _first_load(routine: Routine, found: list[Access]) -> Access | None:
    """A load whose value is used, before which no store can be executed."""
    numbered = ssa(routine)
    stores = [access.instruction for access in found if access.writes]
    for access in found:
        i = access.instruction
        is_used = any(numbered.readers[number] for number in numbered.definitions[i])
        if is_used and not access.writes and not access.memory.is_async and all(_is_before(routine, i, store) for store in stores):
            return access
    return None


def _is_before(routine: Routine, one: int, other: int) -> bool:
    """Whether a thread that executes `other` has executed `one` before."""
    if routine.instructions[one].guard is not None:
        return False
    blocks = control_flow(routine).block_of
    if blocks[one] == blocks[other]:
        return one < other
    return dominators(routine).tree.dominates(blocks[one], blocks[other])


def _escaping(routine: Routine) -> set[Symbol]:
    """The variables whose addresses escape the analysis."""
    known, numbered = values(routine), ssa(routine)

    @functools.cache
    def within(term: Term) -> frozenset[Symbol]:
        return frozenset([symbol for leaf in term.leaves() if leaf.operator == "address" and (symbol := known.symbol(leaf)) is not None])

    def all_within(terms: Iterable[Term | None]) -> set[Symbol]:
        return {symbol for term in terms if term is not None for symbol in within(term)}

    escaping: set[Symbol] = set()
    for number, value in enumerate(numbered.values):
        if value.origin is Origin.PHI:
            escaping |= all_within([known.of(one) for one in value.operands if one >= 0]) - within(known.of(number))
    accessed = accesses_by_instruction(routine)
    for i, uses in enumerate(numbered.uses):
        named = _named(routine, i)
        if not uses and not named:
            continue
        going = all_within([known.of(use) for use in uses if use >= 0]) | named
        if not going:
            continue
        here = accessed.get(i, ())
        followed = all_within(known.written(i))
        if here:
            followed = {symbol for access in here if (symbol := _symbol(access)) is not None}
            followed -= all_within(_others(routine, i, here)) | _named(routine, i, here)
        escaping |= going - followed
    return escaping


def _symbol(access: Access) -> Symbol | None:
    return access.where.symbol if access.where is not None else None


def _others(routine: Routine, i: int, here: Iterable[Access]) -> Iterator[Term]:
    """The values in the operands of an instruction other than its addresses."""
    known, table = values(routine), registers(routine)
    held = dict(zip(table.reads[i], ssa(routine).uses[i], strict=False))
    for _, node in _operands(routine, i, here):
        for register in table.of(i, node):
            if held.get(register, -1) >= 0:
                yield known.of(held[register])


def _named(routine: Routine, i: int, here: Iterable[Access] = ()) -> set[Symbol]:
    """The variables that an instruction names, except in its addresses."""
    found = set()
    for child, node in _operands(routine, i, here):
        for _, name in names_in(node):
            symbol = routine.names.lookup((*routine.where(i), child), name.text)
            if symbol is not None and symbol.kind is Kind.VARIABLE:
                found.add(symbol)
    return found


def _operands(routine: Routine, i: int, here: Iterable[Access]) -> Iterator[tuple[int, Node]]:
    """The operands of an instruction, except those of these accesses, with their child indices."""
    instruction = routine.instructions[i]
    without = {access.child for access in here}
    first = len(instruction.children) - len(instruction.operands)
    return ((child, node) for child, node in enumerate(instruction.operands, first) if child not in without)
