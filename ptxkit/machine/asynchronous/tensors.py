"""Bulk copies and reductions of tensor tiles (ISA 5.5, 9.7.10.24.9, 9.7.10.24.10)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import attrs
import numpy as np
from numpy.lib.stride_tricks import as_strided

from ptxkit.frozen import frozen
from ptxkit.machine.asynchronous.agents import Footprint, footprint
from ptxkit.machine.asynchronous.arguments import by_name
from ptxkit.machine.asynchronous.swizzling import pieces, swizzled
from ptxkit.machine.asynchronous.tensor_maps import PACKED, SIZE, TOGETHER, Described, described
from ptxkit.machine.asynchronous.transfers import BULK, Transfer, in_columns, in_ctas, mbarriers_at, places, tell
from ptxkit.machine.memory.buffer import Buffer
from ptxkit.machine.memory.combining import Combining, combining
from ptxkit.machine.operation import Operation, Semantics, Unsupported

Array = np.ndarray[Any, Any]
ALIGN = 128
"""Alignment of a tile in shared memory in bytes."""


@frozen
class Part:
    """Regularly spaced elements of a tensor: address of the first, counts and strides in bytes, slowest dimension first, and their
    positions in the tile."""

    address: int
    counts: tuple[int, ...]
    strides: tuple[int, ...]
    where: tuple[slice, ...]

    def end(self, size: int) -> int:
        """The address after the last element."""
        return self.address + sum((n - 1) * s for n, s in zip(self.counts, self.strides, strict=True)) + size


@frozen
class Tile:
    """What a copy transfers: its shape, slowest dimension first, and the parts that lie within the tensor."""

    shape: tuple[int, ...]
    parts: tuple[Part, ...]


def boxed(tensor: Described, coordinates: Sequence[int]) -> Tile:
    """The box at some coordinates (ISA 5.5.3): along each dimension but the first, every `element_stride`-th element of the box."""
    if tensor.interleave != "none":
        tensor, coordinates = with_channels(tensor), (0, *coordinates)
    steps = (1, *tensor.element_strides[1:])
    shape = tuple(-(-b // s) for b, s in zip(tensor.box, steps, strict=True))
    address, counts, strides, where = tensor.address, [], [], []
    for c, n, step, dim, stride in zip(coordinates, shape, steps, tensor.dims, tensor.strides, strict=True):
        low = min(n, max(0, -(c // step)))
        high = max(low, min(n, -(-(dim - c) // step)))
        address += (c + low * step) * stride
        counts.append(high - low)
        strides.append(step * stride)
        where.append(slice(low, high))
    parts = (Part(address, tuple(counts[::-1]), tuple(strides[::-1]), tuple(where[::-1])),) if all(counts) else ()
    return Tile(shape[::-1], parts)


def with_channels(tensor: Described) -> Described:
    """An interleaved tensor with the channels of a slice as its first dimension (ISA 5.5.5).

    The dimension before the last counts slices, of which a box has one, and all others but the last are those of a picture: each of its
    points has 16 or 32 bytes of channels, one after another in memory and in the tile (measured on sm_90).
    """
    unit = int(tensor.interleave[:-1])
    channels = unit // tensor.size
    return attrs.evolve(
        tensor,
        interleave="none",
        dims=(channels, *tensor.dims),
        strides=(tensor.size, unit, *tensor.strides[1:]),
        box=(channels, *tensor.box[:-2], 1, tensor.box[-1]),
        element_strides=(1, *tensor.element_strides),
    )


def four_rows(tensor: Described, coordinates: Sequence[int]) -> Tile:
    """Four rows of a matrix, starting at one column (gather4 and scatter4)."""
    column, *rows = coordinates
    parts = []
    for k, row in enumerate(rows):
        one = boxed(attrs.evolve(tensor, box=(tensor.box[0], 1)), (column, row))
        parts += [attrs.evolve(part, where=(slice(k, k + 1), part.where[1])) for part in one.parts]
    return Tile((len(rows), tensor.box[0]), tuple(parts))


def column_of_pixels(tensor: Described, coordinates: Sequence[int], offsets: Sequence[int]) -> Tile:
    """A column of pixels of images, each with its channels (ISA 5.5.4).

    The base of the filter traverses the bounding box, W first, by the traversal strides, and continues in the next image; the pixels are at
    `offsets` from it.
    """
    channels, pixels = tensor.box
    first, *base, image = coordinates
    sizes, steps = tensor.dims[1:-1], tensor.element_strides[1:-1]
    low_channel, high_channel = min(channels, max(0, -first)), max(0, min(channels, tensor.dims[0] - first))
    tops = [size - 1 + u for size, u in zip(sizes, tensor.upper, strict=True)]
    at = list(base)
    runs: list[tuple[int, list[int]]] = []
    for pixel in range(pixels):
        place = [p + o for p, o in zip(at, offsets, strict=True)]
        inside = image < tensor.dims[-1] and image >= 0 and all(0 <= p < size for p, size in zip(place, sizes, strict=True))
        if inside and high_channel > low_channel:
            runs.append((pixel, [*place, image]))
        for i, (step, top) in enumerate(zip(steps, tops, strict=True)):
            at[i] += step
            if at[i] <= top:
                break
            at[i] = tensor.lower[i]
        else:
            image += 1
    where = slice(low_channel, high_channel)
    parts = []
    for pixel, place in runs:
        address = tensor.address + (first + low_channel) * tensor.strides[0]
        address += sum(p * s for p, s in zip(place, tensor.strides[1:], strict=True))
        counts, strides = (1, high_channel - low_channel), (0, tensor.strides[0])
        parts.append(Part(address, counts, strides, (slice(pixel, pixel + 1), where)))
    return Tile((pixels, channels), tuple(parts))


@lru_cache(maxsize=1024)
def _described(raw: bytes) -> Described:
    return described(raw)


_NANS = {2: 0x7FF7, 4: 0x7FF77FF7, 8: 0x7FF77FF77FF77FF7}
_FLOATS = frozenset((".f16", ".bf16", ".f32", ".f32.ftz", ".f64", ".tf32", ".tf32.ftz"))


def fill_value(tensor: Described) -> int:
    """The bits of an element outside the tensor (ISA 5.5.3.3). The NaN is that of sm_90, which has the same bits in each 16-bit half."""
    return _NANS[tensor.size] if tensor.nan and tensor.type in _FLOATS else 0


def converted(elements: Array, type: str) -> Array:
    """Elements as a copy to shared memory leaves them: those of `.tf32` rounded to nearest even (ISA 5.5.1). A NaN is 0x7fffe000.

    Nothing else is converted (measured on sm_90): copies from shared memory are as they were, and `.ftz` flushes nothing.
    """
    if not type.startswith(".tf32"):
        return elements
    rounded = (elements + np.uint32(0xFFF) + (elements >> np.uint32(13) & np.uint32(1))) & np.uint32(0xFFFFE000)
    return np.where((elements & np.uint32(0x7FFFFFFF)) > 0x7F800000, np.uint32(0x7FFFE000), rounded)


def _elements(buffer: Buffer, part: Part, size: int) -> Any:
    """A view of the elements of a part."""
    whole = buffer.view(np.dtype(f"u{size}"))
    first = (part.address - buffer.origin) // size
    return as_strided(whole[first:], part.counts, part.strides)


def _groups(buffer: Buffer, part: Part, size: int) -> Any:
    """A view of the elements of a packed part, with bytes as an additional dimension."""
    return as_strided(buffer.view(np.dtype(np.uint8))[part.address - buffer.origin :], (*part.counts, size), (*part.strides, 1))


def fetched(buffer: Buffer, tensor: Described, tile: Tile) -> Array:
    """The elements of a tile in the order of shared memory, as bytes. Padding of packed elements is zero."""
    if tensor.type in PACKED:
        apart = np.zeros((*tile.shape, tensor.spread_size), np.uint8)
        for part in tile.parts:
            apart[(*part.where, slice(tensor.size))] = _groups(buffer, part, tensor.size)
        return apart.reshape(-1)
    found = np.full(tile.shape, fill_value(tensor), np.dtype(f"u{tensor.size}"))
    for part in tile.parts:
        found[part.where] = converted(_elements(buffer, part, tensor.size), tensor.type)
    return found.reshape(-1).view(np.uint8)


def stored(buffer: Buffer, tensor: Described, tile: Tile, data: Array, change: Combining | None) -> None:
    """Writes the elements of a tile that lie within the tensor, or combines them with the contents."""
    if tensor.type in PACKED:
        apart = data.reshape(*tile.shape, tensor.spread_size)
        for part in tile.parts:
            _groups(buffer, part, tensor.size)[...] = apart[(*part.where, slice(tensor.size))]
        return
    source = data.view(np.dtype(f"u{tensor.size}")).reshape(tile.shape)
    for part in tile.parts:
        there = _elements(buffer, part, tensor.size)
        if change is None:
            there[...] = source[part.where]
            continue
        update = change.update.in_global or change.update
        new = update.step(np.ascontiguousarray(there).view(change.dtype), np.ascontiguousarray(source[part.where]).view(change.dtype))
        there[...] = np.ascontiguousarray(new, change.dtype).view(there.dtype)


def spread(buffer: Buffer, at: int, data: Array, tensor: Described) -> None:
    """Writes a tile to shared memory, swizzled."""
    if tensor.swizzle == "none":
        buffer.span(at, len(data))[:] = data
        return
    chunks = buffer.view(np.dtype(np.uint64)).reshape(-1, 2)
    chunks[pieces(at, len(data), tensor.swizzle, tensor.atomicity)] = data.view(np.uint64).reshape(-1, 2)


def collected(buffer: Buffer, at: int, size: int, tensor: Described) -> Any:
    """Reads a tile from shared memory: the inverse of `spread`."""
    if tensor.swizzle == "none":
        return buffer.span(at, size).copy()
    chunks = buffer.view(np.dtype(np.uint64)).reshape(-1, 2)
    return chunks[pieces(at, size, tensor.swizzle, tensor.atomicity)].reshape(-1).view(np.uint8)


Cutter = Callable[[Described, Sequence[int], Sequence[int]], Tile]


def _cutter(mode: str) -> tuple[str, Cutter]:
    """The mode that a tensor map must have, and the function that selects the tile of the tensor."""
    if mode in ("", ".tile"):
        return "tile", lambda tensor, c, _: boxed(tensor, c)
    if mode in (".tile::gather4", ".tile::scatter4"):
        return "tile", lambda tensor, c, _: four_rows(tensor, c)
    if mode == ".im2col":
        return "im2col", column_of_pixels
    if mode == ".im2col_no_offs":
        return "im2col", lambda tensor, c, _: column_of_pixels(tensor, c, (0,) * (tensor.rank - 2))
    raise Unsupported(f"the mode `{mode}` of tensor copies is not executed: the manual at hand does not say which pixels it takes")


def tensor(op: Operation) -> Semantics:
    """`cp.async.bulk.tensor` and `cp.reduce.async.bulk.tensor`: to shared memory if there is an mbarrier, otherwise from it."""
    if not op.slot(".dim"):
        raise Unsupported(f"the operands of `{op.bound.opcode}` are not modelled")
    wanted, cut = _cutter(op.slot(".mode"))
    rank = int(op.slot(".dim")[1])
    loading = op.operand("mbar") is not None
    space = op.space("d" if loading else "s")
    reduction = "" if loading else op.slot(".op")
    paired = op.has(".cta_group::2")

    def load(lanes: Any, given: Any) -> None:
        plans = _tiles(lanes, given, wanted, rank, cut)
        memory = lanes.memory
        sizes = _sizes(plans)
        counted = np.array([int(np.prod(tile.shape)) * one.size for one, tile in plans], np.int64)
        there, to = places(lanes, space, given.d, sizes, "write", ALIGN)
        columns = to[:, None]
        barriers = mbarriers_at(lanes, space, given.mbar)
        rows = barriers[:, None]
        if op.slot(".multicast"):
            mask = lanes.broadcast(given.mask)
            columns, rows = in_ctas(memory, to, mask), in_ctas(memory, barriers, mask)
            if paired:
                rows = np.where(rows >= 0, _of_pair(memory, rows, barriers), -1)

        def write(lane: int, data: Array) -> None:
            for at in columns[lane].tolist():
                if at >= 0:
                    tell(lanes, lane, there, at, len(data), "write")
                    spread(there, at, data, plans[lane][0])

        def read(lane: int) -> Array:
            _seen(lanes, lane, *plans[lane], "read")
            return fetched(memory.globals, *plans[lane])

        footprints = lambda: [*_rows_of(lanes, "read", plans, rows[:, 0]), *in_columns(lanes, "write", there, columns, sizes, rows)]  # noqa: E731
        # padding between packed elements is not counted, as compiled code expects
        Transfer(lanes, read, write, rows, counted, footprints).start()

    def store(lanes: Any, given: Any) -> None:
        plans = _tiles(lanes, given, wanted, rank, cut)
        memory = lanes.memory
        sizes = _sizes(plans)
        here, start = places(lanes, space, given.s, sizes, "read", ALIGN)
        changes = [combining(reduction, _reduced(one.type)) if reduction else None for one, _ in plans]

        def read(lane: int) -> Any:
            size = int(sizes[lane])
            tell(lanes, lane, here, int(start[lane]), size, "read")
            return collected(here, int(start[lane]), size, plans[lane][0])

        def write(lane: int, data: Array) -> None:
            _seen(lanes, lane, *plans[lane], "update" if reduction else "write")
            stored(memory.globals, *plans[lane], data, changes[lane])

        def footprints() -> list[Footprint]:
            return [footprint(lanes, "read", here, start, sizes), *_rows_of(lanes, "update" if reduction else "write", plans)]

        Transfer(lanes, read, write, footprints=footprints).start(BULK)

    return Semantics(by_name(op, load if loading else store), lanes=True)


def _tiles(lanes: Any, given: Any, wanted: str, rank: int, cut: Cutter) -> list[tuple[Described, Tile]]:
    """The tensor of each lane, and the tile of it that the lane copies. Faults if a map or a coordinate is invalid."""
    maps = _maps(lanes, given.map)
    coordinates = np.stack([lanes.broadcast(np.asarray(c)).astype(np.uint32).view(np.int32) for c in given.c], 1).tolist()
    offsets: list[list[int]] = [[]] * lanes.count
    if given.offsets is not None:
        offsets = np.stack([lanes.broadcast(np.asarray(o)).astype(np.int64) for o in given.offsets], 1).tolist()
    address = None if given.g is None else lanes.broadcast(given.g).tolist()
    found = []
    for i, raw in enumerate(maps):
        problem, one = _understood(raw, wanted, rank)
        if one is None:
            lanes.fault(np.arange(lanes.count) == i, problem, "tensormap")
        assert one is not None
        if address is not None:
            one = attrs.evolve(one, address=address[i])
        if one.type in PACKED:
            first = coordinates[i][0]
            if first % TOGETHER:
                reason = f"the first coordinate in a tensor of {one.type}, {first}, is not a multiple of {TOGETHER}"
                lanes.fault(np.arange(lanes.count) == i, reason, "tensormap")
            coordinates[i][0] = first // TOGETHER
        tile = cut(one, coordinates[i], offsets[i])
        _check(lanes, i, one, tile)
        found.append((one, tile))
    return found


def _seen(lanes: Any, lane: int, one: Described, tile: Tile, kind: str) -> None:
    """Notifies monitors of the rows of a tile in global memory."""
    if lanes.memory.watch is None:
        return
    who = lanes.at(np.array([lane]))
    for part in tile.parts:
        for row in np.ndindex(*part.counts[:-1]):
            at = part.address + sum(i * s for i, s in zip(row, part.strides, strict=False))
            lanes.memory.accessed(who, lanes.memory.globals, np.array([at]), part.counts[-1] * one.size, kind, "async")


def _rows_of(lanes: Any, kind: str, plans: list[tuple[Described, Tile]], signals: Array | None = None) -> list[Footprint]:
    """The rows of each lane's tile in global memory."""
    found = []
    for lane, (one, tile) in enumerate(plans):
        for part in tile.parts:
            at = np.full(1, part.address, np.int64)
            for count, stride in zip(part.counts[:-1], part.strides, strict=False):
                at = (at[:, None] + np.arange(count) * stride).ravel()
            signal = None if signals is None else np.full(len(at), signals[lane])
            found.append(footprint(lanes, kind, lanes.memory.globals, at, part.counts[-1] * one.size, np.full(len(at), lane), signal))
    return found


