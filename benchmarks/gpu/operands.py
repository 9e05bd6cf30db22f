"""Operands for the tests of instructions: the same numbers on the GPU machine and here, from a counter and no file.

A *kind* is a PTX type without its dot (`f32`, `s16`, `bf16x2`, `pred`), or one of the words of `_SPECIAL`: numbers that make sense in one
place only, as lanes. `sets` gives for several kinds n sets of operands: all pairs of edge values first, then numbers that are spread out.
"""

from __future__ import annotations

import hashlib
import re
import struct
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

Bits = np.ndarray[Any, np.dtype[Any]]

GOLDEN = 0x9E3779B97F4A7C15
FORMATS = {"f16": (5, 10), "bf16": (8, 7), "tf32": (8, 23), "f32": (8, 23), "f64": (11, 52)}
"""Bits of the exponent and of the mantissa."""
FLOATS = (0.5, 1.5, 2.0, 2.5, 2.0**24, 2.0**31, 2.0**63, 0.1)


def words(salt: int, count: int) -> Bits:
    """`count` words of 64 random bits: the finalizer of SplitMix64 over a counter."""
    with np.errstate(over="ignore"):
        x = np.arange(1, count + 1, dtype=np.uint64) * np.uint64(GOLDEN) + np.uint64(salt * 0xD1342543DE82EF95 % 2**64)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return x ^ (x >> np.uint64(31))


def size_of(kind: str) -> int:
    """Bytes of an element in a buffer."""
    scalar, lanes = _parts(kind)
    if scalar in _SPECIAL:
        return 4
    return max(_bits(scalar) * lanes, 8) // 8


def _bits(scalar: str) -> int:
    if scalar == "pred":
        return 8
    if scalar in FORMATS:
        return 32 if scalar == "tf32" else 1 + sum(FORMATS[scalar])
    if re.fullmatch(r"e\dm\d|ue\dm\d|s2f6", scalar):
        return 8
    found = re.search(r"\d+$", scalar)
    return int(found[0]) if found else 32


def _parts(kind: str) -> tuple[str, int]:
    found = re.fullmatch(r"(\w+?)x(\d+)", kind)
    return (found[1], int(found[2])) if found else (kind, 1)


def dtype(kind: str) -> np.dtype[Any]:
    """The unsigned dtype that holds an element; of 128 bits two words."""
    size = size_of(kind)
    return np.dtype(("<u8", (2,))) if size == 16 else np.dtype(f"<u{size}")


