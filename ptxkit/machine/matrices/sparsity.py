"""Sparse A: positions of the kept elements (ISA 9.7.15.5.1, 9.7.16.6.1).

Half of each chunk of a row is kept. A 2-bit index gives the position of a kept element in a chunk of four (of pairs, for 4-bit integers and
packed `.e2m1`); for `.tf32`, four bits select one of two. The indices of a row are in the words of a group of four lanes:

| bits of indices in a row | lanes of the group that hold them | | --- | --- | | 16 | one (the selector): row `g` in the low half, row `g +
8` in the high half | | 32, of elements of 16 or 32 bits | two: the first half of both rows, then the second | | 32, of smaller elements |
two: row `g`, row `g + 8` | | 64 | four: the first half of row `g`, of row `g + 8`, then the second halves |
"""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def columns(metadata: Array, selector: int, kept: int, bits: int) -> Array:
    """For each kept element of A (groups, 16, kept) its column, from the words (groups, 32) of a warp; `bits` are those of an element of A.

    >>> words = np.zeros((1, 32), np.uint32); words[0, 0] = 0xE4E4_4444
    >>> columns(words, 0, 8, 16)[0, [0, 8]].tolist()
    [[0, 1, 4, 5, 8, 9, 12, 13], [0, 1, 6, 7, 8, 9, 14, 15]]
    """
    quads = metadata.reshape(-1, 8, 4)
    total = kept * (4 if bits == 32 else 1 if bits == 4 else 2)
    if total == 16:
        word = quads[:, :, selector]
        rows = np.stack((word & 0xFFFF, word >> 16), 1)[..., None]
        width = 16
    elif total == 32 and bits >= 16:
        pair = quads[:, :, 2 * selector : 2 * selector + 2]
        rows = np.stack((pair & 0xFFFF, pair >> 16), 1)
        width = 16
    elif total == 32:
        rows = quads[:, :, 2 * selector : 2 * selector + 2].swapaxes(1, 2)[..., None]
        width = 32
    else:
        rows = np.stack((quads[:, :, 0::2], quads[:, :, 1::2]), 1)
        width = 32
    return spread(rows.reshape(len(quads), 16, -1), width, bits)


def spread(words: Array, width: int, bits: int) -> Array:
    """The columns given by indices: `words` (groups, rows, words) of `width` bits each, low ones first."""
    if bits == 32:
        nibbles = words[..., None] >> np.arange(0, width, 4, dtype=np.uint32) & 15
        places = (nibbles >> 1 & 1).reshape(*words.shape[:2], -1)
        return places.astype(np.intp) + 2 * np.arange(places.shape[2])
    pairs = (words[..., None] >> np.arange(0, width, 2, dtype=np.uint32) & 3).reshape(*words.shape[:2], -1).astype(np.intp)
    places = pairs + np.arange(pairs.shape[2]) // 2 * 4
    if bits == 4:
        return np.stack((2 * places, 2 * places + 1), -1).reshape(*words.shape[:2], -1)
    return places


def expanded(a: Array, chosen: Array) -> Array:
    """A with its zeros: kept elements (groups, rows, kept) at their columns."""
    full = np.zeros((*a.shape[:2], 2 * a.shape[2]), a.dtype)
    np.put_along_axis(full, chosen, a, 2)
    return full


def matching(b: Array, chosen: Array) -> Array:
    """The rows of B (groups, K, N) that match the kept elements: (groups, rows, kept, N)."""
    return b[np.arange(len(b))[:, None, None], chosen]
