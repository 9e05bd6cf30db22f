"""Example launches and example inputs: what a program leaves open, and an analysis has to choose.

A kernel without `.reqntid` runs with any thread block up to its limits, and nobody says what its parameters are or what it loads. What is
found for a choice holds for launches with that choice only, so a finding names it. This module makes all choices; who asks decides which
values are inputs, and what may be concluded from one example, from several, or from all.

Thread blocks, all exactly the shape of `.reqntid` where there is one:

| function | without `.reqntid` | what holds for it |
| --- | --- | --- |
| `certain_block` | one thread | holds for every launch |
| `warp_block` | one warp in x | holds where a thread block is a warp wide |
| `assumed_block` | `.maxntid`, else a warp | holds for that launch, a usual one |
| `widest_block` | as many threads in x as the limits permit | what is uniform here is uniform in any smaller one |
| `likely_block` | the first of `block_sizes` | holds for that launch, where most kernels have more than a warp |
| `block_sizes`, `block_shapes` | the usual ones, one after the other | holds for one of them, or for all |
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator

from ptxkit.analyses.framework.bindings import specials
from ptxkit.analyses.framework.routine import Routine
from ptxkit.analyses.launch.launch import MOST_THREADS, WARP, launch
from ptxkit.analyses.numbers.known_bits import Known
from ptxkit.syntax import constant_value

Shape = tuple[int, int, int]

ONE_BLOCK = (1, 1, 1)
"""The grid where what differs between the threads of one thread block is looked for: nothing else need be there."""
TWO_BLOCKS = (2, 1, 1)
"""The grid, and each cluster, where threads are followed: the smallest in which a thread block has another beside it."""

_ONE_THREAD = (1, 1, 1)
_ONE_WARP = (WARP, 1, 1)
_SIZES = (128, 256, 64, 32, 512, 384, 288, 160, 1024)
_SHAPES = ((16, 16), (32, 8), (32, 32), (8, 8), (32, 4), (32, 16), (16, 8), (16, 4), (64, 4), (8, 32), (128, 2))

_ARGUMENTS = (17, 1, 100, 1000, 0)
_CONTRASTING_ARGUMENTS = (17, 1000)
_LOADS = ((0, 5), (5, 0), (-5, 5))

_STARTS = (0, 1, 64, 1000)
_SMALL = (*range(11), 12, 15, 16, 31, 32, 33, 64, 96, 127, 128, 129, 160, 192, 256, 257, 320, 384, 512, 640, 768, 1024, 2048, 4096, 65536)
"""Numbers up to ten, and sizes of thread blocks, tiles and buffers with their neighbours."""
_SHIFTED = tuple([number << shift for shift in range(1, 12) for number in range(1, 10)])
_NEAR_OVERFLOW = 1 << 16
"""Numbers of 32 bits and more that are so near to the greatest signed one are not tried: sums overflow, as with sizes that nobody has."""


# --- thread blocks


def certain_block(routine: Routine) -> Shape:
    """The threads that every thread block has: the shape of `.reqntid`, else the first thread alone."""
    return launch(routine).threads or _ONE_THREAD


def warp_block(routine: Routine) -> Shape:
    """The shape of `.reqntid`, else one warp in x: the smallest thread block in which lanes can differ."""
    return launch(routine).threads or _ONE_WARP


def widest_block(routine: Routine) -> Shape:
    """The shape of `.reqntid`, else as many threads as the limits permit, all in x."""
    known = launch(routine)
    return known.threads or (known.most[0], 1, 1)


def assumed_block(routine: Routine) -> tuple[Shape, bool]:
    """One shape that the kernel can be launched with, and whether a launch may have another.

    It is that of `.reqntid`. Else it is a single thread if the kernel reads its index in y or z, as how its threads are laid out is up to
    the launch; else that of `.maxntid`, if a device has so many threads, as most kernels are launched with as many as they permit; else
    one warp.
    """
    exactly = launch(routine).threads
    if exactly is not None and math.prod(exactly) <= MOST_THREADS:
        return exactly, False
    if specials(routine) & {"%tid", "%tid.y", "%tid.z"}:
        return _ONE_THREAD, True
    for directive in routine.function.header.directives:
        if directive.name == ".maxntid":
            sizes = [constant_value(argument) for argument in directive.arguments]
            if sizes and all(isinstance(size, int) and size > 0 for size in sizes):
                x, y, z = [*map(int, sizes), 1, 1][:3]  # type: ignore[arg-type]
                if x * y * z <= MOST_THREADS:
                    return (x, y, z), True
    return _ONE_WARP, True


def block_sizes(routine: Routine) -> tuple[int, ...]:
    """How many threads a kernel that does not say it may be launched with, the most likely number first; none if it reads its index in y
    or z.

    First as many as `.maxntid` permits, then usual sizes up to that: powers of two by how common they are, and sizes of kernels that
    divide their warps into producers and consumers.
    """
    if specials(routine) & {"%tid.y", "%tid.z"}:
        return ()
    most = launch(routine).most[0]
    return tuple(dict.fromkeys([*([most] if most < MOST_THREADS else []), *[size for size in _SIZES if size <= most]]))


def likely_block(routine: Routine) -> Shape | None:
    """The shape that a kernel is most likely launched with, as far as it says it; None if it reads its index in y or z, and does not."""
    exactly, sizes = launch(routine).threads, block_sizes(routine)
    return exactly or ((sizes[0], 1, 1) if sizes else None)


def block_shapes(routine: Routine) -> tuple[Shape, ...]:
    """The shapes in two dimensions that a kernel that does not say it may be launched with, the most likely one first.

    Tiles of a square, rows of a warp, then narrower ones; none has more threads than the kernel permits.
    """
    most = launch(routine).most[0]
    return tuple([(width, height, 1) for width, height in _SHAPES if width * height <= most])


def example_threads(size: int) -> tuple[int, ...]:
    """The threads of a thread block of that size that are followed for all others, by index.

    The first, as it often has a part of its own, and its neighbour; the last and first lane at a border of warps; the first threads of
    later warps, up to the second warpgroup, as roles are given to warps; and the last.
    """
    return tuple(dict.fromkeys([0, *[thread for thread in (1, 31, 32, 64, 96, 128, size - 1) if thread < size]]))


# --- special registers


def special_number(name: str, block: Shape, grid: Shape) -> int | None:
    """What a special register is for all threads of the first thread block of a launch; None if it says something else.

    Each cluster, and the grid counted in clusters, is taken to be as large as `grid` (`ONE_BLOCK` or `TWO_BLOCKS`).
    """
    stem, _, component = name.partition(".")
    position = max(0, "xyz".find(component))
    if stem == "%ntid":
        return block[position]
    if stem in ("%nctaid", "%cluster_nctaid", "%nclusterid", "%cluster_nctarank"):
        return grid[position]
    return 0 if stem in ("%ctaid", "%clusterid", "%cluster_ctaid", "%cluster_ctarank") else None


# --- parameters and what is loaded


def arguments(most: int | None = None) -> tuple[int, ...]:
    """What arguments are taken to be, one after the other, all of a launch the same; with `most`, the first so many.

    An odd number less than a warp comes first, as it divides a warp wherever it is a bound; then one, where only the first thread is in
    bounds; then numbers beyond a warp and beyond most thread blocks, and zero, with which nobody has work.
    """
    return _ARGUMENTS[:most]


def contrasting_arguments() -> tuple[int, ...]:
    """Arguments, one less than a warp and one more than most thread blocks, of which what is equal for both is believed for all."""
    return _CONTRASTING_ARGUMENTS


def loads_of_lanes() -> tuple[tuple[int, int], ...]:
    """What one lane of a warp loads, and what all others: less than the others, more, and as far from 0 with another sign."""
    return _LOADS


def fitted(number: int, alignment: int, bounds: tuple[int, int], width: int | None = None) -> int:
    """A number as an input of this alignment, in these (unsigned, inclusive) bounds: so many times the alignment, or the nearest bound.

    With a width in bits the multiple wraps around in it, as a register does, before it is compared with the bounds.
    """
    multiple = number * (alignment or 1)
    if width is not None:
        multiple &= (1 << width) - 1
    least, most = bounds
    return min(max(least, multiple), most)


def starts() -> tuple[int, ...]:
    """What all inputs are when a search for numbers begins, one after the other: small ones first, as a finding shows them."""
    return _STARTS


def candidates(width: int, known: Known, alignment: int, constants: Iterable[int], ends: Iterable[int] = ()) -> Iterator[int]:
    """Numbers of a width for one input, in the order in which they are tried, each once and as far as it may be it.

    First the ends of the range that a path leaves for it; then the constants of the program, those nearest to zero first, as a branch
    changes at what it compares with; then usual sizes, -1, and small numbers shifted. Each also as a multiple of the alignment.
    """
    mask = (1 << width) - 1
    nearest = sorted(constants, key=lambda number: (abs(number), number < 0))
    seen = set()
    for number in itertools.chain(ends, nearest, _SMALL, (-1,), _SHIFTED):
        for scaled in (number, number * (alignment or 1)):
            value = scaled & mask
            fits = not value & known.zeros and value & known.ones == known.ones and (value - known.low) & mask <= known.span
            overflows = width >= 32 and abs(value - (mask >> 1)) < _NEAR_OVERFLOW
            if fits and not overflows and value not in seen:
                seen.add(value)
                yield value
