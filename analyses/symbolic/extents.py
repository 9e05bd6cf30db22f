"""How far addresses may lie from where they start: a variable, or another location that is not known (5.1.8).

What threads differ in, what rings go through and what is known besides are put together as ranges, so that memory that is shared out by
constants can be distinguished, no matter what is not known.
"""

from __future__ import annotations

from ptxkit.analyses.framework.routine import Routine, fact
from ptxkit.analyses.numbers.arithmetic import signed
from ptxkit.analyses.symbolic.induction import rounds
from ptxkit.analyses.symbolic.terms import SUM, Term
from ptxkit.analyses.symbolic.thread_block import thread_block_of
from ptxkit.analyses.symbolic.values import values

FAR = 1 << 20
"""No variable in shared memory is as large, in bytes."""
ADDRESS_BITS = 32
MOST_CUT = 15
"""Addresses are not rounded down by more bits than this."""
MOST_DEPTH = 20

Range = tuple[int, int]
"""The least and the greatest."""
_Part = tuple[int, int, int]
"""How often the root is in a term, and the least and the greatest that is added to it."""


class Extents:
    """Ranges of addresses in a function."""

    def __init__(self, routine: Routine) -> None:
        self._terms = values(routine).terms
        self._thread_block = thread_block_of(routine)
        self._rounds = rounds(routine)
        self._known: dict[tuple[Term, Term], Range | None] = {}
        self._numbers: dict[Term, Range] = {}

    def of(self, address: Term, root: Term) -> Range | None:
        """How far from a leaf an address may lie, over all threads and rounds; None if it is not known."""
        key = (address, root)
        if key not in self._known:
            found = self._part(address, root, 0)
            is_known = found is not None and found[0] == 1 and -FAR < found[1] <= found[2] < FAR
            self._known[key] = found[1:] if found is not None and is_known else None
        return self._known[key]

    def _part(self, term: Term, root: Term, depth: int) -> _Part | None:
        if term is root:
            return (1, 0, 0)
        if depth > MOST_DEPTH:
            return None
        if root not in term.leaves():
            return (0, *self._range(term, depth))
        if term.operator == SUM:
            return self._sum(term, root, depth + 1)
        if term.operator in ("zext", "trunc") and min(term.width, term.args[0].width) >= ADDRESS_BITS:
            return self._part(term.args[0], root, depth + 1)
        if term.operator in ("select", "join"):
            arms = [self._part(arm, root, depth + 1) for arm in (term.args[1:] if term.operator == "select" else term.args)]
            if not arms or any(arm is None or arm[0] != 1 for arm in arms):
                return None
            return (1, min(arm[1] for arm in arms if arm is not None), max(arm[2] for arm in arms if arm is not None))
        if term.operator in ("and", "or", "xor"):
            return self._of_bits(term, root, depth + 1)
        return None

    def _of_bits(self, term: Term, root: Term, depth: int) -> _Part | None:
        """Of an address whose lower bits are swizzled or cut."""
        for one, other in (term.args, term.args[::-1]):
            most = (other.constant or 0) ^ (1 << term.width) - 1 if term.operator == "and" else self._range(other, depth)[1]
            if most >= 1 << MOST_CUT:
                continue
            found = self._part(one, root, depth)
            if found is None or found[0] != 1:
                return None
            step = 1 << most.bit_length()
            if root.alignment and root.alignment < step:
                return (1, found[1] - most, found[2] + most)
            # the bits above stay, of what lies between multiples of so many bytes
            return (1, found[1] // step * step, found[2] // step * step + step - 1)
        return None

    def _sum(self, term: Term, root: Term, depth: int) -> _Part | None:
        count = 0
        least = most = signed(term.offset, term.width)
        # what threads differ in, and what a ring goes through, is kept together
        by_thread = by_iteration = self._terms.constant(0, term.width)
        for atom, factor in term.parts:
            scaled = self._terms.scale(atom, factor)
            if root in atom.leaves():
                part = self._part(atom, root, depth)
                if part is None:
                    return None
                times = signed(factor, term.width)
                count, least, most = count + times * part[0], least + min(_ends(times, part[1:])), most + max(_ends(times, part[1:]))
            elif self._thread_block.vector(atom) is not None:
                by_thread = self._terms.add(by_thread, scaled)
            else:
                by_iteration = self._terms.add(by_iteration, scaled)
        for rest in (by_thread, by_iteration):
            own = self._signed(rest, depth)
            least, most = least + own[0], most + own[1]
        return (count, least, most)

    def _signed(self, term: Term, depth: int) -> Range:
        """The numbers that a sum may be, signed."""
        numbers = self._thread_block.vector(term) or (tuple(self._rounds.numbers(term)) if self._rounds.is_all(term) else None)
        if numbers:
            found = [signed(number, term.width) for number in set(numbers)]
            return min(found), max(found)
        return self._total(term, depth)

    def _range(self, term: Term, depth: int) -> Range:
        """The numbers that a term may be, unsigned."""
        if term not in self._numbers:
            self._numbers[term] = self._range_of(term, depth + 1)
        return self._numbers[term]

    def _range_of(self, term: Term, depth: int) -> Range:
        numbers = self._thread_block.vector(term)
        if numbers is not None:
            return min(numbers), max(numbers)
        if self._rounds.is_all(term):
            iterations = self._rounds.numbers(term)
            return min(iterations), max(iterations)
        if depth > MOST_DEPTH or term.operator not in ("mul", SUM):
            return term.bounds
        made = self._product(term, depth) if term.operator == "mul" else self._total(term, depth)
        return made if made[0] >= 0 and made[1] < 1 << term.width else term.bounds

    def _product(self, term: Term, depth: int) -> Range:
        (least, most), (other_least, other_most) = (self._range(arg, depth) for arg in term.args)
        return least * other_least, most * other_most

    def _total(self, term: Term, depth: int) -> Range:
        offset, linear = term.linear
        least = most = signed(offset, term.width)
        parts = {atom: signed(factor, term.width) for atom, factor in linear}
        for atom, factor in list(parts.items()):
            divided = _divided(atom)
            if divided is not None and parts.get(divided[0]) == -factor:
                # a number without all the times that another goes into it
                del parts[atom], parts[divided[0]]
                ends = _ends(-factor, (0, self._range(divided[1], depth)[1] - 1))
                least, most = least + min(ends), most + max(ends)
        for atom, factor in parts.items():
            ends = _ends(factor, self._range(atom, depth))
            least, most = least + min(ends), most + max(ends)
        return least, most


def _ends(factor: int, ends: Range) -> Range:
    return factor * ends[0], factor * ends[1]


def _divided(atom: Term) -> tuple[Term, Term] | None:
    """Of how often a number goes into another, times that number: the other, and the number."""
    if atom.operator == "mul":
        for divided, number in (atom.args, atom.args[::-1]):
            if divided.operator == "div.u" and divided.args[1] is number:
                return divided.args[0], number
    return None


@fact
def extents(routine: Routine) -> Extents:
    """Ranges of addresses in a function."""
    return Extents(routine)
