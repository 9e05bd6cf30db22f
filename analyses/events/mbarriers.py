"""The mbarriers that an instruction may name: root and offset, as far as known (9.7.14.16).

Kernels keep mbarriers in arrays, indexed by a stage that wraps around. The stage of a ring is bounded by the length of the ring if every
value that it is computed from is within that range; so two arrays are known not to overlap.
"""

from __future__ import annotations

import functools

from ptxkit.analyses.cfg.graph import control_flow
from ptxkit.analyses.framework.bindings import bindings, matching
from ptxkit.analyses.framework.routine import Routine, fact
from ptxkit.analyses.memory.accesses import accesses_of, locate
from ptxkit.analyses.memory.address import Address, Root, may_overlap
from ptxkit.analyses.numbers.arithmetic import signed
from ptxkit.analyses.numbers.bits import bits
from ptxkit.analyses.numbers.intervals import Interval, hull, just, union
from ptxkit.analyses.registers.ssa import Origin, ssa
from ptxkit.analyses.symbolic.environment import settler
from ptxkit.analyses.symbolic.induction import Rounds, rounds
from ptxkit.analyses.symbolic.terms import Term, Terms
from ptxkit.analyses.symbolic.values import values
from ptxkit.analyses.uniformity.uniformity import uniformity
from ptxkit.frozen import frozen
from ptxkit.isa.binding import Bound, BoundOperand
from ptxkit.names import Symbol

CTA_BITS = 18
"""Shared-memory addresses that differ only from this bit up are the same location in different CTAs."""
MBARRIER_BYTES = 8
MOST_JOINS = 4
"""Maximum depth of nested merges that are followed to locations."""

Where = Address[Root, Interval]
"""A possible location of an mbarrier, relative to the variable, or the unknown value, on which its address is based."""


def may_be_same(one: Where, other: Where) -> bool:
    """Whether two locations may be the same mbarrier."""
    return may_overlap(one, other, MBARRIER_BYTES)


def where(routine: Routine, i: int, operand: int) -> Where | None:
    """The location of the mbarrier whose address an operand (by its index) holds; None if not even its base is known."""
    address = values(routine).operand(i, routine.instructions[i].operands[operand])
    if address is None:
        return None
    guard = values(routine).guard(i)
    if guard is not None and address.operator == "select" and address.args[0] is guard:
        # only the selected address is used
        address = address.args[1]
    # an address that lanes exchange stays the same
    address = settler(routine).term(guarded(routine, i, address))
    found = _known(routine)
    if address not in found:
        found[address] = _where(routine, address)
    return found[address]


def guarded(routine: Routine, i: int, address: Term) -> Term:
    """An address, given that the guard of an instruction holds: what was written under the same guard was written."""
    guard = values(routine).guard(i)
    if guard is None or address.operator != "select":
        return address
    condition, yes, no = address.args
    if condition is guard:
        return yes
    return no if condition is values(routine).terms.invert(guard) else address


@fact
def _known(routine: Routine) -> dict[Term, Where | None]:
    return {}


def _where(routine: Routine, address: Term, depth: int = MOST_JOINS) -> Where | None:
    at = in_its_cta(values(routine).terms, address)
    routes = _paths(routine, at)
    if routes is not None:
        return _hull([_where(routine, route, depth - 1) for route in routes]) if depth else None
    known = locate(values(routine), at)
    offset, parts = at.linear
    ends = just(signed(offset, at.width))
    root: Root | None = known.symbol
    if root is not None:
        offset, parts = known.offset.linear
        ends = just(signed(offset, known.offset.width))
    ranges = _ranges(routine)
    for atom, factor in parts:
        if root is None and factor == 1 and atom.operator == "value" and len(atom.data) == 1:
            root = atom
            continue
        if atom not in ranges:
            ranges[atom] = _range(routine, atom)
        own = ranges[atom]
        if own is None:
            return Address(root, Interval(*known.offset.signed_bounds)) if isinstance(root, Symbol) else None
        ends = ends.plus(own.times(signed(factor, at.width)))
    return Address(root, ends) if root is not None else None


def in_its_cta(terms: Terms, address: Term) -> Term:
    """An address without the part that selects a CTA of the cluster: added by `mapa`, or in bits that are masked off."""
    parts = address.linear[1]
    if len(parts) == 1 and parts[0][1] == 1 and not address.linear[0] and parts[0][0].operator == "and":
        kept, mask = parts[0][0].args
        # the lowest bits of an mbarrier address are 0 as well, and compilers mask off bits that are 0 anyway
        low = (1 << CTA_BITS) - MBARRIER_BYTES
        if mask.constant is not None and not low & ~mask.constant & ~kept.known.zeros:
            return in_its_cta(terms, kept)
    for atom, factor in parts:
        if atom.operator == "peer":
            address = terms.sub(address, terms.scale(atom, factor))
    return address