def _sizes(plans: list[tuple[Described, Tile]]) -> Array:
    """Sizes of tiles in shared memory in bytes."""
    return np.array([int(np.prod(tile.shape)) * one.spread_size for one, tile in plans], np.int64)


def _reduced(type: str) -> str:
    """The type in which elements are combined."""
    return ".f32" if type in (".f32.ftz", ".tf32", ".tf32.ftz") else {".u8": ".u32", ".u16": ".u32"}.get(type, type)


def _of_pair(memory: Any, rows: Array, barriers: Array) -> Any:
    """For each mbarrier, the one in the CTA of the pair that the instruction selects."""
    stride = memory.shared_stride
    parity = (barriers // stride % 2)[:, None]
    return rows + (parity - rows // stride % 2) * stride


def _maps(lanes: Any, address: Any) -> list[bytes]:
    """The bytes of each lane's tensor map, which may be in parameters, constants or global memory."""
    found: list[bytes] = [b""] * lanes.count
    address = lanes.broadcast(address)
    for buffer, at, mine in lanes.memory.locate(lanes, ".generic", address, SIZE, "read", 64, "tensormap"):
        for i, place in zip(range(lanes.count) if mine is None else mine.tolist(), at.tolist(), strict=True):
            found[i] = buffer.span(place, SIZE).tobytes()
    return found


def _understood(raw: bytes, mode: str, rank: int) -> tuple[str, Described | None]:
    """A decoded tensor map for an instruction, or what is wrong with it."""
    try:
        found = _described(raw)
    except ValueError as why:
        return str(why), None
    if found.rank != rank:
        return f"a tensor map of {found.rank} dimensions in an instruction for {rank}", None
    if found.mode != mode:
        return f"a tensor map in {found.mode} mode in an instruction in {mode} mode", None
    if found.interleave != "none" and mode != "tile":
        raise Unsupported("interleaved tensors in im2col mode are not executed: the manual does not say how pixels follow one another")
    swizzled(0, found.swizzle, found.atomicity)
    return "", found


def _check(lanes: Any, lane: int, one: Described, tile: Tile) -> None:
    """Faults if elements within the tensor lie outside of allocations."""
    allocations = lanes.memory.allocations
    for part in tile.parts:
        if not allocations.hold(part.address, part.end(one.size)):
            where = allocations.nearest(part.address)
            reason = f"a tensor copy accesses {part.address:#x} to {part.end(one.size):#x}, which is not all allocated: it begins {where}"
            lanes.fault(np.arange(lanes.count) == lane, reason, "address")
