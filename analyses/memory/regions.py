"""Regions of shared memory that threads access, and whether two accesses overlap.

A region is a variable, an offset common to all threads, and an offset for each thread. Two regions are compared only if the variable and
the common offset are equal; the result is then certain.
"""

from __future__ import annotations

from bisect import bisect_right

from ptxkit.analyses.framework.routine import Routine, fact
from ptxkit.analyses.launch.launch import WARP
from ptxkit.analyses.memory.accesses import Location, locate
from ptxkit.analyses.memory.address import Address
from ptxkit.analyses.numbers.arithmetic import signed
from ptxkit.analyses.numbers.bits import bits
from ptxkit.analyses.symbolic.terms import Term
from ptxkit.analyses.symbolic.thread_block import ThreadBlock, Vector, thread_block_of
from ptxkit.analyses.symbolic.values import Values, values
from ptxkit.frozen import frozen
from ptxkit.names import Symbol

Base = Address[object, Term]
"""The variable, and the part of the offset that does not depend on the thread index."""
BITS = 32
"""Width of offsets within a variable, in bits."""


@frozen(eq=False)
class Region:
    """What threads access: `bytes` each, from their own offset."""

    base: Base
    moving: Term
    """The part of the offset that depends on the thread index, without the constant."""
    offset: int
    bytes: int
    threads: int
    """The accessing threads, as bits."""
    is_common: bool
    """Whether the base is certainly equal for all threads."""

    def by(self, threads: int) -> Region:
        """The same region for other threads."""
        return Region(self.base, self.moving, self.offset, self.bytes, threads, self.is_common) if threads != self.threads else self

    @property
    def key(self) -> tuple[object, ...]:
        """Equal for identical regions."""
        return (self.base, self.moving, self.offset, self.bytes, self.threads)


@frozen(eq=False)
class _Spread:
    """The starts of the threads' accesses, ascending, with the threads."""

    starts: tuple[int, ...]
    threads: tuple[int, ...]


