"""Groups: the lanes at one block, with their registers as dense arrays. Groups can be split and joined.

`Lanes` identifies the threads and is what semantics get. It is immutable; subsets are new objects.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ptxkit.machine.fault import Stop

if TYPE_CHECKING:
    from ptxkit.machine.code import Body
    from ptxkit.machine.interfaces import Residents

Array = np.ndarray[Any, Any]
WARP = 32
DEEP = 8
"""So many splits may be nested before a part takes all of its registers."""


class Lanes:
    """Threads that execute an instruction together, in the order of their index in the launch.

    See the README. `place` is the index of each among the resident threads.
    """

    __slots__ = ("_known", "count", "place", "residents")

    def __init__(self, residents: Residents, place: Array) -> None:
        self.residents = residents
        self.place = place
        self.count = len(place)
        self._known: dict[str, Any] = {}

    def _get(self, name: str) -> Any:
        found = self._known.get(name)
        if found is None:
            of_all = self.residents.column(name)
            found = of_all if self.is_everybody else of_all.take(self.place)
            self._known[name] = found
        return found

    @property
    def index(self) -> Array:
        """The index of each thread in the launch."""
        found = self._known.get("index")
        if found is None:
            found = self._known["index"] = self.place + self.residents.first
        return found  # type: ignore[no-any-return]

    @property
    def cta(self) -> Array:
        """The index of each thread's CTA among the resident CTAs."""
        return self._get("cta")  # type: ignore[no-any-return]

    @property
    def thread(self) -> Array:
        """The linear index of each thread in its CTA."""
        return self._get("thread")  # type: ignore[no-any-return]

    @property
    def warp(self) -> Array:
        """The index of each thread's warp among the resident warps. Each CTA starts a new warp."""
        return self._get("warp")  # type: ignore[no-any-return]

    @property
    def lane(self) -> Array:
        """The lane index of each thread in its warp."""
        return self._get("lane")  # type: ignore[no-any-return]

    @property
    def shared_base(self) -> Any:
        """The address of each thread's shared memory in the cluster."""
        found = self._known.get("shared_base")
        if found is None:
            found = self._known["shared_base"] = np.asarray(self.residents.memory.shared_base(self.cta)).astype(np.uint64)[()]
        return found

    def special(self, name: str) -> Any:
        """A special register in each thread (ISA 10), as uint32; a scalar if it is the same in all resident threads."""
        found = self._known.get(name)
        if found is None:
            found = self.residents.special(name)
            if found.ndim and not self.is_everybody:
                found = found.take(self.place)
            self._known[name] = found
        return found

    @property
    def is_everybody(self) -> bool:
        """Whether these are exactly all resident threads. The count does not suffice, since a thread may occur several times."""
        return self.place is self.residents.all.place

    @property
    def launch(self) -> Any:
        """Grid, block, cluster, arguments, clock."""
        return self.residents.launch

    @property
    def agents(self) -> Any:
        """The scheduler of asynchronous operations."""
        return self.residents.agents

    @property
    def memory(self) -> Any:
        return self.residents.memory

    # --- shapes

    def broadcast(self, x: Any) -> Array:
        """An array with an element for each lane."""
        return x if getattr(x, "ndim", 0) else np.full(self.count, x, getattr(x, "dtype", None))

    def subset(self, mask: Any) -> Lanes:
        """The lanes selected by a boolean mask, or at these ascending positions."""
        if not getattr(mask, "ndim", 0):
            return self if mask else self.at(np.empty(0, np.int64))
        return self.at(np.flatnonzero(mask) if mask.dtype == np.bool_ else mask)

    def at(self, positions: Array) -> Lanes:
        """The lanes at these ascending positions."""
        return self if len(positions) == self.count else type(self)(self.residents, self.place.take(positions))

    def repeated(self, positions: Array) -> Lanes:
        """The lanes at these positions, some of them repeatedly, for accesses on their behalf."""
        return type(self)(self.residents, self.place.take(positions))

    def _rows(self, width: int) -> tuple[Array | None, Array, int]:
        """The layout of lanes in rows of `width`: the position of each lane (None if they fill all rows), the number of each row, and
        the number of rows."""
        key = f"rows{width}"
        found = self._known.get(key)
        if found is None:
            if width == WARP:
                row, column = self.warp, self.lane
            else:
                row, column = self.cta * self.residents.groups_per_cta(width) + self.thread // width, self.thread % width
            starts = np.empty(self.count, bool)
            if self.count:
                starts[0] = True
                np.not_equal(row[1:], row[:-1], out=starts[1:])
            numbers = row[starts]
            full = len(numbers) * width == self.count
            position = None if full else (np.cumsum(starts) - 1) * width + column
            found = self._known[key] = (position, numbers, len(numbers))
        return found

    def _spread(self, x: Any, fill: Any, width: int) -> Array:
        position, _, rows = self._rows(width)
        x = self.broadcast(x)
        if position is None:
            return x.reshape(rows, width)  # type: ignore[no-any-return]
        out = np.full(rows * width, fill, x.dtype) if x.dtype.names is None else np.zeros(rows * width, x.dtype)
        out[position] = x
        return out.reshape(rows, width)

    def _gathered(self, y: Any, width: int) -> Array:
        position, _, rows = self._rows(width)
        y = np.asarray(y)
        if y.ndim == 1:
            y = y[:, None]
        if y.shape[1] != width:
            y = np.broadcast_to(y, (rows, width))
        flat = y.reshape(-1)
        return flat if position is None else flat.take(position)  # type: ignore[no-any-return]

    def by_warp(self, x: Any, fill: Any = 0) -> Array:
        """The values in rows of 32, one for each warp; `fill` for absent lanes."""
        return self._spread(x, fill, WARP)

    def from_warp(self, y: Any) -> Array:
        """The values of the lanes, from rows of 32 or from one element for each warp."""
        return self._gathered(y, WARP)

    @property
    def active(self) -> Array:
        """Which lanes are present, as rows of 32."""
        found = self._known.get("active")
        if found is None:
            found = self._known["active"] = self._spread(np.True_, False, WARP)
        return found

    @property
    def warps(self) -> Array:
        """The number of the warp in each row of `by_warp`."""
        return self._rows(WARP)[1]

    def by_warpgroup(self, x: Any, fill: Any = 0) -> Array:
        """The values in rows of 128, one for each warpgroup."""
        return self._spread(x, fill, 4 * WARP)

    def from_warpgroup(self, y: Any) -> Array:
        return self._gathered(y, 4 * WARP)

    @property
    def warp_mask(self) -> Array:
        """For each warp, which lanes are present, as bits of a uint32."""
        found = self._known.get("mask")
        if found is None:
            found = self._known["mask"] = np.packbits(self.active, axis=1, bitorder="little").view(np.uint32)[:, 0]
        return found

    @property
    def is_whole(self) -> bool:
        """Whether all lanes of each warp that have not exited are present."""
        if self.count == self.residents.alive_count:
            return True
        version, known = self._known.get("whole", (-1, False))
        if version != self.residents.exits:
            known = bool((self.warp_mask == self.residents.alive_mask[self.warps]).all())
            self._known["whole"] = (self.residents.exits, known)
        return bool(known)

    # --- memory

    def load(self, space: str, address: Any, dtype: Any, width: int = 1) -> Any:
        """Loads from the addresses of a state space: an array, or a tuple of `width` arrays. Raises `Stop`."""
        return self.residents.memory.load(self, space, address, dtype, width)

    def store(self, space: str, address: Any, values: Any, dtype: Any = None) -> None:
        """Stores a value, or a tuple of consecutive values. Raises `Stop`."""
        self.residents.writes += 1
        self.residents.memory.store(self, space, address, values, dtype)

    def update(self, space: str, address: Any, update: Any, dtype: Any = None, *operands: Any) -> Any:
        """Performs a read-modify-write, one lane after the other if addresses coincide. Returns the old values. Raises `Stop`. See
        `Memory.update`."""
        self.residents.writes += 1
        return self.residents.memory.update(self, space, address, update, dtype, *operands)

    # --- state

    def own(self, key: Any, factory: Callable[[], Any]) -> Any:
        """State of each resident CTA, indexed by its number: `lanes.own("x", list)[cta]`. It lives as long as the CTA."""
        return self.residents.kept(("cta", key), factory)

    def fault(self, mask: Any, reason: str, kind: str = "address", why: str = "") -> None:
        """Ends the launch with a fault of the threads in `mask` (None: all); `why` is the case within the kind."""
        raise Stop(kind, reason, mask, why)


