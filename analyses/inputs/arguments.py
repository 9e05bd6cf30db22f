"""The arguments of a launch that is made up, where numbers are of some sizes and the boxes of tensor maps are known."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping

from ptxkit.analyses.framework.routine import Routine
from ptxkit.analyses.inputs.boxes import Fit, box_of
from ptxkit.analyses.inputs.coverage import covering
from ptxkit.analyses.inputs.example import Argument, Array, Example, Image, Map, MapName, Maps, Number, Structure
from ptxkit.analyses.inputs.parameters import Leaf, Parameter, Role, Slot, parameters
from ptxkit.analyses.inputs.shapes import Shape, has_dynamic_shared
from ptxkit.frozen import frozen
from ptxkit.isa.types import types

FEW, MANY = 4, 12
"""Iterations of a loop: few first, so that it ends soon; then more than any ring has stages. Both are multiples of 4, as some are offsets
besides, of which an alignment is asked."""
MOST_UNROLLED = 8
"""Iterations of a loop that are one after it was unrolled, at most."""
STRIDE = 16
"""A stride is so many times as large as other numbers: a row has room for what lies in it, be it counted in elements or in bytes."""
ARRAY = 1 << 16
"""Bytes of an array at first."""
TENSOR = 1 << 24
"""Bytes of a tensor with more than a few dimensions."""
DYNAMIC_SHARED = 48 << 10
"""Bytes of dynamic shared memory at first: so many a kernel may have without asking for more."""


@frozen
class Sizes:
    """What numbers are taken to be."""

    counts: int = FEW
    """How often loops run."""
    rest: int = 0
    """Where few of a number make an iteration, as of a loop that was unrolled, there are so many more: no whole number of iterations."""
    scale: int = 1
    """Other numbers are so many times the threads along the longest side of the grid: a power of two where the block is, as some are
    halved until they are 1."""
    differ: bool = False
    """The second number is twice the first, the third four times, and so on again; a box of which nothing is known is the smallest."""
    uneven: int = 0
    """Numbers that are compared are less by so many: no whole number of thread blocks."""
    small: int = 0
    """Numbers that are compared are this."""
    units: bool = False
    """Numbers that something is divided by are 1: what they divide stays as it is."""
    ones: bool = False
    """Numbers of which nothing is known are 1: as operands they are in range, and of threads they are compared with they leave out most."""
    single: bool = False
    """What loops count to is 1, no matter how much of it makes an iteration."""
    covers: bool = False
    """Numbers that are compared with the index of a CTA are so large that the last one has something to do."""
    empty: bool = False
    """What loops count to, and other numbers, are 0: of a problem with nothing in it. What something is divided by is not."""
    drawn: int = 0
    """Other numbers are drawn by lot, each by itself, by this seed: from half of what they would be to four times as much. How they stand
    to one another says nothing then."""


Fits = Mapping[MapName, Fit]
"""What is known of the boxes of tensor maps."""


def made(routine: Routine, shape: Shape, sizes: Sizes, fits: Fits) -> Example:
    """The launch of a shape with numbers of these sizes, and with boxes that fit."""
    longest = sizes.scale * max([grid * block for grid, block in zip(shape.grid, shape.block, strict=True)])
    numbers = [longest << n % 3 if sizes.differ else longest for n in range(len(parameters(routine)))]
    given = zip(parameters(routine), numbers, strict=True)
    least = covering(routine, shape) if sizes.covers else {}
    arguments = tuple([(one.name, _argument(routine, one, number, sizes, least, fits)) for one, number in given])
    shared = DYNAMIC_SHARED if has_dynamic_shared(routine) else 0
    return Example(routine.name, shape.grid, shape.block, arguments, shape.cluster, shared)


def _argument(routine: Routine, parameter: Parameter, number: int, sizes: Sizes, least: Mapping[Leaf, int], fits: Fits) -> Argument:
    parts = []
    strides = 0
    for slot in parameter.slots:
        # the strides of a structure differ in what no thread index is as large as
        more = strides * STRIDE if sizes.differ and slot.role is Role.STRIDE else 0
        strides += slot.role is Role.STRIDE
        own = _drawn(number, sizes.drawn, parameter.name, slot.offset) if sizes.drawn else number
        own = max(own, least.get((parameter.name, slot.offset, slot.size), 0))
        parts.append((slot.offset, _part(routine, parameter, slot, own, sizes, more, fits)))
    if len(parts) == 1 and parts[0][0] == 0 and parts[0][1].size == parameter.size:
        part = parts[0][1]
        if not parameter.is_array or isinstance(part, Map):
            return part
    if not parameter.is_array and not parts:
        return _number(parameter.type, number)
    return Structure(parameter.size, tuple(parts))


def _part(
    routine: Routine, parameter: Parameter, slot: Slot, number: int, sizes: Sizes, more: int, fits: Fits
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
        return Number(slot.type, 1.0)
    if slot.value is not None:
        return _number(slot.type, slot.value)
    if slot.is_divisor and sizes.units:
        return _number(slot.type, 1)
    if sizes.empty and not slot.is_divisor:
        return _number(slot.type, 0)
    if slot.role is Role.COUNT:
        rest = sizes.rest if slot.width <= MOST_UNROLLED else 0
        return _number(slot.type, 1 if sizes.single else sizes.counts * slot.width + rest)
    if slot.role is Role.STRIDE:
        return _number(slot.type, number * STRIDE + more)
    if sizes.ones:
        return _number(slot.type, 1)
    return _number(slot.type, (sizes.small or max(1, number - sizes.uneven)) if slot.is_compared else number)


def _drawn(number: int, seed: int, name: str, offset: int) -> int:
    return random.Random(f"{seed} {name} {offset}").randint((number + 1) // 2, 4 * number)


def _map(routine: Routine, name: MapName, rank: int, sizes: Sizes, fits: Fits) -> Map:
    kind, box = box_of(routine, name[0], rank or 2, sizes.differ, fits.get(name))
    return Map(kind, _tensor(box, TENSOR // types()[kind].bytes), box, name)


def _tensor(box: tuple[int, ...], most: int) -> tuple[int, ...]:
    """The shape of a tensor: two boxes along each dimension and 64 elements at least, but for the slowest ones if these are too many."""
    shape = [max(64, 2 * side) for side in box]
    for n, side in enumerate(box):
        if math.prod(shape) > most:
            shape[n] = 2 * side
    return tuple(shape)


def _number(kind: str, number: int) -> Number:
    if kind.startswith((".f", ".bf")):
        return Number(kind, 1.0)
    return Number(kind, min(number, (1 << 8 * types()[kind].bytes - 1) - 1))