class Regions:
    """Creates and compares the regions of a function."""

    def __init__(self, known: Values, block_shape: ThreadBlock) -> None:
        self.values = known
        self.thread_block = block_shape
        self._parts: dict[Term, tuple[Base, Term, int, bool] | None] = {}
        self._placed: dict[Term, bool] = {}
        self._common: dict[Term, bool] = {}
        self._spreads: dict[tuple[Term, int], _Spread] = {}
        self._vectors: dict[Term, Vector] = {}
        self._ends: dict[Term, tuple[int, int]] = {}
        self._meetings: dict[tuple[object, ...], tuple[int, int] | None] = {}

    def region(self, address: Term, size: int, threads: int, lanes: int = 0) -> Region | None:
        """The `size` bytes at an address, for each of these threads; if `lanes` is not 0, only for the first `lanes` of each warp.

        None if the address is not that of a variable.
        """
        if address not in self._parts:
            self._parts[address] = self._taken_apart(address)
        parts = self._parts[address]
        if parts is None or size <= 0:
            return None
        base, moving, offset, is_common = parts
        if lanes and lanes < WARP:
            threads &= _first_lanes(lanes, self.thread_block.size)
        return Region(base, moving, offset, size, threads, is_common) if threads else None

    def _taken_apart(self, address: Term) -> tuple[Base, Term, int, bool] | None:
        where: Location = locate(self.values, address)
        owner = where.symbol or _rounded(self.values, address)
        if owner is None:
            return None
        terms = self.values.terms
        whole = terms.extend(where.offset, BITS, False)
        offset = whole.linear[0]
        moving, fixed = terms.split(whole, self._is_placed)
        symbol = (owner.name, owner.path)
        is_common = all(self._is_common(atom) for atom, _ in fixed.linear[1])
        return Address(symbol, fixed), moving, signed(offset, BITS), is_common

    def _is_placed(self, atom: Term) -> bool:
        """Whether a value depends only on the thread index."""
        found = self._placed.get(atom)
        if found is None:
            found = all(leaf.operator == "special" for leaf in atom.leaves()) and self.thread_block.vector(atom) is not None
            self._placed[atom] = found
        return found

    def _is_common(self, atom: Term) -> bool:
        found = self._common.get(atom)
        if found is None:
            found = all(
                leaf.operator in ("parameter", "address")
                or (leaf.operator == "special" and leaf.name.startswith(("%ctaid", "%nctaid", "%ntid", "%cluster", "%ncluster")))
                for leaf in atom.leaves()
            )
            self._common[atom] = found
        return found

    def are_apart(self, a: Region, b: Region) -> bool:
        """Whether two regions with the same base are disjoint for all threads."""
        (low, high), (first, last) = self._ends_of(a.moving), self._ends_of(b.moving)
        distance = b.offset - a.offset
        return high + a.bytes <= first + distance or last + distance + b.bytes <= low

    def _ends_of(self, moving: Term) -> tuple[int, int]:
        """The minimum and maximum start over all threads."""
        found = self._ends.get(moving)
        if found is None:
            offsets = self._offsets(moving)
            found = self._ends[moving] = min(offsets), max(offsets)
        return found

    def overlap(self, a: Region, b: Region, others: bool | None = None) -> tuple[int, int] | None:
        """A thread of `a` and one of `b` that access a common byte; None if there are none, or if it is uncertain.

        `others`: only two different threads, or only one and the same.
        """
        if a.base != b.base:
            return None
        if not (a.is_common and b.is_common):
            if others:
                return None
            others = False
        distance = b.offset - a.offset
        key = (a.moving, a.bytes, a.threads, b.moving, b.bytes, b.threads, distance, others)
        if key not in self._meetings:
            self._meetings[key] = self._meet(a, b, distance, others)
        return self._meetings[key]

    def meet_between_warps(self, a: Region, b: Region) -> tuple[int, int] | None:
        """A thread of `a` and one of `b` in another warp that access a common byte; None if there are none, or if it is uncertain."""
        if a.base != b.base or not (a.is_common and b.is_common):
            return None
        key = (a.moving, a.bytes, a.threads, b.moving, b.bytes, b.threads, b.offset - a.offset, "warps")
        if key not in self._meetings:
            self._meetings[key] = self._meet_between_warps(a, b)
        return self._meetings[key]

    def _meet_between_warps(self, a: Region, b: Region) -> tuple[int, int] | None:
        for first in range(0, self.thread_block.size, WARP):
            own = ((1 << WARP) - 1) << first
            if b.threads & own and a.threads & ~own:
                threads = self.overlap(a.by(a.threads & ~own), b.by(b.threads & own), True)
                if threads is not None:
                    return threads
        return None

    def _meet(self, a: Region, b: Region, distance: int, others: bool | None) -> tuple[int, int] | None:
        if others is False:
            return self._meet_self(a, b, distance)
        one, two = self._spread(a), self._spread(b)
        first, last = two.starts[0] + distance, two.starts[-1] + distance + b.bytes
        if first >= one.starts[-1] + a.bytes or last <= one.starts[0]:
            return None
        for start, thread in zip(two.starts, two.threads, strict=True):
            at = bisect_right(one.starts, start + distance - a.bytes)
            while at < len(one.starts) and one.starts[at] < start + distance + b.bytes:
                if others is None or one.threads[at] != thread:
                    return one.threads[at], thread
                at += 1
        return None

    def _meet_self(self, a: Region, b: Region, distance: int) -> tuple[int, int] | None:
        one, two = self._offsets(a.moving), self._offsets(b.moving)
        for thread in bits(a.threads & b.threads):
            apart = two[thread] + distance - one[thread]
            if -b.bytes < apart < a.bytes:
                return thread, thread
        return None

    def _spread(self, region: Region) -> _Spread:
        key = (region.moving, region.threads)
        found = self._spreads.get(key)
        if found is None:
            offsets = self._offsets(region.moving)
            pairs = sorted([(offsets[thread], thread) for thread in bits(region.threads)])
            # of threads with the same access, two suffice to find two that differ
            kept = [pair for locate, pair in enumerate(pairs) if locate < 2 or pair[0] != pairs[locate - 2][0]]
            found = self._spreads[key] = _Spread(tuple([start for start, _ in kept]), tuple([thread for _, thread in kept]))
        return found

    def _offsets(self, moving: Term) -> Vector:
        found = self._vectors.get(moving)
        if found is None:
            vector = self.thread_block.vector(moving)
            assert vector is not None
            found = self._vectors[moving] = tuple([signed(number, moving.width) for number in vector])
        return found


def _rounded(known: Values, address: Term) -> Symbol | None:
    """The variable on which an address is based after rounding up: its distance from the start is unknown."""
    for atom, factor in address.linear[1]:
        if factor == 1 and atom.operator == "and" and atom.args[1].constant is not None:
            bases = [leaf for leaf in atom.args[0].leaves() if leaf.operator == "address"]
            if len(bases) == 1 and atom.args[0].linear[1] == ((bases[0], 1),):
                return known.symbol(bases[0])
    return None


def _first_lanes(lanes: int, size: int) -> int:
    one = (1 << lanes) - 1
    found = 0
    for first in range(0, size, WARP):
        found |= one << first
    return found & ((1 << size) - 1)


@fact
def regions(routine: Routine) -> Regions:
    """The regions of a function."""
    return Regions(values(routine), thread_block_of(routine))