class Frame:
    """A call that has not returned: the caller's lanes and registers, and the block at which it continues. The chain of frames ends with
    None."""

    __slots__ = ("block", "body", "depth", "lanes", "parent", "path", "plan", "registers")

    def __init__(self, parent: Frame | None, path: tuple[int, ...], body: Body, block: int, lanes: Lanes, registers: list[Any]) -> None:
        self.parent = parent
        self.path = path
        self.body = body
        self.block = block
        self.lanes = lanes
        self.registers = registers
        self.plan: Any = None
        self.depth: int = 1 + (parent.depth if parent is not None else 0)

    def of(self, lanes: Lanes) -> list[Any]:
        """The caller's registers, restricted to these lanes, which are a subset of its own."""
        if lanes is self.lanes or lanes.count == self.lanes.count:
            return list(self.registers)
        positions = np.searchsorted(self.lanes.place, lanes.place)
        return [take(x, positions) for x in self.registers]


class Split:
    """The lanes and registers of a group when it was split. A register that is None is that of the split above, at `positions`."""

    __slots__ = ("above", "depth", "lanes", "positions", "registers")

    def __init__(self, group: Group) -> None:
        self.lanes = group.lanes
        self.registers = group.held
        self.above = group.split
        self.positions = group.positions
        self.depth: int = 1 + (self.above.depth if self.above is not None else 0)

    def value(self, i: int) -> Array:
        """A register of all lanes that were split."""
        x = self.registers[i]
        if x is None:
            assert self.above is not None
            x = self.registers[i] = self.above.value(i).take(self.positions)
        return x  # type: ignore[no-any-return]


