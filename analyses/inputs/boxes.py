"""Boxes of tensor maps: such that a copy brings the bytes that its mbarrier is made to expect (9.7.9.25.5, 9.7.14.15.9)."""

from __future__ import annotations

from ptxkit.analyses.events.steps import Does, steps
from ptxkit.analyses.framework.bindings import bindings
from ptxkit.analyses.framework.routine import Routine, fact
from ptxkit.analyses.memory.accesses import accesses, locate, size_of
from ptxkit.analyses.symbolic.terms import Term
from ptxkit.analyses.symbolic.values import Values, values
from ptxkit.isa.binding import Bound
from ptxkit.isa.types import types
from ptxkit.names import Symbol

ROW = 128
"""Bytes of a row: what the widest swizzle takes."""
USUAL, LEAST = 8 * ROW, 16
"""Bytes of a box of which nothing is known, and of the smallest."""
MOST = 256
"""The longest side of a box, in elements."""
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

    Those that are expected are shared out as the variables are large that they go to.
    """
    known = values(routine)
    room: dict[str, Symbol | None] = {}
    for own in steps(routine).values():
        for step in own:
            if step.does is Does.COPY and step.map is not None and step.target is not None:
                room[_name(step.map)] = locate(known, step.target).symbol
    expecting = [step.amount for own in steps(routine).values() for step in own if step.does is Does.EXPECT]
    amounts = {amount.constant or 0 for amount in expecting if amount is not None}
    expected = max(amounts, default=0)
    found: dict[str, tuple[int, int, bool | None]] = {}
    sizes = {name: (size_of(symbol) if symbol is not None else 0) or 0 for name, symbol in room.items()}
    for name, symbol in room.items() if expected else ():
        share = expected * sizes[name] // sum(sizes.values()) if all(sizes.values()) else expected // len(room)
        apart = len(room) == 1 or (all(sizes.values()) and len(set(map(id, room.values()))) == len(room))
        found[name] = (share, _element(routine, symbol), True if apart and len(amounts) == 1 else None)
    for name, symbol in _sources(routine, known).items():
        size = size_of(symbol) or 0
        if name not in found and size:
            # what is stored is as large as what is loaded, if anything is
            found[name] = (max((known[0] for known in found.values()), default=size), _element(routine, symbol), False)
    return found


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
