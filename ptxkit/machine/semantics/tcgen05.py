"""Semantics of `isa/tcgen05.isa`: the fifth generation of tensor cores (ISA 9.1: 9.7.16)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from ptxkit.machine.asynchronous.agents import Flight, Footprint, coalesced
from ptxkit.machine.asynchronous.arguments import by_name
from ptxkit.machine.asynchronous.mbarrier import change
from ptxkit.machine.asynchronous.transfers import mbarriers_at, places
from ptxkit.machine.fault import Stop
from ptxkit.machine.matrices import descriptors, sparsity, tensor_memory
from ptxkit.machine.matrices import tcgen05 as products
from ptxkit.machine.matrices.elements import BITS, unpacked, widened
from ptxkit.machine.matrices.fragments import as_written
from ptxkit.machine.matrices.tensor_memory import COLUMNS, LANES, TensorMemory
from ptxkit.machine.memory import Access, windows
from ptxkit.machine.operation import Operation, Semantics, Unsupported

Array = np.ndarray[Any, Any]

QUEUE = "tcgen05"
_WIDENED = {".b6x16_p32": 6, ".b4x16_p64": 4}
_ALLOCATIONS = (32, 64, 128, 256, 512)
"""Valid numbers of columns in an allocation."""


def tcgen05(op: Operation) -> Semantics:
    """§ 9.1: 9.7.16."""
    if not op.bound.form.modelled:
        raise Unsupported("the manual for PTX 9.4 is not out: what this form does is not known")
    for name, make in _MAKERS.items():
        if op.has(name):
            return make(op)
    return Semantics(lambda: None)  # fences and waits for loads and stores, which complete at once


def _memories(lanes: Any) -> Any:
    return lanes.own("tensor memory", TensorMemory)


def _warps(lanes: Any, *values: Any) -> Iterator[tuple[int, list[Any]]]:
    """For each warp, the position of its first lane in `lanes`, and that lane's values."""
    positions = lanes.by_warp(np.arange(lanes.count), -1)
    for row in positions:
        first = int(row[row >= 0][0])
        yield first, [int(np.broadcast_to(v, lanes.count)[first]) for v in values]


def _alloc(op: Operation) -> Semantics:
    """§ 9.1: 9.7.16.7: allocates the first free columns, and stores their address to shared memory."""
    space = op.space("dst")

    def ready(lanes: Any, token: Any, dst: Any, n: Any) -> Array:
        memories = _memories(lanes)
        free = np.ones(lanes.count, bool)
        for first, (columns,) in _warps(lanes, n):
            if columns in _ALLOCATIONS:  # a request for another size does not wait: it is a fault
                cta = lanes.cta[first]
                free[lanes.cta == cta] &= memories[cta].room(columns) >= 0
        return free

    def run(lanes: Any, dst: Any, n: Any) -> None:
        memories = _memories(lanes)
        for first, (columns,) in _warps(lanes, n):
            one = lanes.subset(np.array([first]))
            memory = memories[lanes.cta[first]]
            if columns not in _ALLOCATIONS:
                one.fault(None, f"tcgen05.alloc of {columns} columns: the number must be 32, 64, 128, 256 or 512", "tensor memory")
            if not memory.permit:
                one.fault(None, "tcgen05.alloc after tcgen05.relinquish_alloc_permit", "permit")
            at = memory.room(columns)
            if at < 0:
                one.fault(None, f"tcgen05.alloc of {columns} columns: fewer are free in a row", "tensor memory")
            memory.taken[at] = columns
            memory.has_allocated = True
            memory.cells[:, at : at + columns] = tensor_memory.UNDEFINED
            one.store(space, np.broadcast_to(dst, lanes.count)[first : first + 1], np.full(1, at, np.uint32))

    return Semantics(run, lanes=True, ready=ready)


