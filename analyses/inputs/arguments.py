"""The arguments of an example launch, for given sizes of scalars and known boxes of tensor maps."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping

from ptxkit.analyses.framework.routine import Routine
from ptxkit.analyses.inputs.begins import DYNAMIC_SHARED, begins_of_parts
from ptxkit.analyses.inputs.boxes import Fit, box_of
from ptxkit.analyses.inputs.coverage import covering
from ptxkit.analyses.inputs.example import Argument, Array, Example, Image, Map, MapName, Maps, Number, Structure
from ptxkit.analyses.inputs.parameters import Leaf, Parameter, Role, Slot, parameters
from ptxkit.analyses.inputs.reached import has_dynamic_shared
from ptxkit.analyses.inputs.scales import most_of
from ptxkit.analyses.inputs.shapes import Shape
from ptxkit.analyses.inputs.thresholds import MIDDLE, thresholds
from ptxkit.analyses.inputs.tiles import tiles
from ptxkit.analyses.launch.launch import is_cooperative
from ptxkit.frozen import frozen
from ptxkit.isa.types import types

FEW, MANY = 4, 12
"""Iterations of a loop: first a few, so that it ends soon, then more than any ring has stages. Both are multiples of 4, since some trip
counts are also used as offsets that need an alignment."""
MOST_UNROLLED = 8
"""Largest unroll factor for which a remainder is added to the trip count."""
STRIDE = 16
"""Factor by which a stride exceeds other scalars: a row has room for its elements, whether counted in elements or in bytes."""
ARRAY = 1 << 16
"""Initial size of an array in bytes."""
TENSOR = 1 << 24
"""Size limit in bytes for a tensor with many dimensions."""


@frozen
class Sizes:
    """How the values of scalars are chosen."""

    counts: int = FEW
    """Iterations of loops."""
    rest: int = 0
    """Added to trip counts of unrolled loops, so that a remainder is left."""
    scale: int = 1
    """Other scalars are the number of threads along the longest side of the grid, times this. They are a power of two if the block is,
    since some kernels halve them until they are 1."""
    differ: bool = False
    """Successive scalars differ: the second is twice the first, the third four times, and so on cyclically. A box of unknown size is the
    smallest one, and of several sizes that match the phases another."""
    uneven: int = 0
    """Subtracted from scalars that are compared, so that the last thread block is partial."""
    small: int = 0
    """Value of scalars that are compared, if not 0."""
    units: bool = False
    """Scalars used as divisors are 1, so that quotients equal their dividends."""
    ones: bool = False
    """Scalars of unknown use are 1: valid as operands, and as a bound on the thread index they exclude most threads."""
    single: bool = False
    """Loop bounds are 1, even if an iteration increments the loop variable by more."""
    covers: bool = False
    """Scalars that are compared with a CTA index are large enough for the last CTA to have work."""
    empty: bool = False
    """Loop bounds and other scalars are 0, except divisors: a problem with no elements."""
    of_block: int = 0
    """Not 0: every scalar, loop bounds included, is this many times the number of threads along the longest side of the block; if it is
    several times that, then as often as it takes for each loop to iterate twice."""
    drawn: int = 0
    """Not 0: a seed. Each scalar that is not a loop bound is a random number of its own, from half to four times what it would be. So their
    relations to each other are arbitrary."""


Fits = Mapping[MapName, Fit]
"""The known boxes of tensor maps."""


def made(routine: Routine, shape: Shape, sizes: Sizes, fits: Fits) -> Example:
    """The launch with this shape, scalars of these sizes, and the given boxes."""
    usual = max([grid * block for grid, block in zip(shape.grid, shape.block, strict=True)])
    longest = _of_block(routine, shape, sizes.of_block) if sizes.of_block else sizes.scale * usual
    numbers = [longest << n % 3 if sizes.differ else longest for n in range(len(parameters(routine)))]
    given = zip(parameters(routine), numbers, strict=True)
    least = covering(routine, shape) if sizes.covers else {}
    arguments = tuple([(one.name, _argument(routine, one, number, usual, sizes, least, fits)) for one, number in given])
    shared = DYNAMIC_SHARED if has_dynamic_shared(routine) else 0
    return Example(routine.name, shape.grid, shape.block, arguments, shape.cluster, shared, is_cooperative(routine))


def _of_block(routine: Routine, shape: Shape, times: int) -> int:
    """A multiple of the block's longest side. All scalars are given the same one, so that those that must be equal are."""
    number = times * max(shape.block)
    steps = [slot.width for one in parameters(routine) for slot in one.slots if slot.role is Role.COUNT] if times > 1 else []
    return number * max([1, *(-(-2 * step // number) for step in steps)])


def _argument(
    routine: Routine, parameter: Parameter, number: int, usual: int, sizes: Sizes, least: Mapping[Leaf, int], fits: Fits
) -> Argument:
    parts: list[tuple[int, Number | Array | Map | Maps | Image]] = []
    strides = 0
    for slot in parameter.slots:
        # make the strides of a structure differ by more than any thread index
        more = strides * STRIDE if sizes.differ and slot.role is Role.STRIDE else 0
        strides += slot.role is Role.STRIDE
        own = _drawn(number, sizes.drawn, parameter.name, slot.offset) if sizes.drawn else number
        own = max(own, least.get((parameter.name, slot.offset, slot.size), 0))
        most = most_of(routine, (parameter.name, slot.offset, slot.size), usual) * sizes.scale
        part = _part(routine, parameter, slot, own, most, sizes, more, fits)
        tile = tiles(routine).get((parameter.name, slot.offset, slot.size), 1)
        parts.append((slot.offset, _of_tiles(part, tile) if isinstance(part, Number) else part))
    if len(parts) == 1 and parts[0][0] == 0 and parts[0][1].size == parameter.size:
        part = parts[0][1]
        if not parameter.is_array or isinstance(part, Map):
            return part
    if not parameter.is_array and not parts:
        return _number(parameter.type, number)
    return Structure(parameter.size, tuple(parts))


def _part(
    routine: Routine, parameter: Parameter, slot: Slot, number: int, most: int, sizes: Sizes, more: int, fits: Fits
) -> Number | Array | Map | Maps | Image:
    if slot.role is Role.TENSOR_MAP:
        return _map(routine, (parameter.name, slot.offset, 0), slot.rank, sizes, fits)
    if slot.maps:
        return Maps(tuple([(at, _map(routine, (parameter.name, slot.offset, at), rank, sizes, fits)) for at, rank in slot.maps]))
    if slot.role is Role.POINTER:
        kind = slot.type if slot.type in types() and types()[slot.type].bytes else f".b{8 * min(slot.width, 8)}"
        if slot.pointee:
            return Array(".b64", 1 << 10, leads_to=Array(".b32", ARRAY // 4))
        return Array(kind, max(1, ARRAY // types()[kind].bytes))
    if slot.role in (Role.TEXTURE, Role.SURFACE):
        return Image(min(3, slot.rank), slot.role is Role.SURFACE)
    if slot.role is Role.FLOAT:
        return Number(slot.type, MIDDLE if (parameter.name, slot.offset, slot.size) in thresholds(routine) else 1.0)
    if slot.value is not None:
        return _number(slot.type, slot.value)
    begin = begins_of_parts(routine).get((parameter.name, slot.offset, slot.size))
    if begin is not None:
        return _number(slot.type, begin)
    if sizes.of_block:
        return _number(slot.type, number)
    if slot.is_divisor and sizes.units:
        return _number(slot.type, 1)
    if sizes.empty and not slot.is_divisor:
        return _number(slot.type, 0)
    if slot.role is Role.COUNT:
        rest = sizes.rest if slot.width <= MOST_UNROLLED else 0
        return _number(slot.type, 1 if sizes.single else sizes.counts * slot.width + rest)
    if slot.role is Role.STRIDE:
        return _number(slot.type, min(number * STRIDE + more, most))
    if sizes.ones:
        return _number(slot.type, 1)
    return _number(slot.type, (sizes.small or max(1, number - sizes.uneven)) if slot.is_compared else min(number, most))


def _of_tiles(number: Number, tile: int) -> Number:
    """The number, or the next larger multiple of the tile."""
    return number if tile == 1 else _number(number.type, -int(number.value) // tile * -tile)


def _drawn(number: int, seed: int, name: str, offset: int) -> int:
    return random.Random(f"{seed} {name} {offset}").randint((number + 1) // 2, 4 * number)


def _map(routine: Routine, name: MapName, rank: int, sizes: Sizes, fits: Fits) -> Map:
    kind, box = box_of(routine, name, rank or 2, sizes.differ, fits.get(name))
    return Map(kind, _tensor(box, TENSOR // types()[kind].bytes), box, name)


def _tensor(box: tuple[int, ...], most: int) -> tuple[int, ...]:
    """The shape of a tensor: two boxes and at least 64 elements along each dimension; only two boxes along the slowest dimensions if
    that would be too large."""
    shape = [max(64, 2 * side) for side in box]
    for n, side in enumerate(box):
        if math.prod(shape) > most:
            shape[n] = 2 * side
    return tuple(shape)


def _number(kind: str, number: int) -> Number:
    if kind.startswith((".f", ".bf")):
        return Number(kind, 1.0)
    return Number(kind, min(number, (1 << 8 * types()[kind].bytes - 1) - 1))
