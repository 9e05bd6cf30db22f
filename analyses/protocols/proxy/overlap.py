"""How certain it is that two accesses to shared memory through different proxies overlap.

Addresses are compared in the first stage of every ring, for all threads of a CTA.
"""

from __future__ import annotations

import enum
from bisect import bisect_right

import attrs

from ptxkit.analyses.cfg.paths import between, comes_to
from ptxkit.analyses.events.descriptors import descriptors
from ptxkit.analyses.events.effects import Action, effects
from ptxkit.analyses.events.steps import LEAST_BYTES
from ptxkit.analyses.framework.bindings import bindings
from ptxkit.analyses.framework.routine import Routine, fact
from ptxkit.analyses.launch.launch import WARP
from ptxkit.analyses.numbers.arithmetic import signed
from ptxkit.analyses.protocols.proxy.accesses import MOST_BYTES, ProxyAccess, async_writes, generic_accesses, proxy_fences
from ptxkit.analyses.symbolic.evaluate import Domain
from ptxkit.analyses.symbolic.extents import extents
from ptxkit.analyses.symbolic.terms import Parts, Term, Terms
from ptxkit.analyses.symbolic.thread_block import ThreadBlock, Vector, thread_block_of
from ptxkit.analyses.symbolic.values import values
from ptxkit.analyses.uniformity.broadcasts import HandedOut, handed_out
from ptxkit.analyses.uniformity.uniformity import uniformity
from ptxkit.frozen import frozen
from ptxkit.isa.binding import Bound

TILE_BYTES = 1 << 10
"""Assumed alignment of matrices in bytes, where it matters."""


class Meeting(enum.Enum):
    """How certain it is that two accesses overlap."""

    CERTAIN = "certain"
    LIKELY = "likely"
    """They are to the same variable."""
    POSSIBLE = "possible"
    """They start from the same address, in memory that the program partitions itself."""


def start_of(routine: Routine, one_access: ProxyAccess, address: Term) -> Term | None:
    """The leaf of an address that is the base of the access."""
    known, root = values(routine), one_access.root
    return next((leaf for leaf in address.leaves() if leaf is root or (leaf.operator == "address" and known.symbol(leaf) is root)), None)


def overlap(routine: Routine, one: ProxyAccess, other: ProxyAccess, reach: int = MOST_BYTES) -> Meeting | None:
    """Whether both access the same bytes, if the later one has at most `reach` bytes; None if they do not."""
    found = {_meet_at(routine, one, other, at, to, reach) for at in one.addresses for to in other.addresses}
    return next((meeting for meeting in Meeting if meeting in found), None)


def _meet_at(routine: Routine, one: ProxyAccess, other: ProxyAccess, at: Term, to: Term, reach: int) -> Meeting | None:
    """Whether both access the same bytes at these addresses."""
    writes, reads = address_range(routine, one, at), address_range(routine, other, to)
    if writes is not None and reads is not None and at.width == to.width:
        # most are far apart for all threads
        if writes[1] - reads[0] <= -one.bytes or writes[0] - reads[1] >= max(other.bytes, reach):
            return None
    is_usual = one.is_async and other.is_tensor and _is_unfenced_by_convention(routine, one.instruction, other.instruction)
    apart = _difference(routine, at, to) if at.width == to.width else None
    numbers = _spread(routine, one, *apart, thread_block_of(routine)) if apart is not None else None
    if numbers is not None:
        # the read has at least this size, but only its start is known
        if numbers.has_between(-one.bytes, other.bytes):
            return Meeting.POSSIBLE if is_usual else Meeting.CERTAIN if one.is_sure and other.is_sure else Meeting.LIKELY
        return Meeting.POSSIBLE if numbers.has_between(0, reach) else None
    if apart is not None and not _is_near(values(routine).terms.sub(at, to), reach):
        return None
    if apart is not None and not is_usual:
        first = _spread(routine, one, *apart, _first(routine))
        if first is not None and first.has_between(-one.bytes, other.bytes):
            return Meeting.LIKELY
    # the program partitions memory of undeclared size itself
    is_shared_out = isinstance(one.root, Term) or one.root.is_open_ended or None in one.root.dimensions
    return Meeting.POSSIBLE if is_usual or is_shared_out else Meeting.LIKELY