def _dealloc(op: Operation) -> Semantics:
    """§ 9.1: 9.7.16.7."""

    def run(lanes: Any, taddr: Any, n: Any) -> None:
        memories = _memories(lanes)
        for first, (address, columns) in _warps(lanes, taddr, n):
            memory = memories[lanes.cta[first]]
            if memory.taken.get(address) != columns:
                one = lanes.subset(np.array([first]))
                one.fault(
                    None, f"tcgen05.dealloc of {columns} columns at {address:#x}: no allocation has this start and size", _kind(memory)
                )
            cells = tensor_memory.offsets(int(lanes.cta[first]), np.arange(LANES)[:, None], address + np.arange(columns))
            _notify(lanes, "write", cells, np.full(LANES, first))
            del memory.taken[address]

    return Semantics(run, lanes=True)


def _relinquish(op: Operation) -> Semantics:
    """§ 9.1: 9.7.16.7."""

    def run(lanes: Any) -> None:
        memories = _memories(lanes)
        for first, _ in _warps(lanes):
            memories[lanes.cta[first]].permit = False

    return Semantics(run, lanes=True)


def _check(lanes: Any, memory: TensorMemory, lane: int, column: int, rows: int, columns: int) -> None:
    """Faults if cells do not exist or are not allocated."""
    if lane + rows > LANES or column + columns > COLUMNS or not memory.allocated(column, column + columns - 1):
        what = f"lanes {lane} to {lane + rows - 1} and columns {column} to {column + columns - 1} of tensor memory"
        lanes.fault(None, f"access to {what}, not all of which are allocated", _kind(memory))


def _kind(memory: TensorMemory) -> str:
    """Kind of a fault of columns that are not allocated. A CTA that never allocates any is part of something else, such as a test of one
    instruction, and its addresses are those of an example launch."""
    return "tensor columns" if memory.has_allocated else "tensor memory"


def _notify(lanes: Any, kind: str, at: Array, whose: Array) -> None:
    """Notifies monitors of cells of tensor memory, a row of them for each of the lanes at some positions: of all at once, since that costs
    as much as a few."""
    if lanes.memory.watch is not None:
        lanes = lanes.repeated(np.tile(whose, at.shape[1]))
        lanes.memory.watch(Access(kind, lanes, tensor_memory.SPACE, at.T.reshape(-1), tensor_memory.CELL))


def _cells(
    op: Operation, lanes: Any, taddr: Any, table: tuple[Array, Array], packed: bool, kind: str
) -> Iterator[tuple[int, Array, Array, Array]]:
    """For each warp, its row in `by_warp`, the cells of its CTA, and the lane and column of each register of each of its lanes."""
    memories = _memories(lanes)
    rows, columns = table
    found: list[tuple[TensorMemory, Array, Array]] = []
    at, whose = [], []
    for positions, (first, (address,)) in zip(lanes.by_warp(np.arange(lanes.count), -1), _warps(lanes, taddr), strict=True):
        memory = memories[lanes.cta[first]]
        lane, column = tensor_memory.split(address)
        one = lanes.subset(np.array([first]))
        quarter = int(lanes.thread[first]) // 32 % 4
        if lane // LANES == int(lanes.cta[first]) % int(lanes.launch.cluster_size) % 2:
            # programs in use count the lanes of a pair of CTAs from 0 to 255, so hardware seems to take those of the second for its own
            lane %= LANES
        if lane < 32:
            # the manual does not allow an address of another warp's lanes; existing programs use it, and hardware treats it as the warp's
            # own
            lane += 32 * quarter
        if lane // 32 != quarter:
            one.fault(
                None,
                f"lane {lane} of tensor memory: warp {quarter} of a warpgroup can access only lanes {32 * quarter} to {32 * quarter + 31}",
                "tensor lanes",
            )
        _check(one, memory, lane, column, int(rows.max()) + 1, int(columns.max()) + (2 if packed else 1))
        at.append(tensor_memory.offsets(int(lanes.cta[first]), rows + lane, columns + column))
        whose.append(positions if (positions >= 0).all() else np.full(len(positions), first))
        found.append((memory, rows + lane, columns + column))
    _notify(lanes, kind, np.concatenate(at), np.concatenate(whose))
    for number, (memory, of_lanes, of_columns) in enumerate(found):
        yield number, memory.cells, of_lanes, of_columns