class Group:
    """Lanes at a block of a function. `registers` is a list by register number of arrays over the lanes, or scalars.

    The parts of a split group take their lanes' values of a register when a block reads it: until then it is None in `held`, and the value
    is that of `split` at `positions`. Most registers are still there when the parts join again.
    """

    __slots__ = ("block", "body", "frame", "held", "lanes", "positions", "split")

    def __init__(self, body: Body, block: int, lanes: Lanes, registers: list[Any], frame: Frame | None) -> None:
        self.body = body
        self.block = block
        self.lanes = lanes
        self.held = registers
        self.frame = frame
        self.split: Split | None = None
        self.positions: Any = None

    @property
    def registers(self) -> list[Any]:
        """All registers, none of them left in the split."""
        if self.split is not None:
            self.take(range(len(self.held)))
            self.split = None
        return self.held

    def take(self, numbers: Iterable[int]) -> None:
        """Takes registers from the split, where they are still there."""
        held = self.held
        for i in numbers:
            if held[i] is None:
                assert self.split is not None
                held[i] = self.split.value(i).take(self.positions)

    @property
    def path(self) -> tuple[int, ...]:
        """The position: call sites and functions from the outermost inwards, then the block. The lowest has furthest to go."""
        return (*self.frame.path, self.block) if self.frame is not None else (self.block,)

    def part(
        self, positions: Array, lanes: Lanes | None = None, live: Iterable[int] | None = None, blank: list[Any] | None = None
    ) -> Group:
        """The lanes at these positions, with their live registers."""
        lanes = lanes if lanes is not None else self.lanes.at(positions)
        if live is None:
            return Group(self.body, self.block, lanes, [take(x, positions) for x in self.registers], self.frame)
        assert blank is not None
        registers = list(blank)
        own = self.registers
        for i in live:
            x = own[i]
            registers[i] = x.take(positions) if getattr(x, "ndim", 0) else x
        return Group(self.body, self.block, lanes, registers, self.frame)

    def parts(self, each: Sequence[tuple[int, Array]], live: Sequence[Iterable[int]], blank: list[Any]) -> list[Group]:
        """The parts that go to some blocks, each with a block and positions, and with the registers that are live there. The group itself
        ends."""
        if self.split is not None and self.split.depth >= DEEP:
            self.take(range(len(self.held)))
            self.split = None
        split = Split(self)
        found = []
        for (block, positions), numbers in zip(each, live, strict=True):
            registers = list(blank)
            for i in numbers:
                x = split.registers[i]
                is_same = x is not None and not getattr(x, "ndim", 0)
                registers[i] = x if is_same else None
            part = Group(self.body, block, self.lanes.at(positions), registers, self.frame)
            part.split, part.positions = split, positions
            found.append(part)
        return found


