"""Fragments of wmma: loaded, multiplied and stored, every shape, type, layout and a stride, against matrices in memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from lanes import Lanes, operation, regs

from ptxkit.isa import shapes
from ptxkit.machine.matrices.elements import BITS
from ptxkit.machine.semantics import wmma

POINTER = shapes.address(shapes.register(".u64"))
EXTRA = 16
"""By how much a stride is more than it must be."""

SHAPES = [(16, 16, 16), (8, 32, 16), (32, 8, 16)]
CASES = [
    (shape, *types)
    for shape in SHAPES
    for types in ((".f16", ".f32"), (".f16", ".f16"), (".bf16", ".f32"), (".s8", ".s32"), (".u8", ".s32"))
]
CASES += [((16, 16, 8), ".tf32", ".f32"), ((8, 8, 32), ".s4", ".s32"), ((8, 8, 32), ".u4", ".s32"), ((8, 8, 128), ".b1", ".s32")]


def _bytes(matrix: Any, type: str, by_rows: bool, stride: int) -> Any:
    """A matrix of small integers as it lies in memory, lines `stride` elements apart."""
    lines = matrix if by_rows else matrix.T
    padded = np.zeros((len(lines), stride), lines.dtype)
    padded[:, : lines.shape[1]] = lines
    bits = BITS[type]
    if type == ".f16":
        return padded.astype(np.float16).view(np.uint8).reshape(-1)
    if type in (".f32", ".tf32"):
        return padded.astype(np.float32).view(np.uint8).reshape(-1)
    if type == ".bf16":
        return (padded.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16).view(np.uint8).reshape(-1)
    if bits >= 8:
        return padded.astype(f"int{bits}").view(np.uint8).reshape(-1)
    codes = padded.astype(np.int64) & ((1 << bits) - 1)
    per = 8 // bits
    return (codes.reshape(-1, per) << np.arange(0, 8, bits)).sum(1).astype(np.uint8)


def _count(matrix: str, shape: tuple[int, int, int], type: str) -> int:
    m, n, k = shape
    elements = {"a": m * k, "b": k * n, "c": m * n}[matrix] // 32
    if type == ".f16" and matrix != "c":
        return 8
    return max(1, elements * BITS[type] // 32)


def _holder(type: str, matrix: str) -> str:
    if type == ".f16":
        return ".f16x2"
    if matrix == "c" or type == ".f64":
        return type
    return ".b32" if type in (".bf16", ".tf32", ".s4", ".u4", ".b1") else ".u32"


@pytest.mark.parametrize(("shape", "type", "dtype"), CASES)
def test_load_multiply_store(shape: tuple[int, int, int], type: str, dtype: str) -> None:
    rng = np.random.default_rng(1)
    m, n, k = shape
    name = f"m{m}n{n}k{k}"
    low, high = {".u8": (0, 256), ".s8": (-128, 128), ".u4": (0, 16), ".s4": (-8, 8), ".b1": (0, 2)}.get(type, (-7, 8))
    a, b = rng.integers(low, high, (m, k)), rng.integers(low, high, (k, n))
    c = rng.integers(-50, 50, (m, n))
    small = BITS[type] < 8
    for arow, brow, crow in ((True, False, True), (False, True, False), (True, True, False)):
        if small and (not arow or brow):
            continue
        lanes = Lanes(1, memory=65536)
        fragments = []
        for matrix, values, element, by_rows in (("a", a, type, arow), ("b", b, type, brow), ("c", c, dtype, crow)):
            extra = 128 if small and matrix != "c" else EXTRA
            stride = values.shape[1 if by_rows else 0] + extra
            octets = _bytes(values, element, by_rows, stride)
            lanes.bytes[0, : len(octets)] = octets
            text = f"wmma.load.{matrix}.sync.aligned.{'row' if by_rows else 'col'}.{name}{element}"
            holder = regs(_holder(element, matrix), _count(matrix, shape, element))
            op = operation(text, holder, POINTER, shapes.register(".u32"))
            fragments.append(wmma.wmma(op).run(lanes, np.uint64(0), np.uint32(stride)))
        d = regs(_holder(dtype, "c"), _count("c", shape, dtype))
        ab = [regs(_holder(type, x), _count(x, shape, type)) for x in "ab"]
        sides = f"{'row' if arow else 'col'}.{'row' if brow else 'col'}"
        text = f"wmma.mma{'.xor.popc' if type == '.b1' else ''}.sync.aligned.{sides}.{name}{dtype}"
        text += dtype if type == ".f16" else f"{type}{type}{dtype}"
        result = wmma.wmma(operation(text, d, *ab, d)).run(lanes, *fragments)
        exact = (a[:, :, None] ^ b[None]).sum(1) + c if type == ".b1" else a @ b + c
        lanes.bytes[:] = 0
        stride = exact.shape[1 if crow else 0] + EXTRA
        text = f"wmma.store.d.sync.aligned.{'row' if crow else 'col'}.{name}{dtype}"
        wmma.wmma(operation(text, POINTER, d, shapes.register(".u32"))).run(lanes, np.uint64(0), result, np.uint32(stride))
        expected = _bytes(exact, dtype, crow, stride)
        assert (lanes.bytes[0, : len(expected)] == expected).all()


def test_the_stride_is_the_leading_dimension_if_none_is_given() -> None:
    lanes = Lanes(1, memory=4096)
    values = np.arange(256, dtype=np.float32).reshape(16, 16)
    lanes.bytes[0, :1024] = values.view(np.uint8).reshape(-1)
    eight = regs(".f32", 8)
    fragment = wmma.wmma(operation("wmma.load.c.sync.aligned.row.m16n16k16.f32", eight, POINTER)).run(lanes, np.uint64(0))
    wmma.wmma(operation("wmma.store.d.sync.aligned.col.m16n16k16.f32", POINTER, eight)).run(lanes, np.uint64(2048), fragment)
    assert (lanes.bytes[0, 2048:3072].view(np.float32).reshape(16, 16) == values.T).all()
