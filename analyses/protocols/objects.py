"""Which mbarrier objects an instruction may name: where they lie from a common start, as far as that is known (9.7.14.16).

Kernels keep their objects in arrays, with a stage that comes round as the index. The stage of a ring is between nought and what it comes
round at, if all that it is made from keeps to that: so two arrays are seen to lie apart.
"""

from __future__ import annotations

import attrs

from ptxkit.analyses.accesses import place
from ptxkit.analyses.arithmetic import signed
from ptxkit.analyses.routine import Routine, fact
from ptxkit.analyses.ssa import Origin, ssa
from ptxkit.analyses.terms import Term, walk
from ptxkit.analyses.values import values
from ptxkit.names import Symbol

CTA_BITS = 18
"""Addresses of shared memory that differ only in bits from this one on are the same place in different CTAs."""
OBJECT_BYTES = 8
MOST_VALUES = 64
"""A ring of more values than this is not followed."""

Range = tuple[int, int]


@attrs.frozen
class Where:
    """Where an object may lie."""

    root: Symbol | Term
    """The variable, or the unknown that the address starts from."""
    low: int
    high: int

    def may_be(self, other: Where) -> bool:
        """Whether it may be the same object: it is not, if both are known to lie apart from one start, or in different variables."""
        if self.root is not other.root:
            return not (isinstance(self.root, Symbol) and isinstance(other.root, Symbol))
        return self.low < other.high + OBJECT_BYTES and other.low < self.high + OBJECT_BYTES


def where(routine: Routine, i: int, operand: int) -> Where | None:
    """Where the object lies that an operand, counted among the operands, is the address of; None if not even its start is known."""
    address = values(routine).operand(i, routine.instructions[i].operands[operand])
    if address is None:
        return None
    found = _known(routine)
    if address not in found:
        found[address] = _where(routine, address)
    return found[address]


@fact
def _known(routine: Routine) -> dict[Term, Where | None]:
    return {}


def _where(routine: Routine, address: Term) -> Where | None:
    at = _in_its_cta(address)
    known = place(values(routine), at)
    offset, parts = at.linear
    low = high = signed(offset, at.width)
    root: Symbol | Term | None = known.symbol
    if root is not None:
        offset, parts = known.offset.linear
        low = high = signed(offset, known.offset.width)
    for atom, factor in parts:
        if root is None and factor == 1 and atom.operator == "value" and len(atom.data) == 1:
            root = atom
            continue
        ends = _range(routine, atom)
        if ends is None:
            return Where(root, *known.offset.signed_bounds) if isinstance(root, Symbol) else None
        scaled = sorted(end * signed(factor, at.width) for end in ends)
        low, high = low + scaled[0], high + scaled[1]
    return Where(root, low, high) if root is not None else None


def _in_its_cta(address: Term) -> Term:
    """An address without what says in which CTA of the cluster it is, if that is masked out."""
    parts = address.linear[1]
    if len(parts) == 1 and parts[0][1] == 1 and not address.linear[0] and parts[0][0].operator == "and":
        kept, mask = parts[0][0].args
        low = (1 << CTA_BITS) - 1
        if mask.constant is not None and mask.constant & low == low:
            return kept
    return address


def _range(routine: Routine, atom: Term) -> Range | None:
    """Between which numbers something is: by itself, or as the stage of a ring."""
    low, high = atom.signed_bounds
    if low >= 0 and high < 1 << CTA_BITS:
        return low, high
    values_ = _ring(routine, atom)
    size = _size(values_) if values_ is not None else 0
    if values_ is None or not size:
        return None
    ends = (0, size - 1)
    # what every value arrives as keeps to the range, if all that it is made from does
    if all(_keeps(term, ends) for term in values_.values()) and _keeps(atom, ends):
        return ends
    return None


def _ring(routine: Routine, atom: Term) -> dict[Term, Term] | None:
    """What arrives at the loop values that something is made from, and at those that these are made from; None if they are too many."""
    known, numbering = values(routine), ssa(routine).values
    found: dict[Term, Term] = {}
    work = list(atom.leaves())
    seen: set[Term] = set()
    while work:
        leaf = work.pop()
        if leaf in seen:
            continue
        seen.add(leaf)
        number = leaf.data[0] if leaf.operator == "phi" else None
        if not isinstance(number, int) or numbering[number].origin is not Origin.PHI:
            return None
        for operand in numbering[number].operands:
            if operand >= 0:
                term = known.of(operand)
                found[term] = term
                work += term.leaves()
        if len(found) > MOST_VALUES:
            return None
    return found


def _size(arriving: dict[Term, Term]) -> int:
    """How many stages a ring has: the number that it is set back at."""
    sizes = set()
    for term in arriving:
        for inner in walk(term):
            if inner.operator == "select" and inner.args[0].operator == "eq":
                apart = {side.constant for side in inner.args[0].args if side.constant is not None}
                sizes |= {number for number in apart if number < 1 << CTA_BITS}
    return max(sizes, default=0)


def _keeps(term: Term, ends: Range) -> bool:
    """Whether a value is in a range from nought, if the loop values in it are."""
    if term.constant is not None:
        return 0 <= term.constant <= ends[1]
    if term.operator == "phi":
        return True
    if term.operator == "join":
        return all(_keeps(arg, ends) for arg in term.args)
    if term.operator == "select":
        condition, yes, no = term.args
        return _keeps(yes, ends) and (_keeps(no, ends) or _comes_round(condition, no, ends))
    if term.operator == "xor" and not (ends[1] + 1) & ends[1]:
        return all(_keeps(arg, ends) for arg in term.args)
    low, high = term.signed_bounds
    return low >= 0 and high <= ends[1]


def _comes_round(condition: Term, stepped: Term, ends: Range) -> bool:
    """Whether something is one more than a stage, and is not what the ring comes round at since the condition does not hold."""
    if condition.operator != "eq" or stepped not in condition.args:
        return False
    end = next((side.constant for side in condition.args if side.constant is not None), None)
    offset, parts = stepped.linear
    return end == ends[1] + 1 and offset == 1 and len(parts) == 1 and parts[0][1] == 1 and _keeps(parts[0][0], ends)