def take(x: Any, positions: Array) -> Any:
    """The values of lanes at these positions; a scalar is the same for all lanes."""
    return x.take(positions) if getattr(x, "ndim", 0) else x


def taken(x: Any, positions: Array) -> Any:
    """As `take`, for each element of a tuple."""
    if isinstance(x, tuple):
        return type(x)([taken(one, positions) for one in x])
    return take(x, positions)


def joined(groups: list[Group], live: Iterable[int], blank: list[Any]) -> Group:
    """Joins groups at the same block of the same calls."""
    if len(groups) == 1:
        return groups[0]
    first = groups[0]
    if len(groups) > 2 and any(group.frame is not first.frame for group in groups):
        half = len(groups) // 2
        live = list(live)
        return joined([joined(groups[:half], live, blank), joined(groups[half:], live, blank)], live, blank)
    residents = first.lanes.residents
    split = first.split if all(group.split is first.split for group in groups) else None
    places = np.concatenate([group.lanes.place for group in groups])
    # pieces are interleaved in thread order
    if len(places) == residents.count:
        lanes = residents.all
        target = places
    elif split is not None and len(places) == split.lanes.count:
        lanes = split.lanes
        target = np.searchsorted(lanes.place, places)
    else:
        order = places.argsort(kind="stable")
        target = np.empty(len(order), np.int64)
        target[order] = np.arange(len(order))
        lanes = type(first.lanes)(residents, places.take(order))
    ends = np.cumsum([group.lanes.count for group in groups]).tolist()
    targets = [target[end - group.lanes.count : end] for end, group in zip(ends, groups, strict=True)]
    frame = first.frame
    if frame is not groups[1].frame:
        assert frame is not None and groups[1].frame is not None
        frame = _joined_frames(frame, groups[1].frame, first.lanes, groups[1].lanes, lanes, targets)
    registers = list(blank)
    found = Group(first.body, first.block, lanes, registers, frame)
    if split is not None:
        left = [i for i in live if all(group.held[i] is None for group in groups)]
        _leave(found, left, split, groups, targets)
        live = sorted(set(live).difference(left))
    for group in groups:
        group.take(live)
    _merged([group.held for group in groups], targets, lanes.count, live, registers)
    return found


def _leave(found: Group, left: Sequence[int], split: Split, groups: list[Group], targets: list[Array]) -> None:
    """Leaves registers that none of some joined parts has taken in their split; all parts together have the registers that were split."""
    is_whole = found.lanes.count == split.lanes.count
    for i in left:
        found.held[i] = split.registers[i] if is_whole else None
    if is_whole:
        found.split, found.positions = split.above, split.positions
        return
    found.split, found.positions = split, np.empty(found.lanes.count, np.int64)
    for group, target in zip(groups, targets, strict=True):
        found.positions[target] = group.positions


def _joined_frames(one: Frame, other: Frame, a: Lanes, b: Lanes, lanes: Lanes, targets: list[Array]) -> Frame:
    pairs = []
    x: Frame | None = one
    y: Frame | None = other
    while x is not y:
        assert x is not None and y is not None
        pairs.append((x, y))
        x, y = x.parent, y.parent
    parent = x
    for x, y in reversed(pairs):
        mine, theirs = x.of(a), y.of(b)
        registers = _merged([mine, theirs], targets, lanes.count, range(len(mine)), list(mine))
        plan = x.plan
        parent = Frame(parent, x.path, x.body, x.block, lanes, registers)
        parent.plan = plan
    assert parent is not None
    return parent


def _merged(pieces: list[list[Any]], targets: list[Array], count: int, live: Iterable[int], into: list[Any]) -> list[Any]:
    """The registers of several groups merged into one list; `targets` are the positions of each group's lanes."""
    first = pieces[0]
    rest = pieces[1:]
    for i in live:
        x = first[i]
        if not getattr(x, "ndim", 0) and all(
            y is x or (not getattr(y, "ndim", 0) and y.tobytes() == x.tobytes()) for y in [piece[i] for piece in rest]
        ):
            into[i] = x
            continue
        out = np.empty(count, x.dtype)
        for piece, target in zip(pieces, targets, strict=True):
            out[target] = piece[i]
        into[i] = out
    return into
