"""How far addresses may lie from where they start: a variable, or another place that is not known (5.1.8).

What threads differ in, what rings go through and what is known besides are put together as ranges, so that memory that is shared out by
constants can be told apart whatever is not known.
"""

from __future__ import annotations

from ptxkit.analyses.arithmetic import signed
from ptxkit.analyses.protocols.rounds import rounds
from ptxkit.analyses.protocols.team import team
from ptxkit.analyses.routine import Routine, fact
from ptxkit.analyses.terms import SUM, Term
from ptxkit.analyses.values import values

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
        self._team = team(routine)
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
            return (0, *self._range(term))
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
            most = (other.constant or 0) ^ (1 << term.width) - 1 if term.operator == "and" else self._range(other)[1]
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
        count, least, most = 0, signed(term.offset, term.width), signed(term.offset, term.width)
        by_thread = self._terms.constant(0, term.width)
        for atom, factor in term.parts:
            if root not in atom.leaves() and self._team.vector(atom) is not None:
                by_thread = self._terms.add(by_thread, self._terms.scale(atom, factor))
                continue
            part = self._part(atom, root, depth)
            if part is None:
                return None
            ends = (factor * part[1], factor * part[2])
            count, least, most = count + factor * part[0], least + min(ends), most + max(ends)
        numbers = self._team.vector(by_thread)
        if numbers is None:
            return None
        return (count, least + signed(min(numbers), term.width), most + signed(max(numbers), term.width))

    def _range(self, term: Term) -> Range:
        """The numbers that a term may be, unsigned."""
        if term not in self._numbers:
            self._numbers[term] = self._range_of(term)
        return self._numbers[term]

    def _range_of(self, term: Term) -> Range:
        numbers = self._team.vector(term)
        if numbers is not None:
            return min(numbers), max(numbers)
        if self._rounds.is_all(term):
            turns = self._rounds.numbers(term)
            return min(turns), max(turns)
        return term.bounds


@fact
def extents(routine: Routine) -> Extents:
    """Ranges of addresses in a function."""
    return Extents(routine)