def address_range(routine: Routine, one_access: ProxyAccess, address: Term) -> tuple[int, int] | None:
    """The minimum and maximum offset of an address from its base, over all threads; None if unknown."""
    found, key = _spans(routine), (address, id(one_access.root))
    if key not in found:
        root = start_of(routine, one_access, address)
        found[key] = extents(routine).of(address, root) if root is not None else None
    return found[key]


@fact
def _spans(routine: Routine) -> dict[tuple[Term, int], tuple[int, int] | None]:
    return {}


@frozen
class _Spread:
    """The sorted distinct values of a term in some threads, all shifted by `offset`."""

    numbers: tuple[int, ...]
    offset: int = 0

    def has_between(self, low: int, high: int) -> bool:
        """Whether a value lies strictly between two numbers."""
        at = bisect_right(self.numbers, low - self.offset)
        return at < len(self.numbers) and self.numbers[at] + self.offset < high


def _difference(routine: Routine, at: Term, to: Term) -> tuple[Term, int]:
    """The distance between two addresses: a term without a constant, and a number.

    Many addresses in a ring or tile differ only by a constant; their common part is analysed once.
    """
    known, terms = _differences(routine), values(routine).terms
    (offset, parts), (other, others) = at.linear, to.linear
    key = (at.width, parts, others)
    if key not in known:
        known[key] = _in_two(terms, terms.sub(_in_two(terms, at)[0], _in_two(terms, to)[0]))
    base, more = known[key]
    return base, signed(more + offset - other & (1 << at.width) - 1, at.width)


@fact
def _differences(routine: Routine) -> dict[tuple[int, Parts, Parts], tuple[Term, int]]:
    return {}


def _in_two(terms: Terms, term: Term) -> tuple[Term, int]:
    """Splits a term into one without a constant, and a number."""
    offset = signed(term.linear[0], term.width)
    return terms.sub(term, terms.constant(offset, term.width)), offset


def _spread(routine: Routine, one_access: ProxyAccess, base: Term, offset: int, block_shape: ThreadBlock) -> _Spread | None:
    """The values of a term plus a number in the threads that may execute an access; None if unknown."""
    reach = uniformity(routine).reach
    comes = reach.instruction(one_access.instruction).ever if reach.template.has_indices else -1
    known, key = _spreads(routine), (base, comes, block_shape is thread_block_of(routine))
    if key not in known:
        known[key] = _numbers_of(base, comes if reach.template.count == block_shape.size else -1, block_shape)
    numbers = known[key]
    if not numbers:
        return _Spread(()) if numbers is not None else None
    if max(abs(offset), -numbers[0], numbers[-1]) < 1 << (base.width - 2):
        return _Spread(numbers, offset)
    return _Spread(tuple(sorted({signed(number + offset & (1 << base.width) - 1, base.width) for number in numbers})))


@fact
def _spreads(routine: Routine) -> dict[tuple[Term, int, bool], tuple[int, ...] | None]:
    return {}


def _numbers_of(term: Term, comes: int, block_shape: ThreadBlock) -> tuple[int, ...] | None:
    """The values of a term in a set of threads."""
    vector = block_shape.vector(term)
    if vector is None:
        return None
    found = set(vector)
    if len(found) > 1 and comes >= 0 and comes.bit_count() < len(vector):
        found = {number for thread, number in enumerate(vector) if comes >> thread & 1}
    return tuple(sorted([signed(number, term.width) for number in found]))


