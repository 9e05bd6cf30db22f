"""Ranges of addresses relative to their base: a variable, or an unknown location (5.1.8).

Thread-dependent parts, ring indices and other known parts are combined as ranges, so that parts of shared memory at constant offsets can
be distinguished although other parts of the address are unknown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ptxkit.analyses.framework.routine import Routine, fact
from ptxkit.analyses.numbers.arithmetic import signed
from ptxkit.analyses.numbers.intervals import Interval, hull, just, union
from ptxkit.analyses.symbolic.domains import intervals, total
from ptxkit.analyses.symbolic.evaluate import NONE, Domain, evaluate
from ptxkit.analyses.symbolic.induction import rounds
from ptxkit.analyses.symbolic.terms import SUM, Term
from ptxkit.analyses.symbolic.thread_block import thread_block_of
from ptxkit.analyses.symbolic.values import values

FAR = 1 << 20
"""Larger than any variable in shared memory, in bytes."""
ADDRESS_BITS = 32
MOST_CUT = 15
"""Maximum number of bits by which addresses are rounded down."""


class _Distance(NamedTuple):
    """A term as a multiple of the root plus a range."""

    roots: int
    added: Interval


class Extents:
    """Ranges of addresses in a function."""

    def __init__(self, routine: Routine) -> None:
        self._terms = values(routine).terms
        self._thread_block = thread_block_of(routine)
        self._rounds = rounds(routine)
        self._distances: dict[Term, dict[Term, _Distance | None]] = {}
        self._intervals: dict[Term, Interval | None] = {}

    def of(self, address: Term, root: Term) -> Interval | None:
        """The range of an address relative to a leaf, over all threads and iterations; None if unknown."""
        found = evaluate(address, self._from(root), self._distances.setdefault(root, {}))
        is_known = found is not None and found.roots == 1 and found.added.low > -FAR and found.added.high < FAR
        return found.added if found is not None and is_known else None

    def interval(self, term: Term) -> Interval:
        """The unsigned range of a term."""
        return evaluate(term, intervals(self._given), self._intervals) or Interval(*term.bounds)

    def _given(self, term: Term) -> Interval | None:
        """The range of a term that follows from thread indices and rings."""
        numbers = self._thread_block.vector(term) or (self._rounds.numbers(term) if self._rounds.is_all(term) else None)
        return hull(numbers) if numbers else None

    def _signed(self, term: Term) -> Interval:
        """The signed range of a sum."""
        numbers = self._thread_block.vector(term) or (self._rounds.numbers(term) if self._rounds.is_all(term) else None)
        if numbers:
            return hull([signed(number, term.width) for number in set(numbers)])
        self.interval(term)
        return total(term, self._intervals)

    # --- from a root

    def _from(self, root: Term) -> Domain[_Distance]:
        """The domain of distances from a root."""

        def needs(at: Term, found: Mapping[Term, _Distance | None]) -> Sequence[Term]:
            if at is root or root not in at.leaves():
                return NONE
            if at.operator == SUM:
                return [atom for atom, _ in at.parts if root in atom.leaves()]
            if _is_converted(at):
                return at.args
            if at.operator in ("select", "join"):
                return _arms(at)
            cut = self._cut(at)
            return cut[:1] if cut is not None else NONE

        def value(at: Term, found: Mapping[Term, _Distance | None]) -> _Distance | None:
            if at is root:
                return _Distance(1, just(0))
            if root not in at.leaves():
                return _Distance(0, self.interval(at))
            if at.operator == SUM:
                return self._sum(at, root, found)
            if _is_converted(at):
                return found[at.args[0]]
            if at.operator in ("select", "join"):
                arms = [found[arm] for arm in _arms(at)]
                known = [arm.added for arm in arms if arm is not None and arm.roots == 1]
                return _Distance(1, union(known)) if known and len(known) == len(arms) else None
            cut = self._cut(at)
            return None if cut is None else _rounded(found[cut[0]], cut[1], root)

        return Domain(value, needs)

    def _cut(self, term: Term) -> tuple[Term, int] | None:
        """The address whose lower bits are swizzled or cleared, and the maximum of those bits."""
        if term.operator in ("and", "or", "xor"):
            for one, other in (term.args, term.args[::-1]):
                most = (other.constant or 0) ^ (1 << term.width) - 1 if term.operator == "and" else self.interval(other).high
                if most < 1 << MOST_CUT:
                    return one, most
        return None

    def _sum(self, term: Term, root: Term, found: Mapping[Term, _Distance | None]) -> _Distance | None:
        count = 0
        added = just(signed(term.offset, term.width))
        # thread-dependent parts are summed together, and so are ring indices
        by_thread = by_iteration = self._terms.constant(0, term.width)
        for atom, factor in term.parts:
            scaled = self._terms.scale(atom, factor)
            if root in atom.leaves():
                part = found[atom]
                if part is None:
                    return None
                times = signed(factor, term.width)
                count, added = count + times * part.roots, added.plus(part.added.times(times))
            elif self._thread_block.vector(atom) is not None:
                by_thread = self._terms.add(by_thread, scaled)
            else:
                by_iteration = self._terms.add(by_iteration, scaled)
        return _Distance(count, added.plus(self._signed(by_thread)).plus(self._signed(by_iteration)))


def _is_converted(term: Term) -> bool:
    return term.operator in ("zext", "trunc") and min(term.width, term.args[0].width) >= ADDRESS_BITS


def _arms(term: Term) -> tuple[Term, ...]:
    return term.args[1:] if term.operator == "select" else term.args


def _rounded(found: _Distance | None, most: int, root: Term) -> _Distance | None:
    """An address whose bits up to this number are replaced."""
    if found is None or found.roots != 1:
        return None
    step = 1 << most.bit_length()
    if root.alignment and root.alignment < step:
        return _Distance(1, Interval(found.added.low - most, found.added.high + most))
    # the bits above stay the same: the range is rounded outwards to multiples of the step
    return _Distance(1, Interval(found.added.low // step * step, found.added.high // step * step + step - 1))


@fact
def extents(routine: Routine) -> Extents:
    """The ranges of addresses in a function."""
    return Extents(routine)