def _load(op: Operation) -> Semantics:
    """§ 9.1: 9.7.16.8: loads cells into registers; `.red` also reduces each lane's values."""
    registers, packed = op.width("r"), op.has(".pack::16b")
    shape = ".16x32bx2" if op.has(".16x32bx2") else op.slot(".shape") or ".32x32b"
    table = tensor_memory.cells_of_lanes(shape, registers, packed, int(op.constants.get("off", 0)))
    reduce = _reduction(op) if op.has(".red") else None

    def run(lanes: Any, taddr: Any, *_: Any) -> Any:
        held = np.zeros((*lanes.by_warp(np.arange(lanes.count)).shape, registers), np.uint32)
        for number, cells, rows, columns in _cells(op, lanes, taddr, table, packed, "read"):
            held[number] = cells[rows, columns]
            if packed:
                held[number] = held[number] & 0xFFFF | cells[rows, columns + 1] << np.uint32(16)
        values = tuple(lanes.from_warp(np.ascontiguousarray(held[:, :, r])) for r in range(registers))
        loaded = as_written(op, "r", values)
        return loaded if reduce is None else (loaded, as_written(op, "v", [reduce(np.stack(values, -1))]))

    return Semantics(run, lanes=True)


def _reduction(op: Operation) -> Callable[[Array], Array]:
    """The minimum or maximum of the values of each lane (ISA 9.1: 9.7.16.8.3)."""
    least, types = op.has(".min"), {".s32": np.int32, ".u32": np.uint32}
    kind = next((t for name, t in types.items() if op.has(name)), None)
    if kind is not None:
        return lambda words: (words.view(kind).min(-1) if least else words.view(kind).max(-1)).view(np.uint32)
    absolute, keeps = op.has(".abs"), op.has(".NaN")

    def floats(words: Array) -> Array:
        values = words.view(np.float32)
        values = np.abs(values) if absolute else values
        chosen = (np.min if least else np.max) if keeps else (np.fmin if least else np.fmax).reduce
        found = np.ascontiguousarray(chosen(values, axis=-1)).view(np.uint32)
        return np.where(np.isnan(found.view(np.float32)), np.uint32(0x7FFFFFFF), found)

    return floats


def _store(op: Operation) -> Semantics:
    """§ 9.1: 9.7.16.8: stores registers to cells."""
    registers, packed = op.width("r"), op.has(".unpack::16b")
    shape = op.slot(".shape") or ".16x32bx2"
    table = tensor_memory.cells_of_lanes(shape, registers, packed, int(op.constants.get("off", 0)))

    def run(lanes: Any, taddr: Any, *rest: Any) -> None:
        r = rest[-1] if isinstance(rest[-1], tuple) else (rest[-1],)
        held = np.stack([lanes.by_warp(x) for x in r], -1).view(np.uint32)
        for number, cells, rows, columns in _cells(op, lanes, taddr, table, packed, "write"):
            if packed:
                cells[rows, columns + 1] = held[number] >> np.uint32(16)
                cells[rows, columns] = held[number] & 0xFFFF
            else:
                cells[rows, columns] = held[number]

    return Semantics(run, lanes=True)


# -- asynchronous operations


def _start(op: Operation, lanes: Any, one: Callable[[Any, int], None], footprints: Callable[[int], list[Footprint]]) -> None:
    """Starts an operation of each lane: `one(lane, position)` performs it, after everything that the lane's thread has started before."""

    def land(positions: Array) -> None:
        lanes.agents.complete_before(lanes.at(positions), QUEUE, flight.number)
        for position in positions:
            try:
                one(lanes.at(np.array([position])), int(position))
            except Stop as stop:  # the launch has moved on: name the instruction
                stop.reason = f"`{op.bound.opcode}`, when it completed: {stop.reason}"
                raise

    def footprint() -> list[Footprint]:
        try:
            return [two for operand in zip(*map(footprints, range(lanes.count)), strict=True) for two in _of_lanes(operand)]
        except ValueError:
            return []  # descriptors that say nothing sensible are a fault when it completes

    flight = Flight(lanes, land, footprints=footprint)
    lanes.agents.start(flight, QUEUE)