def _paths(routine: Routine, address: Term) -> list[Term] | None:
    """The possible addresses of an mbarrier, if they differ in their base; None if there is only one."""
    offset, parts = address.linear
    if len(parts) != 1 or parts[0][1] != 1:
        return None
    terms, atom = values(routine).terms, parts[0][0]
    if atom.operator == "join":
        arriving: list[Term] = list(atom.args)
    elif atom.operator == "select":
        arriving = list(atom.args[1:])
    elif atom.operator == "phi" and atom.ssa_value is not None:
        number = ssa(routine).values[atom.ssa_value]
        if number.origin is not Origin.PHI or any(operand < 0 for operand in number.operands):
            return None
        arriving = [values(routine).of(operand) for operand in number.operands]
        # a value that is carried unchanged adds nothing
        arriving = [term for term in arriving if term is not atom]
    else:
        return None
    start = terms.constant(offset, address.width)
    return [terms.add(term, start) for term in arriving if term.width == address.width]


def _hull(found: list[Where | None]) -> Where | None:
    """The smallest location that covers several locations in one variable."""
    first = found[0] if found else None
    if first is None or any(one is None or one.root is not first.root for one in found):
        return None
    known = [one for one in found if one is not None]
    return Address(first.root, union([one.offset for one in known]))


@fact
def _ranges(routine: Routine) -> dict[Term, Interval | None]:
    """Cache of `_range`."""
    return {}


def _range(routine: Routine, atom: Term) -> Interval | None:
    """The range of a value: its own bounds, or those of the stage of a ring."""
    low, high = atom.signed_bounds
    if low >= 0 and high < 1 << CTA_BITS:
        return Interval(low, high)
    for known in (rounds(routine), _rounds_by_thread(routine)):
        if known.is_all(atom):
            ends = hull(known.numbers(atom))
            return ends if ends.high < 1 << CTA_BITS else None
    return None


@fact
def _rounds_by_thread(routine: Routine) -> Rounds:
    """The values that terms take if rings start at a value that depends on the thread index."""
    return Rounds(routine, functools.partial(_of_threads, routine))


def _of_threads(routine: Routine, term: Term, block: int) -> list[int]:
    """The values of a term for the threads that reach a block, if it depends only on their indices."""
    reach = uniformity(routine).reach
    if term.constant is not None or not reach.template.has_indices or not reach.template.is_known(term):
        return []
    numbers = reach.template.numbers(term)
    return sorted({numbers[thread] for thread in bits(reach.block(block).ever)}) if numbers is not None else []


# --- who uses them


@frozen
class Use:
    """What an instruction does to an mbarrier."""

    instruction: int
    arrives: bool
    """Whether the instruction, or the operation it starts, arrives or completes bytes there; otherwise it waits."""
    where: Where | None


@fact
def uses(routine: Routine) -> tuple[Use, ...]:
    """The reachable waits and arrivals at mbarriers, in document order."""
    flow = control_flow(routine)
    found = []
    for i, bound in matching(routine, lambda bound: bound.barrier or bound.completes):
        if flow.block_of[i] not in flow.reachable:
            continue
        named = [(word.action == "arrive", word.operand) for word in bound.barrier if word.action in ("arrive", "wait")]
        named += [(True, word.what) for word in bound.completes if word.mechanism == "mbarrier"]
        for arrives, name in named:
            operand = bound.operand(name) if name else None
            if operand is not None and operand.role == "addr":
                found.append(Use(i, arrives, where(routine, i, operand.path[0])))
    return tuple(found)


def mbarrier_operand(bound: Bound) -> BoundOperand | None:
    """The operand that holds the address of the mbarrier."""
    names = [word.operand for word in bound.barrier if word.operand]
    names += [word.what for word in bound.completes if word.mechanism == "mbarrier"]
    return next((operand for name in names if (operand := bound.operand(name)) is not None and operand.role == "addr"), None)


def other_rank(address: Term) -> Term | None:
    """The CTA rank that an address was mapped to, unless it is certainly the CTA's own."""
    for leaf in address.leaves():
        if leaf.rank is not None and leaf.rank.name != "%cluster_ctarank":
            return leaf.rank
    return None


def reads_remote(routine: Routine, i: int) -> bool:
    """Whether an instruction accesses shared memory of another CTA and is not a barrier operation."""
    bound = bindings(routine)[i]
    if not isinstance(bound, Bound) or bound.barrier:
        return False
    return any(access.address is not None and other_rank(access.address) is not None for access in accesses_of(routine, i))
