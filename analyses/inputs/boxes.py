"""Boxes of tensor maps, chosen so that each copy transfers the bytes that its mbarrier expects (9.7.9.25.5, 9.7.14.15.9)."""

from __future__ import annotations

from ptxkit.analyses.events.steps import Does, steps
from ptxkit.analyses.framework.bindings import bindings
from ptxkit.analyses.framework.routine import Routine, fact
from ptxkit.analyses.inputs.example import MapName
from ptxkit.analyses.inputs.parameters import are_many, belong_together, location_of, parameters
from ptxkit.analyses.launch.launch import cluster_size
from ptxkit.analyses.memory.accesses import accesses, locate, size_of
from ptxkit.analyses.symbolic.terms import Term
from ptxkit.analyses.symbolic.values import Values, values
from ptxkit.frozen import frozen
from ptxkit.isa.binding import Bound
from ptxkit.isa.types import types
from ptxkit.names import Symbol

ROW = 128
"""Bytes of a row, as in the widest swizzle mode."""
USUAL, LEAST = 8 * ROW, 16
"""Size in bytes of a box of which nothing is known, and of the smallest box."""
MOST = 256
"""Longest side of a box in elements."""
GATHERED = 4
"""Rows that a copy in `.tile::gather4` mode transfers."""
TYPES = {2: ".f16", 4: ".f32", 8: ".f64", 1: ".u8"}


def is_argued_guess(routine: Routine) -> bool:
    """Whether the size of some box had to be guessed: several boxes share the expect-tx bytes in an unknown proportion, or the kernel
    receives a pointer to the map."""
    return any(known[2] is None for known in _known(routine).values()) or any(
        slot.maps for one in parameters(routine) for slot in one.slots
    )


