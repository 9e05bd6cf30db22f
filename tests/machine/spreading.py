"""Matrices spread over the registers of lanes by the manual's formulas, one element at a time, and random ones of every type."""

from __future__ import annotations

from typing import Any

import numpy as np

from ptxkit.machine.matrices.elements import BITS, format_of

MODES = {0: 0, 128: 1, 64: 2, 32: 3}
"""The swizzling modes of a descriptor of wgmma by their widths."""


def words(bits: Any, size: int) -> tuple[Any, ...]:
    """Elements (lanes, n) of so many bits in 32-bit registers."""
    per = 32 // size
    grouped = bits.reshape(len(bits), -1, per).astype(np.uint64)
    words = (grouped << np.arange(0, 32, size, dtype=np.uint64)).sum(-1).astype(np.uint32)
    return tuple(words.T)


def a_place(lane: int, i: int, m: int, bits: int) -> tuple[int, int]:
    per = max(1, 32 // bits)
    register, element, group, within = i // per, i % per, lane // 4, lane % 4
    if m == 8:
        return group, within * per + element
    return group + 8 * (register % 2), within * per + element + 4 * per * (register // 2)


def b_place(lane: int, i: int, bits: int) -> tuple[int, int]:
    per = max(1, 32 // bits)
    return lane % 4 * per + i % per + 4 * per * (i // per), lane // 4


def c_place(lane: int, i: int) -> tuple[int, int]:
    return lane // 4 + 8 * (i // 2), lane % 4 * 2 + i % 2


def spread(matrices: Any, place: Any, count: int) -> Any:
    """Matrices (warps, rows, columns) as fragments (lanes, elements)."""
    out = np.zeros((len(matrices) * 32, count), matrices.dtype)
    for lane in range(32):
        for i in range(count):
            out[lane::32, i] = matrices[(slice(None), *place(lane, i))]
    return out


def collect(registers: Any, m: int, n: int) -> Any:
    held = np.stack(registers, -1)
    out = np.zeros((len(held) // 32, m, n), held.dtype)
    for lane in range(32):
        for i in range(held.shape[1]):
            out[(slice(None), *c_place(lane, i))] = held[lane::32, i]
    return out


def value(bits: Any, type: str) -> Any:
    if type == ".f16":
        return bits.astype(np.uint16).view(np.float16).astype(float)
    if type in (".bf16", ".tf32"):
        return (bits.astype(np.uint32) << (16 if type == ".bf16" else 0)).view(np.float32).astype(float)
    if type[1:] in ("s8", "u8"):
        return bits.astype(np.uint8).view(np.int8 if type == ".s8" else np.uint8).astype(int)
    if type[1:] in ("s4", "u4"):
        return np.where((bits > 7) & (type == ".s4"), bits.astype(int) - 16, bits.astype(int))
    table = format_of(type)
    return table.values[table.index(bits)]


def random(rng: Any, shape: tuple[int, ...], type: str) -> Any:
    """Bits of values that are finite and not far from 1."""
    if type == ".f16":
        return rng.standard_normal(shape).astype(np.float16).view(np.uint16)
    if type == ".bf16":
        return (rng.standard_normal(shape).astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    if type == ".tf32":
        return rng.standard_normal(shape).astype(np.float32).view(np.uint32) & ~np.uint32(0x1FFF)
    if type in (".e4m3", ".e5m2"):
        return rng.choice(np.flatnonzero(np.isfinite(format_of(type).values)), shape).astype(np.uint8)
    width = {".e2m1": 4, ".e3m2": 6, ".e2m3": 6}.get(type, BITS[type])
    return (rng.integers(0, 1 << width, shape) << (2 if type == ".e2m1" else 0)).astype(np.uint8)


def compressed(rng: Any, a: Any, bits: int) -> tuple[Any, Any, Any]:
    """A sparse matrix, its kept elements and the indices of each row as one integer of 2 bits an index (4 bits for tf32)."""
    warps, m, k = a.shape
    unit = 2 if bits == 4 else 1
    chunk = 2 if bits == 32 else 4 * unit
    kept, rows = np.zeros((warps, m, k // 2), a.dtype), np.zeros((warps, m), object)
    full = np.zeros_like(a)
    for w in range(warps):
        for row in range(m):
            out, places = [], 0
            for at in range(0, k, chunk):
                if bits == 32:
                    pick = int(rng.integers(0, 2))
                    chosen, code = [at + pick], 0b1110 if pick else 0b0100
                else:
                    pair = sorted(rng.choice(4, 2, replace=False))
                    chosen = [at + p * unit + u for p in pair for u in range(unit)]
                    code = int(pair[0]) | int(pair[1]) << 2
                places |= code << (4 * (at // chunk))
                out += chosen
            kept[w, row], full[w, row, out] = a[w, row, out], a[w, row, out]
            rows[w, row] = places
    return full, kept, rows


def metadata(rows: Any, total: int, bits: int, selector: int) -> Any:
    """The words of the lanes (the table in `sparsity`)."""
    words = np.full((len(rows), 32), 0x4444_4444, np.uint64)
    for w in range(len(rows)):
        for g in range(8):
            low, high = rows[w, g], rows[w, g + 8]
            if total == 16:
                words[w, 4 * g + selector] = low | high << 16
            elif total == 32 and bits >= 16:
                words[w, 4 * g + 2 * selector] = low & 0xFFFF | (high & 0xFFFF) << 16
                words[w, 4 * g + 2 * selector + 1] = low >> 16 | high >> 16 << 16
            elif total == 32:
                words[w, 4 * g + 2 * selector], words[w, 4 * g + 2 * selector + 1] = low, high
            else:
                words[w, 4 * g : 4 * g + 4] = low & 0xFFFFFFFF, high & 0xFFFFFFFF, low >> 32, high >> 32
    return words.astype(np.uint32).reshape(-1)


def place(lanes: Any, cta: int, start: int, tile: Any, bits: int, width: int, k_major: bool) -> int:
    """Puts a tile (rows, K) of bit patterns into shared memory and gives its descriptor. Written from the pictures of core matrices."""
    lines = tile if k_major else tile.T
    per = 128 // bits
    if width == 0:
        core = {}
        across, down = lines.shape[1] // per, lines.shape[0] // 8
        near, far = 128, 128 * (across if k_major else down)
        # neighbours along K lie `leading` apart, along rows `stride`
        leading, stride = (near, far) if k_major else (far, near)
        if not k_major:
            leading, stride = 128 * across, 128
        for i in range(lines.shape[0]):
            for j in range(lines.shape[1]):
                offset = (i // 8) * (stride if k_major else leading) + (j // per) * (leading if k_major else stride)
                core[i, j] = offset * 8 + i % 8 * 128 + j % per * bits
    else:
        wide = width * 8 // bits
        stride = 8 * width
        leading = stride * (lines.shape[0] // 8)
        core = {}
        for i in range(lines.shape[0]):
            for j in range(lines.shape[1]):
                at = start * 8 + (j // wide) * leading * 8 + i * width * 8 + j % wide * bits
                octet, bit = divmod(at, 8)
                octet ^= (octet >> 7 & (width // 16 - 1)) << 4
                core[i, j] = octet * 8 + bit - start * 8
    memory = lanes.bytes[cta]
    for (i, j), at in core.items():
        octet, bit = divmod(start * 8 + at, 8)
        value = int(lines[i, j])
        if bits < 8:
            memory[octet] |= value << bit
        else:
            memory[octet : octet + bits // 8] = np.frombuffer(value.to_bytes(bits // 8, "little"), np.uint8)
    return start >> 4 | leading >> 4 << 16 | stride >> 4 << 32 | MODES[width] << 62