def is_filled(routine: Routine, read: ProxyAccess, write: ProxyAccess) -> bool:
    """Whether tensor cores read from where a copy through the async proxy fills memory. A generic write there is then from another time."""
    start_, least = _first_start(routine, read), _first_start(routine, write)
    if not read.is_tensor or start_ is None or least is None:
        return False
    fills = _filled(routine).get(id(read.root), ())
    return any(least // TILE_BYTES <= fill // TILE_BYTES and 0 <= start_ - fill < MOST_BYTES for fill in fills)


@fact
def _filled(routine: Routine) -> dict[int, list[int]]:
    """For each base, the offsets at which copies through the async proxy fill memory."""
    found: dict[int, list[int]] = {}
    for fill in async_writes(routine):
        first = _first_start(routine, fill)
        if first is not None:
            found.setdefault(id(fill.root), []).append(first)
    return found


def _first_start(routine: Routine, one_access: ProxyAccess) -> int | None:
    """The first byte of an access relative to its base, in the first stage of every ring."""
    ends = first_ends(routine, one_access)
    return ends[0] if ends is not None else None


def first_ends(routine: Routine, one_access: ProxyAccess) -> tuple[int, int] | None:
    """The first and last address of an access relative to its base, in the first stage of every ring."""
    known = _first_ends(routine)
    if one_access.addresses not in known:
        parts = [_in_two(values(routine).terms, address) for address in one_access.addresses]
        found = [_spread(routine, one_access, *part, _first(routine)) for part in parts]
        ends = [end + own.offset for own in found if own is not None and own.numbers for end in (own.numbers[0], own.numbers[-1])]
        known[one_access.addresses] = (min(ends), max(ends)) if ends else None
    return known[one_access.addresses]


@fact
def _first_ends(routine: Routine) -> dict[tuple[Term, ...], tuple[int, int] | None]:
    return {}


class _First(ThreadBlock):
    """Evaluates terms with all ring indices and memory bases at 0: the first stage of every ring."""

    def __init__(self, block_shape: ThreadBlock, sources: HandedOut) -> None:
        super().__init__(block_shape.shape, block_shape.is_assumed)
        self._sources = sources

    def _domain(self) -> Domain[Vector]:
        lanes = super()._domain()
        return attrs.evolve(lanes, value=lambda at, found: lanes.value(at, found) or (0,) * self.size)

    def _leaf(self, leaf: Term) -> Vector | None:
        source = self._sources.of(leaf) if leaf.operator == "value" else None
        if source is None:
            return super()._leaf(leaf)
        held = self.vector(source[0])
        lanes = [thread - thread % WARP + source[1] for thread in range(self.size)]
        return tuple([held[lane] for lane in lanes]) if held is not None and max(lanes) < self.size else None


@fact
def _first(routine: Routine) -> _First:
    return _First(thread_block_of(routine), handed_out(routine))


def _is_unfenced_by_convention(routine: Routine, copy: int, product: int) -> bool:
    """Whether existing code commonly omits the fence between this `cp.async` and the tensor cores that read its data.

    This is so if the copies themselves signal completion, or other warps start the MMA; and for MMAs that whole warps start, unless the
    function fences some of them.
    """
    if _copies_arrive(routine) or not comes_to(routine, copy, product):
        return True
    bound = bindings(routine)[product]
    return isinstance(bound, Bound) and bound.converges is not None and not _fences_copies(routine)


@fact
def _copies_arrive(routine: Routine) -> bool:
    """Whether copies arrive at an mbarrier on completion."""
    return any(effect.action is Action.SIGNAL for own in effects(routine).values() for effect in own)


@fact
def _fences_copies(routine: Routine) -> bool:
    """Whether a function fences `cp.async` data before tensor cores read it."""
    writes = [one_access.instruction for one_access in generic_accesses(routine, "write") if one_access.is_async]
    reads = {i for i, _ in descriptors(routine)}
    return any(between(routine, write, read, proxy_fences(routine)) for write in writes[:1] for read in sorted(reads)[:1])


def _is_near(apart: Term, reach: int) -> bool:
    """Whether a write may be within `reach` bytes from the start of a read."""
    least, most = apart.signed_bounds
    return least < reach and most > -LEAST_BYTES
