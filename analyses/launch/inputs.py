"""Example launches and example inputs: choices that a program leaves open and an analysis has to make.

A kernel without `.reqntid` runs with any thread block up to its limits, and its parameters and loaded values are unknown. What is found for
a choice holds for launches with that choice only, so a finding names it. All choices are made here; the caller decides which values are
inputs, and what may be concluded from one example, from several, or from all.

Thread blocks; with `.reqntid`, always exactly that shape:

| function | without `.reqntid` | results hold for |
| --- | --- | --- |
| `certain_block` | one thread | every launch |
| `warp_block` | one warp in x | launches whose thread block is a warp wide |
| `assumed_block` | `.maxntid`, else a warp | that launch, a common one |
| `widest_block` | the maximum number of threads, all in x | any smaller one, for uniformity |
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
"""The grid for differences between threads of one CTA: a single one is enough."""
TWO_BLOCKS = (2, 1, 1)
"""The grid, and each cluster, in which threads are followed: the smallest with more than one CTA."""

_ONE_THREAD = (1, 1, 1)
_ONE_WARP = (WARP, 1, 1)

_ARGUMENTS = (17, 1, 100, 1000, 0)
_CONTRASTING_ARGUMENTS = (17, 1000)
_LOADS = ((0, 5), (5, 0), (-5, 5))

_STARTS = (0, 1, 64, 1000)
_SMALL = (*range(11), 12, 15, 16, 31, 32, 33, 64, 96, 127, 128, 129, 160, 192, 256, 257, 320, 384, 512, 640, 768, 1024, 2048, 4096, 65536)
"""Numbers up to ten, and common sizes of thread blocks, tiles and buffers with adjacent numbers."""
_SHIFTED = tuple([number << shift for shift in range(1, 12) for number in range(1, 10)])
_NEAR_OVERFLOW = 1 << 16
"""Numbers of at least 32 bits this close to the signed maximum are not tried: sums would overflow, as for sizes that do not occur."""


# --- thread blocks


def certain_block(routine: Routine) -> Shape:
    """The threads that every thread block has: the shape of `.reqntid`, otherwise the first thread alone."""
    return launch(routine).threads or _ONE_THREAD


def warp_block(routine: Routine) -> Shape:
    """The shape of `.reqntid`, otherwise one warp in x: the smallest thread block in which lanes can differ."""
    return launch(routine).threads or _ONE_WARP


def widest_block(routine: Routine) -> Shape:
    """The shape of `.reqntid`, otherwise the maximum number of threads, all in x."""
    known = launch(routine)
    return known.threads or (known.most[0], 1, 1)


def assumed_block(routine: Routine) -> tuple[Shape, bool]:
    """A shape with which the kernel can be launched, and whether a launch may have another.

    It is that of `.reqntid`. Otherwise it is a single thread if the kernel reads its y or z index, since the launch determines the layout;
    otherwise that of `.maxntid`, if devices support it, as most kernels are launched with the permitted maximum; otherwise one warp.
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


def example_threads(size: int) -> tuple[int, ...]:
    """The representative threads of a thread block of this size, by index.

    The first, which often has a role of its own, and the next; the last and first lane at a warp boundary; the first threads of later warps
    up to the second warpgroup, as roles are assigned to warps; and the last.
    """
    return tuple(dict.fromkeys([0, *[thread for thread in (1, 31, 32, 64, 96, 128, size - 1) if thread < size]]))


# --- special registers


def special_number(name: str, block: Shape, grid: Shape) -> int | None:
    """The value of a special register for all threads of the first thread block of a launch; None if it is of another kind.

    Each cluster, and the grid counted in clusters, is assumed to be as large as `grid` (`ONE_BLOCK` or `TWO_BLOCKS`).
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
    """The values tried for arguments, in order, the same for all arguments of a launch; with `most`, the first ones only.

    An odd number less than a warp comes first, as it splits a warp when it is a bound; then one, with which only the first thread is in
    bounds; then numbers beyond a warp and beyond most thread blocks, and zero, with which no thread has work.
    """
    return _ARGUMENTS[:most]


def contrasting_arguments() -> tuple[int, ...]:
    """Two arguments, one less than a warp and one more than most thread blocks: what is equal for both is assumed for all."""
    return _CONTRASTING_ARGUMENTS


def loads_of_lanes() -> tuple[tuple[int, int], ...]:
    """Pairs of the value that one lane of a warp loads and the value of all others: less, more, and the negated value."""
    return _LOADS


def fitted(number: int, alignment: int, bounds: tuple[int, int], width: int | None = None) -> int:
    """A number as an input with this alignment and within these (unsigned, inclusive) bounds: that multiple of the alignment, or the
    nearest bound.

    With a width in bits, the multiple wraps around, as in a register, before it is compared with the bounds.
    """
    multiple = number * (alignment or 1)
    if width is not None:
        multiple &= (1 << width) - 1
    least, most = bounds
    return min(max(least, multiple), most)


def starts() -> tuple[int, ...]:
    """The initial values of all inputs in a search for numbers, in order: small ones first, since a finding shows them."""
    return _STARTS


def candidates(width: int, known: Known, alignment: int, constants: Iterable[int], ends: Iterable[int] = ()) -> Iterator[int]:
    """Candidate numbers of a width for one input, in order, each once and only if compatible with what is known.

    First the ends of the range that a path leaves; then the program's constants, nearest to zero first, since branches change at their
    operands; then common sizes, -1, and small numbers shifted. Each also as a multiple of the alignment.
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
