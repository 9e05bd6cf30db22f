"""Matrix multiply-accumulate by a warp: each shape and type against sums over matrices spread by the manual's formulas."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from lanes import Lanes, operation, regs
from spreading import a_place, b_place, c_place, collect, compressed, metadata, random, spread, value, words

from ptxkit.isa import shapes
from ptxkit.machine.matrices.elements import BITS, format_of
from ptxkit.machine.semantics import mma

WARPS = 3


FORMS = [
    ("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", ".f16", ".f16"),
    ("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32", ".f16", ".f16"),
    ("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16", ".f16", ".f16"),
    ("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32", ".bf16", ".bf16"),
    ("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32", ".tf32", ".tf32"),
    ("mma.sync.aligned.m16n8k4.row.col.f32.tf32.tf32.f32", ".tf32", ".tf32"),
    ("mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e5m2.f32", ".e4m3", ".e5m2"),
    ("mma.sync.aligned.m16n8k32.row.col.kind::f8f6f4.f32.e2m1.e3m2.f32", ".e2m1", ".e3m2"),
    ("mma.sync.aligned.m16n8k32.row.col.s32.s8.u8.s32", ".s8", ".u8"),
    ("mma.sync.aligned.m16n8k16.row.col.satfinite.s32.u8.u8.s32", ".u8", ".u8"),
    ("mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32", ".s8", ".s8"),
    ("mma.sync.aligned.m16n8k64.row.col.s32.s4.u4.s32", ".s4", ".u4"),
    ("mma.sync.aligned.m16n8k32.row.col.s32.u4.s4.s32", ".u4", ".s4"),
    ("mma.sync.aligned.m8n8k32.row.col.s32.s4.s4.s32", ".s4", ".s4"),
]


@pytest.mark.parametrize(("opcode", "atype", "btype"), FORMS)
def test_a_product_is_the_sum_of_products(opcode: str, atype: str, btype: str) -> None:
    rng = np.random.default_rng(1)
    m, n, k = (int(x) for x in re.search(r"m(\d+)n(\d+)k(\d+)", opcode).groups())  # type: ignore[union-attr]
    dtype = {"f32": ".f32", "f16": ".f16", "s32": ".s32"}[re.search(r"\.(f32|f16|s32)\.", opcode)[1]]  # type: ignore[index]
    size_a, size_b = BITS[atype], BITS[btype]
    a, b = random(rng, (WARPS, m, k), atype), random(rng, (WARPS, k, n), btype)
    c = rng.integers(-1000, 1000, (WARPS, m, n)) if dtype == ".s32" else rng.standard_normal((WARPS, m, n))
    c = c.astype({".f32": np.float32, ".f16": np.float16, ".s32": np.int32}[dtype])
    ra = words(spread(a, lambda lane, i: a_place(lane, i, m, size_a), m * k // 32), size_a)
    rb = words(spread(b, lambda lane, i: b_place(lane, i, size_b), k * n // 32), size_b)
    fragment = spread(c, c_place, m * n // 32)
    rc = words(fragment.view(np.uint16), 16) if dtype == ".f16" else tuple(fragment.T)
    held = ".f16x2" if dtype == ".f16" else dtype
    ab = ".f16x2" if atype == ".f16" else ".b32"
    target = "sm_120a" if "kind" in opcode else "sm_90a"
    op = operation(opcode, regs(held, len(rc)), regs(ab, len(ra)), regs(ab, len(rb)), regs(held, len(rc)), target=target)
    got = mma.mma(op).run(Lanes(WARPS), ra, rb, rc)
    if dtype == ".f16":
        got = tuple(np.stack(got, -1).view(np.float16).T)
    found = collect(got, m, n)
    exact = np.matmul(value(a, atype), value(b, btype)) + c
    if dtype == ".s32":
        assert (found == exact).all()
        return
    magnitude = np.matmul(abs(value(a, atype)), abs(value(b, btype))) + abs(c)
    assert (abs(found - exact) <= magnitude * (2.0**-10 if dtype == ".f16" else 2.0**-22) * 2).all()


def test_bits_are_combined_and_counted() -> None:
    rng = np.random.default_rng(2)
    for opcode, m, k in (("m16n8k256", 16, 256), ("m16n8k128", 16, 128), ("m8n8k128", 8, 128)):
        for name in ("xor", "and"):
            a, b = rng.integers(0, 2, (WARPS, m, k)), rng.integers(0, 2, (WARPS, k, 8))
            c = rng.integers(-9, 9, (WARPS, m, 8)).astype(np.int32)
            ra = words(spread(a, lambda lane, i, m=m: a_place(lane, i, m, 1), m * k // 32), 1)
            rb = words(spread(b, lambda lane, i: b_place(lane, i, 1), k // 4), 1)
            rc = tuple(spread(c, c_place, m // 4).T)
            text = f"mma.sync.aligned.{opcode}.row.col.s32.b1.b1.s32.{name}.popc"
            op = operation(text, regs(".s32", len(rc)), regs(".b32", len(ra)), regs(".b32", len(rb)), regs(".s32", len(rc)))
            found = collect(mma.mma(op).run(Lanes(WARPS), ra, rb, rc), m, 8)
            both = a[:, :, :, None] ^ b[:, None] if name == "xor" else a[:, :, :, None] & b[:, None]
            assert (found == both.sum(2) + c).all()


SPARSE = [
    ("m16n8k16", "f32.f16.f16.f32", ".f16", 4),
    ("m16n8k32", "f32.f16.f16.f32", ".f16", 2),
    ("m16n8k8", "f32.tf32.tf32.f32", ".tf32", 4),
    ("m16n8k16", "f32.tf32.tf32.f32", ".tf32", 2),
    ("m16n8k32", "s32.s8.s8.s32", ".s8", 2),
    ("m16n8k64", "s32.u8.u8.s32", ".u8", 1),
    ("m16n8k64", "f32.e4m3.e4m3.f32", ".e4m3", 1),
    ("m16n8k64", "s32.s4.s4.s32", ".s4", 2),
    ("m16n8k128", "s32.u4.u4.s32", ".u4", 1),
]


@pytest.mark.parametrize(("shape", "names", "type", "selectors"), SPARSE)
def test_sparse_products_use_the_metadata(shape: str, names: str, type: str, selectors: int) -> None:
    rng = np.random.default_rng(3)
    m, n, k = (int(x) for x in re.findall(r"\d+", shape))
    bits = BITS[type]
    for selector in range(selectors):
        full, kept, rows = compressed(rng, random(rng, (1, m, k), type), bits)
        b = random(rng, (1, k, n), type)
        total = k // (2 if bits == 32 else 8 if bits == 4 else 4) * 4
        meta = metadata(rows, total, bits, selector)
        ra = words(spread(kept, lambda lane, i: a_place(lane, i, m, bits), m * k // 64), bits)
        rb = words(spread(b, lambda lane, i: b_place(lane, i, bits), k * n // 32), bits)
        integer = names.startswith("s32")
        c = rng.integers(-99, 99, (1, m, n)).astype(np.int32 if integer else np.float32)
        rc = tuple(spread(c, c_place, 4).T)
        ab, held = (".f16x2" if type == ".f16" else ".b32"), ".s32" if integer else ".f32"
        op = operation(
            f"mma.sp::ordered_metadata.sync.aligned.{shape}.row.col.{names}",
            regs(held, 4),
            regs(ab, len(ra)),
            regs(ab, len(rb)),
            regs(held, 4),
            regs(".b32"),
            shapes.immediate("int"),
            f=selector,
        )
        found = collect(mma.mma(op).run(Lanes(1), ra, rb, rc, meta, selector), m, n)
        exact = np.matmul(value(full, type), value(b, type)) + c
        magnitude = np.matmul(abs(value(full, type)), abs(value(b, type))) + abs(c)
        assert (abs(found - exact) <= magnitude * (0 if integer else 2.0**-21)).all()


@pytest.mark.parametrize("kind", ["mxf8f6f4", "mxf4", "mxf4nvf4"])
def test_block_scales_are_those_of_the_rows_and_columns(kind: str) -> None:
    rng = np.random.default_rng(4)
    k, type, stype = (32, ".e4m3", "ue8m0") if kind == "mxf8f6f4" else (64, ".e2m1", "ue4m3" if kind == "mxf4nvf4" else "ue8m0")
    count = {"mxf8f6f4": 1, "mxf4": 2, "mxf4nvf4": 4}[kind]
    bits = 8 if k == 32 else 4
    table = format_of(type, packed=k == 64)
    codes = np.flatnonzero(np.isfinite(table.values))
    a, b = rng.choice(codes, (1, 16, k)).astype(np.uint8), rng.choice(codes, (1, k, 8)).astype(np.uint8)
    ra = words(spread(a, lambda lane, i: a_place(lane, i, 16, bits), 16 * k // 32), bits)
    rb = words(spread(b, lambda lane, i: b_place(lane, i, bits), k // 4), bits)
    c = rng.standard_normal((1, 16, 8)).astype(np.float32)
    low, high = (0x30, 0x48) if stype == "ue4m3" else (120, 134)
    sa, sb = rng.integers(low, high, (16, count)), rng.integers(low, high, (8, count))
    abyte, athread, bbyte, bthread = (0, 1, 0, 3) if count == 4 else (2, 0, 2, 2)
    wa, wb = rng.integers(0, 1 << 32, 32, dtype=np.uint64), rng.integers(0, 1 << 32, 32, dtype=np.uint64)

    def put(words: Any, lane: int, byte: int, scales: Any) -> None:
        octets = np.array(words[lane : lane + 1]).astype(np.uint32).view(np.uint8)
        octets[byte : byte + count] = scales
        words[lane] = octets.view(np.uint32)[0]

    for g in range(8):
        put(wa, 4 * g + 2 * athread, abyte, sa[g])
        put(wa, 4 * g + 2 * athread + 1, abyte, sa[g + 8])
        put(wb, 4 * g + bthread, bbyte, sb[g])
    vec = {1: ".scale_vec::1X", 2: ".scale_vec::2X", 4: ".scale_vec::4X"}[count]
    types = "e4m3.e4m3" if k == 32 else "e2m1.e2m1"
    ids = shapes.vector(shapes.immediate("int"), shapes.immediate("int"))
    op = operation(
        f"mma.sync.aligned.m16n8k{k}.row.col.kind::{kind}.block_scale{vec}.f32.{types}.f32.{stype}",
        *(regs(".f32", 4), regs(".b32", 4), regs(".b32", 2), regs(".f32", 4), regs(".b32"), ids, regs(".b32"), ids),
        target="sm_120a",
    )
    fragments = tuple(spread(c, c_place, 4).T)
    run = mma.mma(op).run
    found = collect(run(Lanes(1), ra, rb, fragments, wa.astype(np.uint32), abyte, athread, wb.astype(np.uint32), bbyte, bthread), 16, 8)

    def scale(codes: Any) -> Any:
        return format_of(".e4m3").values[codes] if stype == "ue4m3" else 2.0 ** (codes - 127)

    each = k // count
    left = table.values[a] * np.repeat(scale(sa), each, 1)
    right = table.values[b] * np.repeat(scale(sb), each, 1).T
    exact = np.matmul(left, right) + c
    assert (abs(found - exact) <= (np.matmul(abs(left), abs(right)) + abs(c)) * 2.0**-20).all()


def test_quarters_of_a_warp_multiply_on_their_own() -> None:
    rng = np.random.default_rng(5)
    for alayout in ("row", "col"):
        for blayout in ("row", "col"):
            for held in ("f16", "f32"):
                a, b = rng.integers(-4, 5, (4, 8, 4)).astype(np.float16), rng.integers(-4, 5, (4, 4, 8)).astype(np.float16)
                c = rng.integers(-9, 9, (4, 8, 8)).astype(np.float16 if held == "f16" else np.float32)
                ra, rb = np.zeros((32, 4), np.float16), np.zeros((32, 4), np.float16)
                rc = np.zeros((32, 8), c.dtype)
                place = {}
                for lane in range(32):
                    q, high, low = lane % 16 // 4, lane // 16 * 4, lane % 4
                    for i in range(4):
                        ra[lane, i] = a[q, low + high, i] if alayout == "row" else a[q, i + high, low]
                        rb[lane, i] = b[q, low, i + high] if blayout == "row" else b[q, i, low + high]
                    for i in range(8):
                        at = (low + high, i) if held == "f16" else ((lane & 1) + (i & 2) + high, (i & 4) + (lane & 2) + (i & 1))
                        place[lane, i] = (q, *at)
                        rc[lane, i] = c[q][at]
                halves = [tuple(r.view(np.uint32).T) for r in (ra, rb)]
                registers = tuple(rc.view(np.uint32).T) if held == "f16" else tuple(rc.T)
                kind = regs(".f16x2", 4) if held == "f16" else regs(".f32", 8)
                text = f"mma.sync.aligned.m8n8k4.{alayout}.{blayout}.{held}.f16.f16.{held}"
                op = operation(text, kind, regs(".f16x2", 2), regs(".f16x2", 2), kind)
                got = np.ascontiguousarray(np.stack(mma.mma(op).run(Lanes(1), *halves, registers), -1)).view(c.dtype)
                exact = np.matmul(a.astype(float), b.astype(float)) + c
                assert all(got[key] == exact[at] for key, at in place.items())


def test_ldmatrix_and_stmatrix_move_rows() -> None:
    rng = np.random.default_rng(6)
    lanes = Lanes(2, memory=2048)
    lanes.bytes[:] = rng.integers(0, 256, lanes.bytes.shape)
    memory = lanes.bytes[0].view(np.uint16)
    address = rng.permutation(64).astype(np.uint64) * 16
    for trans in ("", ".trans"):
        op = operation(f"ldmatrix.sync.aligned.m8n8.x4{trans}.shared.b16", regs(".b32", 4), shapes.address(shapes.register(".u64")))
        got = mma.ldmatrix(op).run(lanes, address)
        for warp in range(2):
            rows = memory.reshape(-1, 8)[address[32 * warp : 32 * warp + 32] // 16].reshape(4, 8, 8)
            for matrix in range(4):
                source = rows[matrix].T if trans else rows[matrix]
                for lane in range(32):
                    word = got[matrix][32 * warp + lane]
                    assert (word & 0xFFFF, word >> 16) == (source[lane // 4, lane % 4 * 2], source[lane // 4, lane % 4 * 2 + 1])
        before = lanes.bytes.copy()
        lanes.bytes[:] = 0
        op = operation(f"stmatrix.sync.aligned.m8n8.x4{trans}.shared.b16", shapes.address(shapes.register(".u64")), regs(".b32", 4))
        mma.stmatrix(op).run(lanes, address, got)
        assert (lanes.bytes[0, :1024] == before[0, :1024]).all()


def test_ldmatrix_transposes_bytes_and_widens_small_elements() -> None:
    rng = np.random.default_rng(7)
    lanes = Lanes(1, memory=512)
    lanes.bytes[:] = rng.integers(0, 256, lanes.bytes.shape)
    address = (np.arange(32) * 16).astype(np.uint64)
    pointer = shapes.address(shapes.register(".u64"))
    op = operation("ldmatrix.sync.aligned.m16n16.x2.trans.shared.b8", regs(".b32", 4), pointer, target="sm_100a")
    got = np.stack(mma.ldmatrix(op).run(lanes, address), -1).view(np.uint8).reshape(32, 2, 2, 4)
    rows = lanes.bytes[0].reshape(2, 16, 16)
    for lane in range(32):
        for matrix in range(2):
            for half in range(2):
                expected = rows[matrix, 4 * (lane % 4) : 4 * (lane % 4) + 4, lane // 4 + 8 * half]
                assert (got[lane, matrix, half] == expected).all()
    for name, width in (("b4x16_p64", 4), ("b6x16_p32", 6)):
        op = operation(f"ldmatrix.sync.aligned.m8n16.x1.shared.b8x16.{name}", regs(".b32", 1), pointer, target="sm_100a")
        (word,) = mma.ldmatrix(op).run(lanes, address)
        for lane in range(32):
            number = int.from_bytes(lanes.bytes[0, lane // 4 * 16 : lane // 4 * 16 + 16].tobytes(), "little")
            elements = [number >> width * (lane % 4 * 4 + i) & ((1 << width) - 1) for i in range(4)]
            assert list(int(word[lane]).to_bytes(4, "little")) == elements


def test_stmatrix_of_bytes_stores_an_accumulator_by_columns() -> None:
    lanes = Lanes(1, memory=128)
    words = np.arange(32, dtype=np.uint32) * np.uint32(0x04040404) + np.uint32(0x03020100)
    op = operation(
        "stmatrix.sync.aligned.m16n8.x1.trans.shared.b8", shapes.address(shapes.register(".u64")), regs(".b32", 1), target="sm_100a"
    )
    mma.stmatrix(op).run(lanes, (np.arange(32) * 16 % 128).astype(np.uint64), (words,))
    stored = lanes.bytes[0].reshape(8, 16)
    for lane in range(32):
        for i in range(4):
            row, column = c_place(lane, i)
            assert stored[column, row] == words[lane].tobytes()[i]


def test_movmatrix_transposes() -> None:
    matrix = np.arange(64, dtype=np.uint16).reshape(8, 8)
    op = operation("movmatrix.sync.aligned.m8n8.trans.b16", regs(".b32"), regs(".b32"))
    got = mma.movmatrix(op).run(Lanes(1), matrix.view(np.uint32).reshape(-1))
    assert (got.view(np.uint16).reshape(8, 8) == matrix.T).all()