def box_of(routine: Routine, name: MapName, rank: int, small: bool = False, fits: Fit | None = None) -> tuple[str, tuple[int, ...]]:
    """Type and box of a map, fastest-varying dimension last; `fits` gives its size if that is known.

    The box of a copy that no mbarrier waits for is as large as the variable it copies from, or of the smallest size if `small`.
    """
    known = _known(routine).get(name)
    size, element, is_expected = known if known is not None else (USUAL, 2, False)
    if fits is not None and fits.is_gathered:
        return TYPES[element], (1, max(1, fits.bytes // (GATHERED * element)))
    if fits is not None:
        size = fits.bytes
    elif small and is_expected is False:
        size = LEAST
    return TYPES[element], split(size // element, rank, ROW // element)


@frozen
class Fit:
    """The bytes that a copy with a map transfers. `is_gathered`: as four separate rows of a matrix."""

    bytes: int
    is_gathered: bool = False


def split(elements: int, rank: int, row: int = 64) -> tuple[int, ...]:
    """A box with this many elements in rows of `row`, or of fewer if the elements do not fill whole rows. No side is longer than 256."""
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
def _known(routine: Routine) -> dict[MapName, tuple[int, int, bool | None]]:
    """For each map, the bytes of a copy, the bytes of an element, and whether an mbarrier expects these bytes (None: they had to be
    guessed).

    A copy fills the room before the next copy, if that gives the expect-tx bytes; otherwise these are divided in proportion to the sizes of
    the destination variables, which is a guess: the copies may signal several mbarriers.
    """
    known = values(routine)
    copies = _copies(routine)
    room: dict[MapName, Symbol | None] = {}
    for one in copies:
        room[one.map] = one.symbol
    expecting = [step.amount for own in steps(routine).values() for step in own if step.does is Does.EXPECT]
    amounts = {amount.constant or 0 for amount in expecting if amount is not None}
    expected = max(amounts, default=0)
    found: dict[MapName, tuple[int, int, bool | None]] = {}
    fitting = _fitting(routine, copies, expected, len(expecting)) if len(amounts) == 1 else {}
    sizes = {name: (size_of(symbol) if symbol is not None else 0) or 0 for name, symbol in room.items()}
    # a matching sum proves little if the other synthesized numbers of the launch are inconsistent
    is_apart = bool(fitting) and not (are_many(routine) or belong_together(routine))
    is_apart |= len(room) == 1
    for name, symbol in room.items() if expected else ():
        share = expected * sizes[name] // sum(sizes.values()) if all(sizes.values()) else expected // len(room)
        share -= share % LEAST
        is_sure = is_apart and len(amounts) == 1
        found[name] = (fitting.get(name, share or USUAL), _element(routine, symbol), True if is_sure else None)
    if expecting and not expected:
        # the bytes are computed: what they are a run shows
        found = {name: (USUAL, _element(routine, symbol), None) for name, symbol in room.items()}
    for name, symbol in _sources(routine, known).items():
        size = size_of(symbol) or 0
        if name not in found and size:
            # a store is as large as the loads, if there are any
            found[name] = (max((known[0] for known in found.values()), default=size), _element(routine, symbol), False)
    return found


@frozen(eq=False)
class _Copy:
    """A copy with the tensor map `map` to shared memory, `start` bytes into a variable."""

    map: MapName
    symbol: Symbol | None
    start: int
    strides: tuple[int, ...]
    """Bytes between the destinations of two stages or two CTAs."""
    is_multicast: bool


def _copies(routine: Routine) -> list[_Copy]:
    """The copies through tensor maps to shared memory."""
    known = values(routine)
    found = []
    for own in steps(routine).values():
        for step in own:
            if step.does is Does.COPY and step.map is not None and step.target is not None:
                start, parts = step.target.linear
                strides = {_stride(known, atom, factor) for atom, factor in parts}
                usual = tuple(sorted([stride for stride in strides if stride >= LEAST]))
                symbol = locate(known, step.target).symbol
                found.append(_Copy(_name(known, step.map), symbol, start, usual, step.is_multicast))
    return found


def loaded_maps(routine: Routine) -> frozenset[MapName]:
    """The tensor maps with which the kernel copies to shared memory."""
    return frozenset([one.map for one in _copies(routine)])


def stage_strides(routine: Routine) -> dict[MapName, int]:
    """For each tensor map, the least distance in bytes between the destinations of its boxes in two stages, as far as addresses show
    it."""
    found: dict[MapName, int] = {}
    for one in _copies(routine):
        for stride in one.strides[:1]:
            found[one.map] = min(stride, found.get(one.map, stride))
    return found


def _stride(known: Values, atom: Term, factor: int) -> int:
    """The least change of an address when this term changes; 0 if unknown, or if it never changes: where memory starts, aligned."""
    if all(leaf.operator == "address" for leaf in atom.leaves()):
        return 0
    if atom.operator == "and" and atom.args[1].constant:
        return abs(factor) * (atom.args[1].constant & -atom.args[1].constant)
    if atom.operator == "phi" and atom.ssa_value is not None:
        loop = known.induction(atom.ssa_value)
        return abs(factor * (loop.step or 1)) if loop is not None else abs(factor)
    return abs(factor)


def _fitting(routine: Routine, copies: list[_Copy], expected: int, waits: int) -> dict[MapName, int]:
    """For each map, the bytes before the next copy begins; empty if they do not add up to the expect-tx bytes.

    A stage may have several copies with one map. A multicast copy arrives from each CTA of the cluster, each with its own part.
    """
    by_map: dict[MapName, list[_Copy]] = {}
    for one in copies:
        by_map.setdefault(one.map, []).append(one)
    rooms = {name: min(filter(None, [_room(one, copies) for one in own]), default=0) for name, own in by_map.items()}
    if not all(rooms.values()):
        return {}
    ctas = cluster_size(routine) or 1
    times = {name: max(1, len(own) // waits) for name, own in by_map.items()}
    alone = sum([times[name] * room for name, room in rooms.items()])
    shared = sum([times[name] * room * (ctas if by_map[name][0].is_multicast else 1) for name, room in rooms.items()])
    return rooms if expected in (alone, shared) else {}


def _room(one: _Copy, copies: list[_Copy]) -> int:
    """The most bytes that a copy may have: up to the next stage, the next copy, or the end of the variable; 0 if unknown."""
    size = size_of(one.symbol) if one.symbol is not None else None
    ends = [*one.strides, *([size - one.start] if size and size > one.start else [])]
    for other in copies:
        apart = other.start - one.start
        if other.symbol is not one.symbol or not apart:
            continue
        if one.strides and one.strides == other.strides and apart % one.strides[0]:
            apart %= one.strides[0]
        if apart > 0:
            ends.append(apart)
    return min(ends, default=0)


def _name(known: Values, map_: Term) -> MapName:
    """The parameter that has the map, and the offset of the map in it: a structure may have several."""
    name, offset, _ = location_of(known, map_) or ("", 0, None)
    return name, offset, 0


def _sources(routine: Routine, known: Values) -> dict[MapName, Symbol]:
    """For each map, the shared variable that copies with it read from, if they always start at the same address."""
    copies = [one for one in accesses(routine) if one.memory.proxy == "tensormap" and one.address is not None]
    maps = {one.instruction: _name(known, one.address) for one in copies if one.address is not None}
    found: dict[MapName, Symbol] = {}
    for one in accesses(routine):
        if one.instruction in maps and one.memory.is_async and one.memory.access == "read" and one.where is not None:
            symbol = one.where.symbol
            if symbol is not None and one.where.address.offset.constant is not None and one.space == ".shared":
                found[maps[one.instruction]] = symbol
    return found


def _element(routine: Routine, symbol: Symbol | None) -> int:
    """Bytes of an element of a variable, inferred from the types of its accesses; 2 if none is conclusive."""
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
