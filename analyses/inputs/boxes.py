"""Boxes of tensor maps: such that a copy brings the bytes that its mbarrier is made to expect (9.7.9.25.5, 9.7.14.15.9)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from ptxkit.analyses.events.steps import Does, steps
from ptxkit.analyses.framework.bindings import bindings
from ptxkit.analyses.framework.routine import Routine, fact
from ptxkit.analyses.inputs.shapes import cluster_of
from ptxkit.analyses.memory.accesses import accesses, locate, size_of
from ptxkit.analyses.symbolic.terms import Term
from ptxkit.analyses.symbolic.values import Values, values
from ptxkit.frozen import frozen
from ptxkit.isa.binding import Bound
from ptxkit.isa.types import types
from ptxkit.names import Symbol

ROW = 128
"""Bytes of a row: what the widest swizzle takes."""
USUAL, LEAST = 8 * ROW, 16
"""Bytes of a box of which nothing is known, and of the smallest."""
MOST = 256
"""The longest side of a box, in elements."""
MOST_BYTES = 1 << 20
"""More than any box has."""
TYPES = {2: ".f16", 4: ".f32", 8: ".f64", 1: ".u8"}


def is_guessed(routine: Routine) -> bool:
    """Whether what a copy with some map of a kernel brings had to be guessed: several share the bytes that are expected, and the kernel
    does not say how."""
    return any(known[2] is None for known in _known(routine).values())


def box_of(routine: Routine, name: str, rank: int, small: bool = False) -> tuple[str, tuple[int, ...]]:
    """The type and the box of a map that is a parameter, the dimension that varies fastest last.

    The box of a copy that no mbarrier waits for is as large as the variable it copies from. If it is to be `small`, it is the smallest.
    """
    known = _known(routine).get(name)
    size, element, is_expected = known if known is not None else (USUAL, 2, False)
    if small and is_expected is False:
        size = LEAST
    return TYPES[element], split(size // element, rank, ROW // element)


def split(elements: int, rank: int, row: int = 64) -> tuple[int, ...]:
    """A box of so many elements in rows of `row`, or of fewer where these are not whole; no side is longer than 256."""
    if rank > 1:
        row = next((width for width in (row, row // 2, row // 4, row // 8) if width and elements % width == 0), min(elements, MOST))
    else:
        row = min(elements, MOST)
    sides, rest = [row], max(1, elements // row)
    for _ in range(rank - 1):
        side = next(side for side in range(min(MOST, rest), 0, -1) if rest % side == 0)
        sides.insert(0, side)
        rest //= side
    return tuple(sides)


@fact
def _known(routine: Routine) -> dict[str, tuple[int, int, bool | None]]:
    """By parameter, how many bytes a copy with it has, of how many an element is, and whether an mbarrier expects them (None: they
    had to be guessed).

    What the expectations and the addresses do not say is shared out as the variables are large that the bytes go to.
    """
    known = values(routine)
    room: dict[str, Symbol | None] = {}
    for own in steps(routine).values():
        for step in own:
            if step.does is Does.COPY and step.map is not None and step.target is not None:
                room[_name(step.map)] = locate(known, step.target).symbol
    solved = _solved(routine)
    expecting = [step.amount for own in steps(routine).values() for step in own if step.does is Does.EXPECT]
    amounts = {amount.constant or 0 for amount in expecting if amount is not None}
    expected = max(amounts, default=0)
    found: dict[str, tuple[int, int, bool | None]] = {}
    sizes = {name: (size_of(symbol) if symbol is not None else 0) or 0 for name, symbol in room.items()}
    for name, symbol in room.items() if expected else ():
        if name in solved:
            found[name] = (solved[name], _element(routine, symbol), True)
            continue
        share = expected * sizes[name] // sum(sizes.values()) if all(sizes.values()) else expected // len(room)
        apart = len(room) == 1 or (all(sizes.values()) and len(set(map(id, room.values()))) == len(room))
        found[name] = (share, _element(routine, symbol), True if apart and len(amounts) == 1 else None)
    for name, symbol in _sources(routine, known).items():
        size = size_of(symbol) or 0
        if name not in found and size:
            # what is stored is as large as what is loaded, if anything is
            found[name] = (max((known[0] for known in found.values()), default=size), _element(routine, symbol), False)
    return found


@frozen
class _Copy:
    """A copy with a tensor map: the map, where it writes, and in how many CTAs."""

    map: str
    target: Term
    ctas: int = 1


Phase = tuple[int, tuple[_Copy, ...]]
"""Bytes that are expected of an mbarrier, and the copies that bring them."""


def _solved(routine: Routine) -> dict[str, int]:
    """By map, the bytes of a copy, where those of all copies with it add up to what is expected for their phases.

    A map that has a phase for itself has what is expected there. Else it has what lies between where copies with it write and where the
    next one does, be it another one of the phase or of the next stage, if that adds up.
    """
    phases = _phases(routine)
    known: dict[str, int] = {}
    room, gaps = _room([copy for _, copies in phases for copy in copies])
    before = -1
    while before < len(known):
        before = len(known)
        for expected, copies in phases:
            left = list({copy.map: None for copy in copies if copy.map not in known})
            if len(left) > 1:
                sized = {**room, **known}
                if all(copy.map in sized for copy in copies) and _adds_up(expected, copies, sized):
                    known.update({name: room[name] for name in left})
                    continue
                # what is left is of the one that nothing follows
                left = [name for name in left if name not in gaps]
            if len(left) == 1:
                sized = {**gaps, **known, left[0]: 0}
                others = sum([sized[copy.map] * copy.ctas for copy in copies])
                times = sum([copy.ctas for copy in copies if copy.map == left[0]])
                if expected > others and (expected - others) % times == 0:
                    known.update({copy.map: sized[copy.map] for copy in copies})
                    known[left[0]] = (expected - others) // times
    wrong = {copy.map for expected, copies in phases if not _adds_up(expected, copies, known) for copy in copies}
    return {name: size for name, size in known.items() if name not in wrong}


def _adds_up(expected: int, copies: Iterable[_Copy], known: Mapping[str, int]) -> bool:
    """Whether copies bring what is expected; the two CTAs of a pair may bring half of it each (9.7.16.2.1)."""
    return sum([known.get(copy.map, 0) * copy.ctas for copy in copies]) in (expected, expected // 2)


def _room(copies: Iterable[_Copy]) -> tuple[dict[str, int], dict[str, int]]:
    """By map, the least number of bytes from where a copy with it writes to where the next one does, or the same one in another stage; and
    only of those that a next one follows."""
    starts: dict[object, set[int]] = {}
    for copy in copies:
        offset, parts = copy.target.linear
        starts.setdefault(parts, set()).add(offset)
    room: dict[str, int] = {}
    gaps: dict[str, int] = {}
    for copy in copies:
        offset, parts = copy.target.linear
        own = [start - offset for start in starts[parts] if start > offset]
        strides = [abs(factor) for _, factor in parts if abs(factor) >= LEAST]
        for found, sizes in ((room, (*own, *strides)), (gaps, own)):
            if sizes:
                found[copy.map] = min(found.get(copy.map, MOST_BYTES), *sizes)
    return room, gaps


def _phases(routine: Routine) -> tuple[Phase, ...]:
    """The copies with tensor maps into shared memory, by what is expected of their mbarrier before them, or, where it says that after
    copying, after them; those for which that is a number."""
    expected: dict[Term, list[tuple[int, int, list[_Copy]]]] = {}
    own = sorted([step for several in steps(routine).values() for step in several], key=lambda step: step.instruction)
    for step in own:
        if step.does is Does.EXPECT and step.address is not None and step.amount is not None and step.amount.constant:
            expected.setdefault(_of_pair(step.address), []).append((step.instruction, step.amount.constant, []))
    ctas = math.prod(cluster_of(routine) or (1, 1, 1))
    is_first: dict[Term, bool] = {}
    for step in own:
        if step.does is not Does.COPY or step.map is None or step.target is None or step.address is None:
            continue
        phases = expected.get(_of_pair(step.address), [])
        before = [phase for phase in phases if phase[0] < step.instruction]
        after = [phase for phase in phases if phase[0] > step.instruction]
        expects_first = is_first.setdefault(_of_pair(step.address), bool(before))
        if before if expects_first else after:
            chosen = before[-1] if expects_first else after[0]
            chosen[2].append(_Copy(_name(step.map), step.target, ctas if step.is_multicast else 1))
    return tuple([(amount, tuple(copies)) for phases in expected.values() for _, amount, copies in phases if copies])


def _of_pair(mbarrier: Term) -> Term:
    """An mbarrier of which the bit is cleared that tells the CTAs of a pair apart: as that of its own CTA."""
    return mbarrier.args[0] if mbarrier.operator == "and" and mbarrier.args[1].constant else mbarrier


def _name(map_: Term) -> str:
    return next((str(leaf.data[0]) for leaf in map_.leaves() if leaf.operator == "address"), "")


def _sources(routine: Routine, known: Values) -> dict[str, Symbol]:
    """By parameter, the variable in shared memory that copies with it are from, where they always begin at the same address."""
    maps = {one.instruction: _name(one.address) for one in accesses(routine) if one.memory.proxy == "tensormap" and one.address is not None}
    found: dict[str, Symbol] = {}
    for one in accesses(routine):
        if one.instruction in maps and one.memory.is_async and one.memory.access == "read" and one.where is not None:
            symbol = one.where.symbol
            if symbol is not None and one.where.address.offset.constant is not None and one.space == ".shared":
                found[maps[one.instruction]] = symbol
    return found


def _element(routine: Routine, symbol: Symbol | None) -> int:
    """Bytes of an element of a variable, by the types that it is accessed with; 2 where none tells."""
    bounds = bindings(routine)
    for one in accesses(routine):
        bound = bounds[one.instruction]
        if (
            symbol is not None
            and one.where is not None
            and one.where.symbol is symbol
            and isinstance(bound, Bound)
            and bound.type in types()
        ):
            size = types()[bound.type].bytes
            if bound.type.startswith((".f", ".s", ".u")) and size in TYPES and not one.memory.is_async:
                return size
    return 2
