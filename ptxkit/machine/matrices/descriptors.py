"""Matrices in shared memory that a descriptor describes: addresses of their elements (ISA 9.7.16.5.1.2, 9.1: 9.7.16.4, 9.7.16.5).

Chunks of 16 bytes are read at once. A *K-major* matrix has a line of chunks for each row of A or column of B, an *MN-major* one a line for
each K. Eight lines form a core matrix, or several adjacent ones if swizzled: a line is then as long as the swizzle width. `leading` and
`stride` are the two distances in the descriptor:

| | from eight lines to the next | from chunk (or swizzled line) to the next | | --- | --- | --- | | K-major | stride | leading | |
MN-major, swizzled | stride | leading | | MN-major, not swizzled | leading | stride |

A swizzle permutes the chunks within lines of 128 bytes: address bits 4 to 6, as many as the swizzle has, are XORed with bits from 7
upwards, counted from the start of the pattern (the base offset).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ptxkit.frozen import frozen
from ptxkit.machine.values.distinct import distinct_numbers

Array = np.ndarray[Any, Any]

LINES = 8
"""Number of lines in a core matrix, the smallest matrix that a descriptor can describe."""
_WIDTHS = {"wgmma": {0: 16, 1: 128, 2: 64, 3: 32}, "tcgen05": {0: 16, 1: 128, 2: 128, 4: 64, 6: 32}}
"""Bytes of a line, by the swizzling mode of the descriptor."""


@frozen(eq=False)
class Descriptor:
    """The fields of descriptors, one array element each; `width` is the swizzle width in bytes (16: none)."""

    start: Array
    leading: Array
    stride: Array
    base: Array
    width: Array
    coarse: Array
    """Whether units of 32 bytes are swizzled rather than 16."""


def decode(words: Array, instruction: str) -> Descriptor:
    """Decodes 64-bit descriptors of `wgmma` or `tcgen05`. Raises ValueError for an invalid swizzling mode."""
    words = np.asarray(words, np.uint64).astype(np.int64)

    def field(at: int) -> Array:
        return (words >> at & 0x3FFF) << 4

    mode = words >> 62 & 3 if instruction == "wgmma" else words >> 61 & 7
    known = _WIDTHS[instruction]
    unknown = set(distinct_numbers(mode).tolist()) - set(known)
    if unknown:
        raise ValueError(f"the matrix descriptor has swizzling mode {min(unknown)}, which is not valid")
    table = np.array([known.get(m, 0) for m in range(8)])
    coarse = (mode == 1) if instruction == "tcgen05" else np.zeros(mode.shape, bool)
    leading = field(16)
    if instruction == "tcgen05":  # an absolute address instead of a distance
        leading = np.where(words >> 52 & 1, leading - field(0), leading)
    return Descriptor(field(0), leading, field(32), words >> 49 & 7, table[mode], coarse)


def addresses(descriptor: Descriptor, lines: int, chunks: int, k_major: bool) -> Array:
    """The addresses of the chunks, as a uint64 array (descriptors, lines, chunks)."""
    line, chunk = np.arange(lines)[None, :, None], np.arange(chunks)[None, None, :]
    start, leading, stride, base, width = (
        x[:, None, None] for x in (descriptor.start, descriptor.leading, descriptor.stride, descriptor.base, descriptor.width)
    )
    swapped = (width == 16) & (not k_major)
    further, along = np.where(swapped, leading, stride), np.where(swapped, stride, leading)
    across = width // 16
    plain = start + line % 8 * width + line // 8 * further + chunk % across * 16 + chunk // across * along
    coarse = descriptor.coarse[:, None, None]
    row = (plain >> 7) - base
    moved = np.where(coarse, (row & 3) << 5, (row & (across - 1)) << 4)
    result: Array = (plain ^ moved).astype(np.uint64)
    return result


def read_of(lanes: Any, where: Array) -> Array:
    """The addresses of chunks (descriptors, lines, chunks) that are read: all, or those of the first lines (`first_lines`)."""
    return where[:, :LINES] if lanes.launch.first_lines else where


def load(lanes: Any, first: Array, where: Array, space: str = ".shared") -> Array:
    """Loads the bytes at addresses of shared memory (descriptors, lines, chunks), as an array (descriptors, lines, bytes).

    `first` are the positions in `lanes` of the lanes on whose behalf each descriptor is read. Lines that are not read are zeros.
    """
    read = read_of(lanes, where)
    readers = lanes.repeated(np.repeat(first, read[0].size))
    halves = readers.load(space, read.reshape(-1), np.dtype(np.uint64), 2)
    found = np.stack(halves, -1).view(np.uint8).reshape(len(first), read.shape[1], -1)
    return np.pad(found, ((0, 0), (0, where.shape[1] - read.shape[1]), (0, 0)))