@cache
def edges(scalar: str) -> tuple[int, ...]:
    """The bits of the values at which something may happen."""
    bits = _bits(scalar)
    if scalar == "pred":
        return (0, 1)
    if scalar in FORMATS:
        return _float_edges(scalar)
    top, half = 1 << (bits - 1), 1 << (bits // 2)
    found = [0, 1, 2, 3, 5, 7, 8, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 255, 256, half - 1, half, half + 1]
    found += [top - 1, top, top + 1, 2 * top - 1, 2 * top - 2, 2 * top - 32, (2 * top - 1) // 3, (2 * top - 1) // 3 * 2]
    found += [(1 << 23) - 1, 1 << 23, (1 << 24) - 1, 1 << 24] if bits >= 32 else []
    return tuple(dict.fromkeys(value for value in found if 0 <= value < 2 * top))


def _float_edges(scalar: str) -> tuple[int, ...]:
    exponent, mantissa = FORMATS[scalar]
    sign, infinity = 1 << (exponent + mantissa), ((1 << exponent) - 1) << mantissa
    quiet = 1 << (mantissa - 1)
    magnitudes = [0, 1, (1 << mantissa) - 1, 1 << (mantissa - 1), 1 << mantissa, infinity - 1, infinity]
    one = ((1 << (exponent - 1)) - 1) << mantissa
    magnitudes += [infinity | quiet, infinity | quiet | 5, infinity | 1, one, one + 1, one - 1]
    magnitudes += [encoded(scalar, value) for value in FLOATS]
    return tuple(dict.fromkeys([m | s for m in magnitudes for s in (0, sign)]))


def encoded(scalar: str, value: float) -> int:
    """The bits of a number in a format, rounded towards zero; infinite if it is too large."""
    if scalar == "f64":
        return int(struct.unpack("<Q", struct.pack("<d", value))[0])
    single = int(np.float32(value).view(np.uint32))
    if scalar in ("f32", "tf32"):
        return single
    return single >> 16 if scalar == "bf16" else int(np.float16(min(value, 65504.0)).view(np.uint16))


def _scattered(scalar: str, count: int, salt: int) -> Bits:
    """Random values: all bits random; floats around one; edges; and small numbers, by turns."""
    bits, raw, other = _bits(scalar), words(salt, count), words(salt + 7919, count)
    mask = np.uint64((1 << bits) - 1)
    if scalar == "pred":
        return raw & np.uint64(1)
    every = raw & mask
    table = np.array(edges(scalar), np.uint64)
    edge = table[(other % np.uint64(len(table))).astype(np.int64)]
    if scalar in FORMATS:
        exponent, mantissa = FORMATS[scalar]
        biased = np.uint64((1 << (exponent - 1)) - 1 - 4) + (other >> np.uint64(13)) % np.uint64(8)
        near = (
            (raw & np.uint64((1 << mantissa) - 1))
            | (biased << np.uint64(mantissa))
            | ((raw >> np.uint64(63)) << np.uint64(exponent + mantissa))
        )
    else:
        small = (raw >> np.uint64(20)) % np.uint64(65)
        near = np.where(raw >> np.uint64(63), (np.uint64(0) - small) & mask, small)
    turn = np.arange(count) % 4
    return np.choose(turn, [every, near, near, np.where((other >> np.uint64(40)) & np.uint64(1), edge, every)])


def _series(scalars: Sequence[str], count: int, salt: int) -> list[Bits]:
    """For scalars: all pairs of edges of the first two, then of the second and the third, then random values."""
    found = [_scattered(scalar, count, salt + 101 * place + 1) for place, scalar in enumerate(scalars)]
    tables = [np.array(edges(scalar), np.uint64) for scalar in scalars]
    if len(scalars) == 1:
        table = tables[0][:count]
        found[0][: len(table)] = table
        return found
    start = 0
    for first in range(min(len(scalars) - 1, 2)):
        one, two = tables[first], tables[first + 1]
        pairs = min(len(one) * len(two), count * 7 // 10 - start)
        # of too many pairs, some all over the table
        at = np.arange(pairs) * (len(one) * len(two)) // max(pairs, 1)
        for place, table in enumerate(tables):
            chosen = table[(words(salt + 31 * place, pairs) % np.uint64(len(table))).astype(np.int64)]
            chosen = one[at // len(two)] if place == first else two[at % len(two)] if place == first + 1 else chosen
            found[place][start : start + pairs] = chosen
        start += pairs
        if start * 2 > count:
            break
    return found


def _lane_masks(count: int, salt: int) -> Bits:
    """A mask for each warp, the same for its lanes: all lanes, one, and random ones."""
    raw = words(salt, -(-count // 32))
    chosen = np.choose(
        np.arange(len(raw)) % 4,
        [
            raw >> np.uint64(32),
            np.uint64(0xFFFFFFFF),
            np.uint64(1) << (raw % np.uint64(32)),
            raw >> np.uint64(32) & (raw & np.uint64(0xFFFFFFFF)),
        ],
    )
    return np.repeat(np.where(chosen == 0, np.uint64(1), chosen) & np.uint64(0xFFFFFFFF), 32)[:count]


def _segments(count: int, salt: int) -> Bits:
    """A mask for each warp that consists of whole halves, quarters or eighths of it."""
    raw = words(salt, -(-count // 32))
    width = np.uint64(16) >> (np.arange(len(raw)) % 3).astype(np.uint64)
    unit = (np.uint64(1) << width) - np.uint64(1)
    mask = unit << (raw % np.uint64(32) // width * width)
    mask |= unit << ((raw >> np.uint64(32)) % np.uint64(32) // width * width)
    return np.repeat(mask & np.uint64(0xFFFFFFFF), 32)[:count]


def _segment_control(count: int, salt: int) -> Bits:
    """What shfl takes besides `_segments`: lanes stay in their segment. For .up the clamp is 0, else 31."""
    width = np.uint64(16) >> (np.arange(-(-count // 32)) % 3).astype(np.uint64)
    return np.repeat(((np.uint64(32) - width) << np.uint64(8)) | np.uint64(0 if salt % 2 else 31), 32)[:count]


def _below(bound: int) -> Callable[[int, int], Bits]:
    return lambda count, salt: (words(salt, count) >> np.uint64(11)) % np.uint64(bound)


def _few(count: int, salt: int) -> Bits:
    """Values of which several lanes have the same; a warp in four has one only."""
    found = (words(salt, count) >> np.uint64(11)) % np.uint64(3) * np.uint64(0x01000193)
    return np.where(np.arange(count) // 32 % 4 == 0, np.uint64(77), found)


def _unit(count: int, salt: int) -> Bits:
    """Floats from -1 to 2; every other is a multiple of 1/64."""
    raw = words(salt, count) >> np.uint64(40)
    raw = np.where(np.arange(count) % 2, raw, raw >> np.uint64(18) << np.uint64(18))
    return (raw.astype(np.float32) * np.float32(3 / 2**24) - np.float32(1)).view(np.uint32).astype(np.uint64)


def _lod(count: int, salt: int) -> Bits:
    """Floats from -0.5 to 3.5, most with a fraction."""
    raw = words(salt, count) >> np.uint64(52)
    return (raw.astype(np.float32) * np.float32(4 / 2**12) - np.float32(0.5)).view(np.uint32).astype(np.uint64)


def _metadata(one_of_two: bool) -> Callable[[int, int], Bits]:
    """Sparsity metadata: of four elements the first two, the last two, or (not where one of two is meant) the outer ones."""

    def make(count: int, salt: int) -> Bits:
        raw = words(salt, count)
        last = raw & np.uint64(0x22222222)
        outer = np.uint64(0) if one_of_two else (raw >> np.uint64(31)) & np.uint64(0x22222222) & ~last
        return np.uint64(0x44444444) ^ last ^ (last << np.uint64(2)) ^ (outer << np.uint64(2))

    return make


_SPECIAL: dict[str, Callable[[int, int], Bits]] = {
    "full": lambda count, salt: np.full(count, 0xFFFFFFFF, np.uint64),
    "masks": _lane_masks,
    "segments": _segments,
    "control_low": lambda count, salt: _segment_control(count, 1),
    "control_high": lambda count, salt: _segment_control(count, 0),
    "control": lambda count, salt: (
        (words(salt, count) & np.uint64(0x1F)) | ((words(salt, count) >> np.uint64(20) & np.uint64(0x1F)) << np.uint64(8))
    ),
    "inside": lambda count, salt: (
        words(salt, count) >> np.uint64(11)
        & (np.repeat(np.uint64(16) >> (np.arange(-(-count // 32)) % 3).astype(np.uint64), 32)[:count] - np.uint64(1))
    ),
    "lane": _below(32),
    "few": _few,
    "position": _below(40),
    "unit": _unit,
    "lod": _lod,
    "meta": _metadata(False),
    "meta_tf32": _metadata(True),
}


def sets(kinds: Sequence[str], count: int, salt: int = 0) -> list[Bits]:
    """For each kind `count` elements, as unsigned integers (of 128 bits: two columns of words)."""
    parts = [_parts(kind) for kind in kinds]
    plain = [place for place, (scalar, _) in enumerate(parts) if scalar not in _SPECIAL]
    wide = [parts[place][0] for place in plain]
    series = (
        dict(zip(plain, _series(["b64" if scalar == "b128" else scalar for scalar in wide], count, salt), strict=True)) if plain else {}
    )
    found: list[Bits] = []
    for place, (kind, (scalar, lanes)) in enumerate(zip(kinds, parts, strict=True)):
        if scalar in _SPECIAL:
            found.append(_SPECIAL[scalar](count, salt + place + 1).astype(np.uint32))
            continue
        base = series[place]
        if scalar == "b128":
            found.append(np.stack([base, np.roll(base, 577)], 1))
            continue
        total, bits = np.zeros(count, np.uint64), _bits(scalar)
        for lane in range(lanes):
            total |= np.roll(base, 577 * lane) << np.uint64(bits * lane)
        found.append(total.astype(dtype(kind)))
    return found


STYLES = 4


def fragments(kinds: Sequence[str], count: int, salt: int = 0) -> list[Bits]:
    """Elements of matrices, by warps: small whole numbers, floats around one, both with some denormals and infinities, and any bits."""
    found = []
    for place, kind in enumerate(kinds):
        scalar, lanes = _parts(kind)
        if scalar in _SPECIAL:
            found.append(_SPECIAL[scalar](count, salt + 1000 * place).astype(np.uint32))
            continue
        total, bits = np.zeros(count, np.uint64), _bits(scalar)
        for lane in range(lanes):
            raw = words(salt + 1000 * place + lane + 5, count)
            style = np.arange(count) // 32 % STYLES
            every = raw & np.uint64((1 << bits) - 1)
            if scalar in FORMATS:
                table = np.array([encoded(scalar, abs(v)) | ((v < 0) << (bits - 1)) for v in range(-8, 9)], np.uint64)
                whole = table[(raw >> np.uint64(9)).astype(np.int64) % len(table)]
                exponent, mantissa = FORMATS[scalar]
                biased = np.uint64((1 << (exponent - 1)) - 5) + (raw >> np.uint64(40)) % np.uint64(6)
                near = (
                    (raw & np.uint64((1 << mantissa) - 1)) | (biased << np.uint64(mantissa)) | (raw >> np.uint64(63) << np.uint64(bits - 1))
                )
                edge = np.array(edges(scalar), np.uint64)[(raw >> np.uint64(17)).astype(np.int64) % len(edges(scalar))]
                mixed = np.where((raw >> np.uint64(33)) % np.uint64(64) == 0, edge, near)
                wild = np.where((raw >> np.uint64(33)) % np.uint64(4) == 0, every, near)
                total |= np.choose(style, [whole, near, mixed, wild]) << np.uint64(bits * lane)
            elif scalar in ("e4m3", "e5m2"):
                ones = np.where(raw >> np.uint64(60) == 0, np.uint64(0), (raw & np.uint64(0xBF)) | np.uint64(0x20))
                total |= np.choose(style, [ones & np.uint64(0xFC), ones, ones, every]) << np.uint64(8 * lane)
            else:
                low = raw & np.uint64(0xFFFFF) if bits > 16 else every
                total |= np.choose(style, [every, low, low, every]) << np.uint64(bits * lane)
        found.append(total.astype(dtype(kind)))
    return found


def magnitude(values: Bits, kind: str) -> Bits:
    """Floats without their signs."""
    scalar, lanes = _parts(kind)
    if scalar not in FORMATS and not re.fullmatch(r"e\dm\d", scalar):
        return values
    bits = _bits(scalar)
    mask = sum(((1 << (bits - 1)) - 1) << (bits * lane) for lane in range(lanes))
    found: Bits = values & values.dtype.type(mask)
    return found


def packed(values: Sequence[Bits]) -> bytes:
    """The elements of one kind after another, each kind's at a multiple of 16 bytes."""
    return b"".join([data + bytes(-len(data) % 16) for data in (np.ascontiguousarray(value).tobytes() for value in values)])


def offsets(kinds: Sequence[str], count: int) -> list[int]:
    """Where each kind's elements start in `packed`."""
    found, at = [], 0
    for kind in kinds:
        found.append(at)
        at += -(-size_of(kind) * count // 16) * 16
    return [*found, at]


def fingerprint() -> str:
    """A hash of what the generators give: a record is of use only to those that have the same."""
    kinds = (
        "b8",
        "s16",
        "u32",
        "b64",
        "b128",
        "f16",
        "bf16x2",
        "tf32",
        "f32",
        "f64",
        "e4m3x2",
        "pred",
        *[kind for kind in _SPECIAL if kind != "inside"],
    )
    data = packed(
        [one for kind in kinds for one in (*sets((kind, "u32", "f32"), 512), *(fragments((kind,), 256) if kind != "b128" else ()))]
    )
    return hashlib.blake2b(data, digest_size=8).hexdigest()
