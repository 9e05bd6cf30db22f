"""Matrix multiply-accumulate by a warpgroup: tiles in shared memory in every layout, fragments in registers, sparse A, late completion."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from lanes import Lanes, operation, regs
from spreading import a_place, compressed, metadata, place, random, spread, value, words

from ptxkit.isa import shapes
from ptxkit.machine.matrices.elements import BITS, format_of
from ptxkit.machine.semantics import wgmma

IMM = shapes.immediate("int")


def _collect(registers: Any, n: int) -> Any:
    held = np.stack(registers, -1).reshape(-1, 128, n // 2)
    out = np.zeros((len(held), 64, n), held.dtype)
    for lane in range(128):
        for i in range(n // 2):
            out[:, lane // 32 * 16 + lane % 32 // 4 + 8 * (i // 2 % 2), 8 * (i // 4) + lane % 4 * 2 + i % 2] = held[:, lane, i]
    return out


def _descriptors(per_group: list[int]) -> Any:
    return np.repeat(np.array(per_group, np.uint64), 128)


@pytest.mark.parametrize("width", [0, 32, 64, 128])
@pytest.mark.parametrize(("atrans", "btrans"), [(0, 0), (1, 0), (0, 1), (1, 1)])
def test_tiles_in_every_layout(width: int, atrans: int, btrans: int) -> None:
    rng = np.random.default_rng(1)
    lanes = Lanes(8, memory=65536)
    n = 64
    a, b = random(rng, (2, 64, 16), ".f16"), random(rng, (2, n, 16), ".f16")
    da = [place(lanes, g, 1024, a[g], 16, width, not atrans) for g in range(2)]
    db = [place(lanes, g, 32768, b[g], 16, width, not btrans) for g in range(2)]
    d = regs(".f32", n // 2)
    op = operation(
        f"wgmma.mma_async.sync.aligned.m64n{n}k16.f32.f16.f16",
        *(d, shapes.register(".u64"), shapes.register(".u64"), IMM, IMM, IMM, IMM, IMM),
        scaled=0,
        ascale=-1,
        bscale=1,
        atrans=atrans,
        btrans=btrans,
    )
    before = tuple(np.full(256, np.nan, np.float32) for _ in range(n // 2))
    got = wgmma.wgmma(op).run(lanes, before, _descriptors(da), _descriptors(db), 0, -1, 1, atrans, btrans)
    exact = -np.matmul(value(a, ".f16"), value(b, ".f16").swapaxes(1, 2))
    magnitude = np.matmul(abs(value(a, ".f16")), abs(value(b, ".f16")).swapaxes(1, 2))
    assert (abs(_collect(got, n) - exact) <= magnitude * 2.0**-21).all()


TYPES = [(".f16", ".f16", "f16", 16), (".bf16", ".f32", "bf16", 16), (".tf32", ".f32", "tf32", 8), (".e4m3", ".f32", "e5m2", 32)]
TYPES += [(".s8", ".s32", "u8", 32), (".b1", ".s32", "b1", 256)]


@pytest.mark.parametrize(("type", "dtype", "second", "k"), TYPES)
@pytest.mark.parametrize("in_registers", [True, False])
def test_types(type: str, dtype: str, second: str, k: int, in_registers: bool) -> None:
    rng = np.random.default_rng(2)
    lanes, n, bits = Lanes(4, memory=65536), 24, BITS[type]
    a, b = random(rng, (1, 64, k), type), random(rng, (1, n, k), f".{second}")
    c = rng.integers(-9, 9, (1, 64, n)).astype({".f16": np.float16, ".f32": np.float32, ".s32": np.int32}[dtype])
    db = place(lanes, 0, 8192, b[0], bits, 32, True)
    fragment = _spread_64(c)
    d = tuple(fragment.view(np.uint32).T if dtype == ".f16" else fragment.T)
    kind = regs(".f16x2" if dtype == ".f16" else dtype, len(d))
    if in_registers:
        ra = tuple(np.concatenate([r], 0) for r in words(_spread_a(a, bits), bits))
        first: Any = regs(".b32" if type in (".s8", ".b1") else ".f16x2", 4)
        given: Any = ra
    else:
        first, given = shapes.register(".u64"), _descriptors([place(lanes, 0, 0, a[0], bits, 0, True)])
    floating = type not in (".s8", ".b1")
    signs = {"ascale": 1, "bscale": 1} if floating else {}
    if type in (".f16", ".bf16"):
        signs |= {"atrans": 0} if in_registers else {"atrans": 0, "btrans": 0}
    tail = f"{type}.{second}" + (".and.popc" if type == ".b1" else "")
    op = operation(
        f"wgmma.mma_async.sync.aligned.m64n{n}k{k}{dtype}{tail}",
        *(kind, first, shapes.register(".u64"), shapes.register(".pred"), *[IMM] * len(signs)),
        **signs,
    )
    left_out = [None] if "atrans" in signs and in_registers else []
    got = wgmma.wgmma(op).run(lanes, d, given, _descriptors([db]), np.True_, *signs.values(), *left_out)
    if dtype == ".f16":
        got = tuple(np.stack(got, -1).view(np.float16).T)
    found = _collect(got, n)
    if type == ".b1":
        assert (found == np.matmul(a.astype(int), b.astype(int).swapaxes(1, 2)) + c).all()
        return
    left, right = value(a, type), value(b, f".{second}").swapaxes(1, 2)
    slack = {".f16": 2.0**-9, ".s32": 0}.get(dtype, 2.0**-21 if type != ".e4m3" else 2.0**-9)
    assert (abs(found - (np.matmul(left, right) + c)) <= (np.matmul(abs(left), abs(right)) + abs(c)) * slack).all()


def _spread_64(c: Any) -> Any:
    n = c.shape[2]
    out = np.zeros((128, n // 2), c.dtype)
    for lane in range(128):
        for i in range(n // 2):
            out[lane, i] = c[0, lane // 32 * 16 + lane % 32 // 4 + 8 * (i // 2 % 2), 8 * (i // 4) + lane % 4 * 2 + i % 2]
    return out


def _spread_a(a: Any, bits: int) -> Any:
    """A of a warpgroup: sixteen rows a warp."""
    k = a.shape[2]
    return np.concatenate([spread(a[:, 16 * w : 16 * w + 16], lambda lane, i: a_place(lane, i, 16, bits), k // 2) for w in range(4)])


@pytest.mark.parametrize(("type", "k"), [(".f16", 32), (".tf32", 16), (".e4m3", 64), (".s8", 64)])
def test_sparse(type: str, k: int) -> None:
    rng = np.random.default_rng(3)
    bits, n = BITS[type], 16
    lanes = Lanes(4, memory=65536)
    full, kept, rows = compressed(rng, random(rng, (1, 64, k), type), bits)
    b = random(rng, (1, n, k), type)
    total = k // (2 if bits == 32 else 4) * 4
    selector = 1 if total == 32 else 0
    meta = np.concatenate([metadata(rows[:, 16 * w : 16 * w + 16], total, bits, selector) for w in range(4)])
    da, db = place(lanes, 0, 0, kept[0], bits, 32, True), place(lanes, 0, 8192, b[0], bits, 64, True)
    dtype = ".s32" if type == ".s8" else ".f32"
    floating = type != ".s8"
    signs = {"ascale": 1, "bscale": 1} if floating else {}
    if type == ".f16":
        signs |= {"atrans": 0, "btrans": 0}
    op = operation(
        f"wgmma.mma_async.sp.sync.aligned.m64n{n}k{k}{dtype}{type}{type}",
        *(regs(dtype, n // 2), shapes.register(".u64"), shapes.register(".u64"), regs(".b32"), IMM, IMM, *[IMM] * len(signs)),
        sel=selector,
        scaled=0,
        **signs,
    )
    zero = tuple(np.zeros(128, np.int32 if dtype == ".s32" else np.float32) for _ in range(n // 2))
    found = _collect(wgmma.wgmma(op).run(lanes, zero, _descriptors([da]), _descriptors([db]), meta, selector, 0, *signs.values()), n)
    left, right = value(full, type), value(b, type).swapaxes(1, 2)
    slack = 0 if type == ".s8" else 2.0**-9 if type == ".e4m3" else 2.0**-20
    assert (abs(found - np.matmul(left, right)) <= np.matmul(abs(left), abs(right)) * slack).all()


def test_a_tile_that_is_overwritten_in_flight_counts_as_it_is_at_completion() -> None:
    lanes, n = Lanes(4, memory=65536), 8
    a, b = np.ones((64, 16), np.float16), np.ones((n, 16), np.float16)
    da, db = place(lanes, 0, 0, a.view(np.uint16), 16, 128, True), place(lanes, 0, 8192, b.view(np.uint16), 16, 128, True)
    op = operation(
        f"wgmma.mma_async.sync.aligned.m64n{n}k16.f32.f16.f16",
        *(regs(".f32", 4), shapes.register(".u64"), shapes.register(".u64"), IMM, IMM, IMM, IMM, IMM),
        scaled=1,
        ascale=1,
        bscale=1,
        atrans=0,
        btrans=0,
    )
    run = wgmma.wgmma(op).run
    d: Any = tuple(np.zeros(128, np.float32) for _ in range(4))
    for _ in range(2):
        d = run(lanes, d, _descriptors([da]), _descriptors([db]), 1, 1, 1, 0, 0)
    assert all((r == 32).all() for r in d)
    place(lanes, 0, 8192, (2 * b).view(np.uint16), 16, 128, True)
    lanes.agents.wait(lanes, "wgmma", 0)
    assert all((r == 64).all() for r in d)


def test_the_sign_bit() -> None:
    for type in (".f16", ".bf16", ".tf32", ".e4m3", ".e5m2", ".e2m1"):
        format = format_of(type)
        bits = np.array([format.mask & ~format.sign & ~(format.sign >> 1)], np.uint32)
        assert format.values[format.index(bits ^ np.uint32(format.sign))] == -format.values[format.index(bits)]