def _of_lanes(each: Sequence[Footprint]) -> list[Footprint]:
    """The same operand of each lane, as one footprint for each kind of access."""
    found = []
    for kind in dict.fromkeys([one.kind for one in each]):
        chosen = {number: one for number, one in enumerate(each) if one.kind == kind}
        at, size = [np.concatenate([getattr(one, name) for one in chosen.values()]) for name in ("at", "size")]
        found.append(Footprint(kind, each[0].space, np.repeat(list(chosen), [len(one.at) for one in chosen.values()]), at, size))
    return found


def _footprint(kind: str, space: str, at: Array, size: int) -> Footprint:
    """The bytes that a thread's operation accesses."""
    at = at.reshape(-1)
    return Footprint(kind, space, np.zeros(len(at), np.int64), at, np.full(len(at), size))


def _in_tensor_memory(op: Operation, lanes: Any, position: int, kind: str, rows: Array, columns: Array) -> list[Footprint]:
    """The cells of the participating CTAs. Adjacent columns of a lane are one access: an accumulator has up to 65,536 cells."""
    pair = _pair(op, lanes.at(np.array([position])))
    cells = [tensor_memory.offsets(cta, rows, columns) for cta, _ in pair]
    return [coalesced(_footprint(kind, tensor_memory.SPACE, at, tensor_memory.CELL)) for at in cells]


def _in_shared(op: Operation, lanes: Any, position: int, descriptor: int, lines: int, chunks: int, k_major: bool) -> list[Footprint]:
    """The chunks of a tile in the shared memory of the participating CTAs."""
    lane = lanes.at(np.array([position]))
    found = []
    for _, rank in _pair(op, lane):
        where = descriptors.read_of(lanes, _where(descriptor, rank, lines, chunks, k_major)).reshape(-1)
        readers = lane.repeated(np.zeros(len(where), np.int64))
        _, at = places(readers, ".shared" if rank < 0 else ".shared::cluster", where, 16, "read", 16)
        found.append(_footprint("read", ".shared", at, 16))
    return found


def _commit(op: Operation) -> Semantics:
    """§ 9.1: 9.7.16.12: arrives at an mbarrier, or at one in each CTA of a mask, when all operations that the thread has started are
    complete."""
    space = op.space("mbar")

    def run(lanes: Any, given: Any) -> None:
        address = lanes.broadcast(given.mbar)
        ranks = [None] if given.mask is None else range(lanes.launch.cluster_size)
        targets = []
        for rank in ranks:
            wanted = np.ones(lanes.count, bool) if rank is None else (lanes.broadcast(given.mask).astype(np.int64) >> rank & 1).astype(bool)
            targets.append((wanted, address if rank is None else windows.cluster_address(address, rank)))
        signals = np.full((lanes.count, len(targets)), -1, np.int64)
        name = space if given.mask is None else ".shared::cluster"
        for column, (wanted, where) in enumerate(targets):
            chosen = np.flatnonzero(wanted)
            if len(chosen):
                signals[chosen, column] = mbarriers_at(lanes.at(chosen), name, where[chosen])

        def land(positions: Array) -> None:
            lanes.agents.complete_before(lanes.at(positions), QUEUE, flight.number)
            for wanted, where in targets:
                chosen = positions[wanted[positions]]
                if len(chosen):
                    change(lanes.at(chosen), name, where[chosen], 1, 0)

        flight = Flight(lanes, land, signals, after=QUEUE)
        lanes.agents.start(flight)

    return Semantics(by_name(op, run), lanes=True)


def _pair(op: Operation, lane: Any) -> list[tuple[Any, int]]:
    """The participating CTAs: for each, its index among the resident ones and its rank in the cluster (-1: it is alone)."""
    cta, size = int(lane.cta[0]), int(lane.launch.cluster_size) if op.has(".cta_group::2") else 1
    if size == 1:
        return [(cta, -1)]
    rank = cta % size
    return [(cta - rank + r, r) for r in (rank & ~1, rank | 1)]


