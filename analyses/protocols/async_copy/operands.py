"""Operands of asynchronous copies that provably violate the table's requirements: sizes, alignment, bounds of variables (9.7.10.24, 6.4.1).

An assembler checks literal constants, but not the values of registers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ptxkit.analyses.cfg.graph import control_flow
from ptxkit.analyses.events.effects import Action, effects
from ptxkit.analyses.framework.bindings import bindings
from ptxkit.analyses.framework.finding import Finding
from ptxkit.analyses.framework.routine import Routine
from ptxkit.analyses.memory.accesses import Access, accesses, locate, size_of
from ptxkit.analyses.numbers.arithmetic import signed
from ptxkit.analyses.protocols.async_copy.kinds import COPY
from ptxkit.analyses.symbolic.terms import Term
from ptxkit.analyses.symbolic.thread_block import thread_block_of
from ptxkit.analyses.symbolic.values import values
from ptxkit.analyses.threads.lanes import lanes
from ptxkit.analyses.threads.thread_sets import Runs
from ptxkit.isa.binding import Bound, BoundOperand
from ptxkit.names import Kind

ASYNC = "async"
"""The proxy of bulk copies."""


def operand_findings(routine: Routine, rule: str, of_queue: Callable[[str], bool]) -> Iterator[Finding]:
    """Findings under the name of a rule, for copies whose queue satisfies `of_queue` (empty for copies that signal an mbarrier)."""
    own = effects(routine)
    by_instruction: dict[int, list[Access]] = {}
    for access in accesses(routine):
        if access.memory.is_async:
            by_instruction.setdefault(access.instruction, []).append(access)
    for i, accessing in by_instruction.items():
        bound = bindings(routine)[i]
        queue = next((effect.queue for effect in own.get(i, ()) if effect.action is Action.OPEN), "")
        if not isinstance(bound, Bound) or bound.converges is not None or not of_queue(queue):
            continue
        if queue != COPY and not any(access.memory.proxy == ASYNC for access in accessing):
            continue
        if lanes(routine).execution(i).most < Runs.MAYBE:
            continue
        yield from _sizes(routine, rule, i, bound)
        for access in accessing:
            yield from _alignment(routine, rule, bound, access)
            yield from _extent(routine, rule, access)


def _sizes(routine: Routine, rule: str, i: int, bound: Bound) -> Iterator[Finding]:
    first = len(routine.instructions[i].children) - len(routine.instructions[i].operands)
    for operand in bound.operands:
        if operand.limits is None or operand.role == "addr" or operand.shape.kind == "immediate":
            continue
        term = values(routine).operand(i, routine.instructions[i].operands[operand.path[0]])
        if term is not None and (wrong := _outside(operand, term)):
            yield Finding(
                i,
                f"`{operand.name}` {wrong}, and must be {operand.limits}",
                notes=() if term.constant is not None else (f"it is {term}",),
                kind=rule,
                child=first + operand.path[0],
            )
    size, source = bound.operand("n"), bound.operand("src")
    if size is None or source is None or source.path == size.path:
        return
    most = values(routine).operand(i, routine.instructions[i].operands[size.path[0]])
    least = values(routine).operand(i, routine.instructions[i].operands[source.path[0]])
    if most is not None and least is not None and most.constant is not None and least.bounds[0] > most.constant:
        message = f"at least {least.bounds[0]} bytes are to be read, and {most.constant} to be written"
        yield Finding(i, message, kind=rule, child=first + source.path[0])


def _outside(operand: BoundOperand, term: Term) -> str:
    """What is wrong with a number for all inputs; empty if nothing is."""
    limits = operand.limits
    if limits is None:
        return ""
    if term.constant is not None:
        return "" if limits.allow(term.constant) else f"is {term.constant}"
    low = limits.multiple - 1
    if limits.multiple > 1 and not low & limits.multiple and term.known.ones & low:
        return f"is not a multiple of {limits.multiple}"
    return ""


def _alignment(routine: Routine, rule: str, bound: Bound, access: Access) -> Iterator[Finding]:
    align = access.align
    if bound.operand("n") is not None and access.bytes is not None:
        # both addresses of a copy must be aligned to its size
        align = max(align, access.bytes)
    if access.address is None or align <= 1 or align & (align - 1):
        return
    low = align - 1
    always = access.address.known.ones & low
    if always:
        rest = str(always) if (access.address.known.zeros | always) & low == low else f"at least {always & -always}"
        message = f"the address must be a multiple of {align}; it is {rest} bytes past one"
        yield Finding(access.instruction, message, notes=(f"the address is {access.address}",), kind=rule, child=access.child)
        return
    if access.address.known.zeros & low == low:
        return
    numbers = _low_bits(routine, access.address, low)
    if numbers is None:
        return
    sure = lanes(routine).execution(access.instruction).sure
    for thread, number in enumerate(numbers):
        if number & low and sure >> thread & 1:
            name = thread_block_of(routine).name(thread)
            message = f"the address must be a multiple of {align}; for {name} it is {number & low} bytes past one"
            yield Finding(access.instruction, message, notes=(f"the address is {access.address}",), kind=rule, child=access.child)
            return


def _low_bits(routine: Routine, address: Term, low: int) -> tuple[int, ...] | None:
    """The lowest bits in each thread, if everything unknown is a sufficiently large multiple."""
    terms = values(routine).terms
    offset, parts = address.linear
    rest = terms.constant(offset, address.width)
    for atom, factor in parts:
        free = atom.alignment * (factor & -factor)
        if free and free <= low:
            rest = terms.add(rest, terms.scale(atom, factor))
    return thread_block_of(routine).vector(rest)


def _extent(routine: Routine, rule: str, access: Access) -> Iterator[Finding]:
    """Reports bulk copies beyond the end of a variable. Copies of single threads are checked like other accesses."""
    if access.address is None or not access.bytes or access.memory.proxy != ASYNC:
        return
    where = locate(values(routine), access.address)
    if where.symbol is None or where.symbol.kind is not Kind.VARIABLE or where.symbol.is_open_ended:
        return
    size = size_of(where.symbol)
    numbers = lanes(routine).numbers(where.offset, control_flow(routine).block_of[access.instruction])
    if size is None or numbers is None:
        return
    for number, run in zip(numbers, lanes(routine).execution(access.instruction), strict=True):
        first = signed(number, where.offset.width)
        if run is Runs.ALWAYS and not 0 <= first <= size - access.bytes:
            message = f"this copies bytes {first} to {first + access.bytes - 1} of `{where.symbol.name}`, which has only {size}"
            yield Finding(access.instruction, message, kind=rule, child=access.child)
            return