@lru_cache(maxsize=256)
def _where(descriptor: int, rank: int, lines: int, chunks: int, k_major: bool) -> Array:
    """The addresses of the chunks of a tile. Raises ValueError for an invalid descriptor."""
    where = descriptors.addresses(descriptors.decode(np.array([descriptor], np.uint64), "tcgen05"), lines, chunks, k_major)
    found: Array = where if rank < 0 else windows.cluster_address(where, rank)
    # a loop asks again and again
    found.setflags(write=False)
    return found


def _tile(lane: Any, descriptor: Any, rank: int, lines: int, chunks: int, k_major: bool) -> Array:
    """The bytes of a tile in the shared memory of a CTA: (lines, bytes)."""
    try:
        where = _where(descriptor, rank, lines, chunks, k_major)
    except ValueError as wrong:
        lane.fault(None, str(wrong), "tensor memory")
        raise
    tile: Array = descriptors.load(lane, np.zeros(1, np.intp), where, ".shared" if rank < 0 else ".shared::cluster")[0]
    return tile


def _copy(op: Operation) -> Semantics:
    """§ 9.1: 9.7.16.9: copies rows of shared memory to lanes; some shapes to the lanes of several warps."""
    rows, bits = (int(x) for x in op.slot(".shape")[1:-1].split("x"))
    multicast = op.slot(".multicast")
    lane_of = np.arange(rows) * (32 if rows == 4 else 1)
    copies = {".warpx4": [0, 32, 64, 96], ".warpx2::02_13": [0, 64], ".warpx2::01_23": [0, 32]}.get(multicast, [0])
    if multicast == ".warpx2::01_23":
        lane_of = lane_of % 32 + 64 * (lane_of // 32)
    width = _WIDENED.get(op.slot(".src_fmt"), 8)

    def run(lanes: Any, taddr: Any, desc: Any) -> None:
        address, descriptor = lanes.broadcast(taddr), lanes.broadcast(desc)

        def one(lane: Any, position: int) -> None:
            memories = _memories(lane)
            base, column = tensor_memory.split(int(address[position]))
            for cta, rank in _pair(op, lane):
                octets = _tile(lane, descriptor[position], rank, rows, bits // 128, True)
                if width < 8:
                    octets = widened(octets.reshape(rows, -1, 16), width).reshape(rows, -1) << (2 if width == 4 else 0)
                words = np.ascontiguousarray(octets).view(np.uint32)
                _check(lane, memories[cta], base, column, 1, words.shape[1])
                for at in copies:
                    memories[cta].cells[(base + at + lane_of) % LANES, column : column + words.shape[1]] = words

        def footprints(position: int) -> list[Footprint]:
            base, column = tensor_memory.split(int(address[position]))
            into = (base + np.array(copies)[:, None] + lane_of).reshape(-1, 1) % LANES
            columns = column + np.arange(bits // 32 * 8 // width)
            source = _in_shared(op, lanes, position, int(descriptor[position]), rows, bits // 128, True)
            return [*source, *_in_tensor_memory(op, lanes, position, "write", into, columns)]

        _start(op, lanes, one, footprints)

    return Semantics(run, lanes=True)


def _shift(op: Operation) -> Semantics:
    """§ 9.1: 9.7.16.9: moves 32 bytes of 32 lanes to the next lane."""

    def run(lanes: Any, taddr: Any) -> None:
        address = lanes.broadcast(taddr)
        first = address >> 16 & 0xFFFF
        wrong = first % 32 != 0
        if wrong.any():
            lanes.fault(wrong, f"tcgen05.shift from lane {int(first[wrong][0])}: it must be a multiple of 32", "tensor lanes")

        def one(lane: Any, position: int) -> None:
            memories = _memories(lane)
            base, column = tensor_memory.split(int(address[position]))
            for cta, _ in _pair(op, lane):
                _check(lane, memories[cta], base, column, 32, 8)
                part = memories[cta].cells[base : base + 32, column : column + 8]
                part[:] = tensor_memory.moved_down(part)

        def footprints(position: int) -> list[Footprint]:
            base, column = tensor_memory.split(int(address[position]))
            return _in_tensor_memory(op, lanes, position, "update", base + np.arange(32)[:, None], column + np.arange(8))

        _start(op, lanes, one, footprints)

    return Semantics(run, lanes=True)


def _multiply(op: Operation) -> Semantics:
    """§ 9.1: 9.7.16.10: D = A·B + D, or A·B. Collectors have no effect."""
    kind = next(m for m in op.bound.modifiers if m.startswith(".kind::"))
    operand = op.operand("a")
    in_memory = operand is not None and operand.types[0] == ".u32"
    sparse, stationary = op.has(".sp"), op.has(".ws")

    def run(lanes: Any, given: Any) -> None:
        values = {name: _each(lanes, value) for name, value in vars(given).items() if value is not None}

        def one(lane: Any, position: int) -> None:
            mine = {name: [int(x[position]) for x in value] for name, value in values.items()}
            try:
                what = products.decode(mine["idesc"][0], kind, sparse)
            except ValueError as wrong:
                lane.fault(None, str(wrong), "tensor memory")
                raise
            if mine.get("zeros", [0])[0]:
                lane.fault(None, "a mask of columns of B that are zero is not modelled", "tensor memory")
            _multiply_one(op, lane, mine, what, in_memory, stationary)

        def footprints(position: int) -> list[Footprint]:
            mine = {name: int(x[0][position]) for name, x in values.items()}
            what = products.decode(mine["idesc"], kind, sparse)
            parts = len(_pair(op, lanes.at(np.array([position]))))
            rows, share, kept = what.m // parts, what.n // parts, what.k // 2 if sparse else what.k
            base, column = tensor_memory.split(mine["d"])
            lane, place = tensor_memory.accumulator(rows, what.n, stationary, parts == 2, sparse)
            found = _in_tensor_memory(op, lanes, position, "update" if mine["enable"] else "write", base + lane, column + place)
            found += _in_shared(op, lanes, position, mine["b"], *_lines(share, what.k, what.btype, what, what.b_transposed))
            if in_memory:
                base, column = tensor_memory.split(mine["a"])
                lines = tensor_memory.rows_of(rows, stationary or (parts == 2 and not sparse))
                width = kept * (4 if what.packed else BITS[what.atype]) // 32
                return found + _in_tensor_memory(op, lanes, position, "read", base + lines[:, None], column + np.arange(width))
            return found + _in_shared(op, lanes, position, mine["a"], *_lines(rows, kept, what.atype, what, what.a_transposed))

        _start(op, lanes, one, footprints)

    return Semantics(by_name(op, run), lanes=True)


def _each(lanes: Any, value: Any) -> list[Array]:
    """An operand, or the elements of a vector, as arrays over lanes."""
    return [lanes.broadcast(np.asarray(x)[()]) for x in (value if isinstance(value, tuple) else (value,))]


def _multiply_one(op: Operation, lane: Any, given: dict[str, list[int]], what: Any, in_memory: bool, stationary: bool) -> None:
    memories, ctas = _memories(lane), _pair(op, lane)
    pair = len(ctas) == 2
    rows, share = what.m // len(ctas), what.n // len(ctas)
    sparse = "meta" in given
    kept = what.k // 2 if sparse else what.k
    parts = [_multiplicand(lane, given["b"][0], rank, share, what.k, what.btype, what, what.b_transposed) for _, rank in ctas]
    b = np.concatenate(parts, 0)
    base, column = tensor_memory.split(given["d"][0])
    at = tensor_memory.accumulator(rows, what.n, stationary, pair, sparse)
    folded = stationary or (pair and not sparse)
    results = []
    for cta, rank in ctas:
        memory = memories[cta]
        _check(lane, memory, base, column, int(at[0].max()) + 1, int(at[1].max()) + 1)
        if in_memory:
            a = _from_tensor_memory(lane, memory, given["a"][0], tensor_memory.rows_of(rows, folded), kept, what)
            if op.has(".ashift"):
                a = tensor_memory.moved_down(a)
        else:
            a = _multiplicand(lane, given["a"][0], rank, rows, kept, what.atype, what, what.a_transposed)
        cells = memory.cells[base + at[0], column + at[1]]
        c = products.halves(cells) if what.dtype == ".f16" else cells.view(np.int32 if what.dtype == ".s32" else np.float32)
        if not given["enable"][0]:
            c = np.zeros_like(c)
        elif given.get("scaled", [0])[0]:
            c = np.ldexp(c, -given["scaled"][0]).astype(c.dtype)
        chosen = None
        if sparse:
            lane_of, first = tensor_memory.split(given["meta"][0])
            words = 1 if BITS[what.atype] >= 16 else 2
            index = tensor_memory.metadata(memory.cells, lane_of, first + what.selector * (words == 1), rows, words, folded)
            chosen = sparsity.spread(index, 16, 32 if what.atype == ".tf32" else 4 if what.packed else 8)
        scales = None
        if "ascale" in given:
            count = _scale_count(op, what)
            of_a = tensor_memory.scales(memory.cells, tensor_memory.split(given["ascale"][0])[1], what.a_scale, rows, count)
            of_b = tensor_memory.scales(memory.cells, tensor_memory.split(given["bscale"][0])[1], what.b_scale, what.n, count)
            scales = of_a[None], of_b.T[None]
        results.append(products.product(what, op.target, a[None], b.T[None], c[None], chosen, scales)[0])
    for number, ((cta, _), result) in enumerate(zip(ctas, results, strict=True)):
        words_of = result.view(np.uint16).astype(np.uint32) if what.dtype == ".f16" else result.view(np.uint32)
        if "mask" in given:
            masks = np.array(given["mask"][4 * number : 4 * number + 4], np.uint32)
            off = np.unpackbits(masks.view(np.uint8), bitorder="little").astype(bool)[base + at[0]]
            words_of = np.where(off, memories[cta].cells[base + at[0], column + at[1]], words_of)
        memories[cta].cells[base + at[0], column + at[1]] = words_of


def _scale_count(op: Operation, what: Any) -> int:
    """Number of scales in a row."""
    if not what.packed:
        return 1
    return 4 if op.slot(".scale") in (".scale_vec::4X", ".block16") else 2


def _lines(size: int, k: int, type: str, what: Any, transposed: bool) -> tuple[int, int, bool]:
    """The layout of A or B in shared memory: lines, 16-byte chunks in each, and whether lines run along K."""
    lines, line = (k, size) if transposed else (size, k)
    return lines, line * (4 if what.packed else BITS[type]) // 128, not transposed


def _multiplicand(lane: Any, descriptor: int, rank: int, size: int, k: int, type: str, what: Any, transposed: bool) -> Array:
    """A or B in shared memory: (rows of A or columns of B, K) as bits. 6-bit and 4-bit elements have padding, unless the kind packs
    them."""
    bits = 4 if what.packed else BITS[type]
    lines, chunks, k_major = _lines(size, k, type, what, transposed)
    octets = _tile(lane, descriptor, rank, lines, chunks, k_major)
    narrow = {".e3m2": 6, ".e2m3": 6, ".e2m1": 4}.get(type)
    if narrow and not what.packed:
        octets = widened(octets.reshape(lines, -1, 16), narrow).reshape(lines, -1) << (2 if narrow == 4 else 0)
    elements = unpacked(octets, bits)
    return elements.T if transposed else elements


def _from_tensor_memory(lane: Any, memory: TensorMemory, address: int, rows: Array, kept: int, what: Any) -> Array:
    """A in tensor memory: (rows, K) as bits."""
    base, column = tensor_memory.split(address)
    bits = 4 if what.packed else BITS[what.atype]
    width = kept * bits // 32
    _check(lane, memory, base, column, int(rows.max()) + 1, width)
    return unpacked(memory.cells[base + rows, column : column + width], bits)


_MAKERS: dict[str, Callable[[Operation], Semantics]] = {
    ".alloc": _alloc,
    ".dealloc": _dealloc,
    ".relinquish_alloc_permit": _relinquish,
    ".ld": _load,
    ".st": _store,
    ".cp": _copy,
    ".shift": _shift,
    ".mma": _multiply,
    ".commit": _commit,
}
