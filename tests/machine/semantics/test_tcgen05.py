"""The fifth generation of tensor cores, executed: tensor memory filled, an instruction of one thread, tensor memory read back."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from spreading import compressed, place, random, value

from ptxkit.machine import Fault, Machine
from ptxkit.machine.matrices.elements import BITS, format_of

SHARED = 65536
A, B, OTHER = 0, 32768, 49152
"""Where tiles are in shared memory."""

KERNEL = """
.version 9.0
.target {target}
.address_size 64
.visible .entry k(.param .u64 tiles, .param .u64 cells, .param .u64 out) {cluster}
{{
    .shared .align 1024 .b8 tile[{shared}];
    .shared .align 8 .b64 bar;
    .shared .align 4 .b32 where;
    .reg .pred p, q, on;
    .reg .b32 t, warp, d, s, n, x, rank, r<32>, z<4>, e;
    .reg .b64 g, h, i, here;
    mov.u32 t, %tid.x;
    mov.u32 rank, %cluster_ctarank;
    shr.u32 warp, t, 5;
    ld.param.u64 g, [tiles];
    mul.wide.u32 i, rank, {shared};
    add.u64 g, g, i;
    mov.u32 n, 0;
copy:
    shl.b32 x, t, 4;
    add.u32 x, x, n;
    cvt.u64.u32 h, x;
    add.u64 h, h, g;
    ld.global.v4.b32 {{r0, r1, r2, r3}}, [h];
    mov.u32 s, tile;
    add.u32 s, s, x;
    st.shared.v4.b32 [s], {{r0, r1, r2, r3}};
    add.u32 n, n, 2048;
    setp.lt.u32 p, n, {shared};
    @p bra copy;
    setp.eq.u32 p, warp, 0;
    @!p bra allocated;
    tcgen05.alloc.{group}.sync.aligned.shared::cta.b32 [where], 512;
    tcgen05.relinquish_alloc_permit.{group}.sync.aligned;
allocated:
    setp.eq.u32 q, t, 0;
    @q mbarrier.init.shared::cta.b64 [bar], 1;
    fence.proxy.async.shared::cta;
    bar.sync 0;
    ld.shared.u32 d, [where];
    ld.param.u64 g, [cells];
    mul.wide.u32 i, rank, 262144;
    add.u64 g, g, i;
    mul.wide.u32 h, t, 2048;
    add.u64 h, h, g;
    shl.b32 x, warp, 21;
    add.u32 x, x, d;
    {fill}
    tcgen05.wait::st.sync.aligned;
    tcgen05.fence::before_thread_sync;
    {sync}
    tcgen05.fence::after_thread_sync;
    setp.ne.u32 on, d, 77;
    mov.u32 s, tile;
    and.b32 s, s, 0x3ffff;
    shr.u32 s, s, 4;
    cvt.u64.u32 here, s;
    @{issuer} bra issued;
    {body}
    tcgen05.commit.{group}.mbarrier::arrive::one.shared::cluster.b64 [bar];
wait:
    mbarrier.try_wait.parity.shared::cta.b64 p, [bar], 0;
    @!p bra wait;
issued:
    {sync}
    tcgen05.fence::after_thread_sync;
    {warps}
    ld.param.u64 g, [out];
    mul.wide.u32 i, rank, 262144;
    add.u64 g, g, i;
    mul.wide.u32 h, t, 2048;
    add.u64 h, h, g;
    {read}
    bar.sync 0;
    setp.eq.u32 p, warp, 0;
    @!p bra done;
    tcgen05.dealloc.{group}.sync.aligned.b32 d, 512;
done:
    ret;
}}
"""

REGISTERS = "{" + ", ".join(f"r{i}" for i in range(32)) + "}"


def execute(body: str, tiles: Any = None, cells: Any = None, *, warps: str = "", target: str = "sm_100a", ctas: int = 1) -> Any:
    """The cells (ctas, 128, 512) after thread 0 (of the first CTA of a pair) has executed `body`, and all warps `warps`.

    There is a pair for `cta_group::2`, else as many CTAs as asked for, in one cluster.

    `here` is the address of `tile` as descriptors have it, `d` that of the allocation, `on` true.
    """
    pair = "cta_group::2" in body
    ctas = 2 if pair else ctas
    tiles = np.zeros((ctas, SHARED), np.uint8) if tiles is None else tiles
    cells = np.zeros((ctas, 128, 512), np.uint32) if cells is None else cells
    fill, read = [], []
    for column in range(0, 512, 32):
        for at in range(0, 32, 4):
            four = f"{{r{at}, r{at + 1}, r{at + 2}, r{at + 3}}}"
            fill.append(f"ld.global.v4.b32 {four}, [h+{4 * (column + at)}];")
            read.append(f"st.global.v4.b32 [h+{4 * (column + at)}], {four};")
        fill += [f"add.u32 n, x, {column};", f"tcgen05.st.sync.aligned.32x32b.x32.b32 [n], {REGISTERS};"]
        part = read[-8:]
        del read[-8:]
        read += [
            f"add.u32 n, x, {column};",
            f"tcgen05.ld.sync.aligned.32x32b.x32.b32 {REGISTERS}, [n];",
            "tcgen05.wait::ld.sync.aligned;",
            *part,
        ]
    text = KERNEL.format(
        target=target,
        shared=SHARED,
        cluster=f".reqnctapercluster {ctas}" if ctas > 1 else "",
        group="cta_group::2" if pair else "cta_group::1",
        fill="\n".join(fill),
        read="\n".join(read),
        sync="barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" if ctas > 1 else "bar.sync 0;",
        issuer="!q",
        body=("setp.ne.u32 p, rank, 0; @p bra issued;" if pair else "") + body,
        warps=warps,
    )
    out = np.zeros((ctas, 128, 512), np.uint32)
    machine = Machine(target=target)
    machine.launch(machine.load(text), "k", tiles, cells, out, grid=ctas, block=128, cluster=ctas if ctas > 1 else None)
    return out


# -- loads and stores


def _location(shape: str, lane: int, register: int, offset: int, packed: bool) -> tuple[int, int]:
    """Where a register of a lane is, as CUTLASS' layouts have it."""
    width = 2 if packed else 1
    if shape == "32x32b":
        return lane, register * width
    if shape == "16x32bx2":
        return lane % 16, register * width + lane // 16 * offset
    if shape == "16x64b":
        return lane // 4 + 8 * (lane & 1), ((lane >> 1 & 1) + 2 * register) * width
    if shape == "16x128b":
        return lane // 4 + 8 * (register & 1), (lane % 4 + 4 * (register >> 1)) * width
    return lane // 4 + 8 * (register >> 1 & 1), ((register & 1) + 2 * (lane % 4) + 8 * (register >> 2)) * width


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("shape", ["32x32b", "16x32bx2", "16x64b", "16x128b", "16x256b"])
def test_loads_and_stores(shape: str, packed: bool) -> None:
    """What is loaded from one place is stored to another: as `.16x…` reaches half of the lanes of a warp, the others stay."""
    num, offset = 2, 8
    count = num * {"16x128b": 2, "16x256b": 4}.get(shape, 1)
    registers = "{" + ", ".join(f"r{i}" for i in range(count)) + "}"
    split, first = (", 8", "8, ") if shape == "16x32bx2" else ("", "")
    cells = np.random.default_rng(1).integers(0, 1 << 32, (1, 128, 512), dtype=np.uint64).astype(np.uint32)
    warps = f"""tcgen05.ld.sync.aligned.{shape}.x{num}{".pack::16b" if packed else ""}.b32 {registers}, [x]{split};
        tcgen05.wait::ld.sync.aligned;
        add.u32 n, x, 64;
        tcgen05.st.sync.aligned.{shape}.x{num}{".unpack::16b" if packed else ""}.b32 [n], {first}{registers};
        tcgen05.wait::st.sync.aligned;"""
    out = execute("", cells=cells, warps=warps)
    expected = cells.copy()
    for warp in range(4):
        for lane in range(32):
            for register in range(count):
                row, column = _location(shape, lane, register, offset, packed)
                for half in range(2 if packed else 1):
                    found = cells[0, 32 * warp + row, column + half]
                    expected[0, 32 * warp + row, column + half + 64] = found & 0xFFFF if packed else found
    assert (out == expected).all()


@pytest.mark.parametrize(("op", "function"), [("min.u32", np.min), ("max.s32", np.max), ("min.NaN.f32", np.min), ("max.abs.f32", np.max)])
def test_loads_that_reduce(op: str, function: Any) -> None:
    cells = np.random.default_rng(2).integers(0, 1 << 31, (1, 128, 512), dtype=np.uint32)
    warps = f"""tcgen05.ld.red.sync.aligned.32x32b.x4.{op} {{r0, r1, r2, r3}}, {{r4}}, [x];
        tcgen05.wait::ld.sync.aligned;
        add.u32 n, x, 64;
        tcgen05.st.sync.aligned.32x32b.x1.b32 [n], {{r4}};"""
    cells[0, :, :4] &= 0x3FFFFFFF
    out = execute("", cells=cells, warps=warps, target="sm_103a")
    dtype = {"u32": np.uint32, "s32": np.int32, "f32": np.float32}[op[-3:]]
    assert (out[0, :, 64].view(dtype) == function(cells[0, :, :4].view(dtype), axis=1)).all()


def test_what_is_added_to_an_address_counts_columns() -> None:
    cells = np.random.default_rng(9).integers(0, 1 << 32, (1, 128, 512), dtype=np.uint64).astype(np.uint32)
    out = execute(
        "",
        cells=cells,
        warps="""tcgen05.ld.sync.aligned.32x32b.x2.b32 {r0, r1}, [x + 5];
        tcgen05.wait::ld.sync.aligned;
        add.u32 n, x, 80;
        tcgen05.st.sync.aligned.32x32b.x2.b32 [n - 10], {r0, r1};""",
    )
    expected = cells.copy()
    expected[0, :, 70:72] = cells[0, :, 5:7]
    assert (out == expected).all()


def test_a_warp_reaches_its_own_lanes() -> None:
    with pytest.raises(Fault, match="of a warpgroup can access only lanes"):
        execute("", warps="add.u32 n, d, 0x400000; tcgen05.ld.sync.aligned.32x32b.x1.b32 {r0}, [n];")


def test_a_warp_that_names_the_first_lanes_means_its_own() -> None:
    cells = np.arange(128 * 512, dtype=np.uint32).reshape(1, 128, 512)
    out = execute(
        "",
        cells=cells,
        warps="""and.b32 n, x, 0xffff; tcgen05.ld.sync.aligned.32x32b.x1.b32 {r0}, [n]; tcgen05.wait::ld.sync.aligned;
        add.u32 n, n, 9; tcgen05.st.sync.aligned.32x32b.x1.b32 [n], {r0};""",
    )
    assert (out[0, :, 9] == cells[0, :, 0]).all()


def test_the_second_cta_of_a_pair_may_count_its_lanes_from_128() -> None:
    cells = np.arange(2 * 128 * 512, dtype=np.uint32).reshape(2, 128, 512)
    out = execute(
        "",
        cells=cells,
        ctas=2,
        warps="""shl.b32 n, rank, 23; add.u32 n, n, x; tcgen05.ld.sync.aligned.32x32b.x1.b32 {r0}, [n]; tcgen05.wait::ld.sync.aligned;
        add.u32 n, n, 9; tcgen05.st.sync.aligned.32x32b.x1.b32 [n], {r0};""",
    )
    assert (out[:, :, 9] == cells[:, :, 0]).all()


def test_the_first_cta_of_a_pair_has_128_lanes() -> None:
    with pytest.raises(Fault, match="of a warpgroup can access only lanes"):
        execute("", ctas=2, warps="add.u32 n, d, 0x800000; tcgen05.ld.sync.aligned.32x32b.x1.b32 {r0}, [n];")


# -- copies


def _rows(data: Any, rows: int, chunks: int) -> Any:
    """Rows of 16-byte chunks as core matrices, and the descriptor's distances."""
    out = np.zeros(SHARED, np.uint8)
    for row in range(rows):
        for chunk in range(chunks):
            at = row // 8 * chunks * 128 + chunk * 128 + row % 8 * 16
            out[at : at + 16] = data[row, 16 * chunk : 16 * chunk + 16]
    return out, 128 >> 4 << 16 | chunks * 128 >> 4 << 32


COPIES = [("128x256b", 128, [0]), ("128x128b", 128, [0]), ("32x128b.warpx4", 32, [0, 32, 64, 96]), ("64x128b.warpx2::02_13", 64, [0, 64])]


@pytest.mark.parametrize(("shape", "rows", "copies"), COPIES)
@pytest.mark.parametrize("format", ["", ".b8x16.b4x16_p64", ".b8x16.b6x16_p32"])
def test_copies(shape: str, rows: int, copies: list[int], format: str) -> None:
    rng = np.random.default_rng(3)
    chunks = 2 if "256" in shape else 1
    data = rng.integers(0, 256, (rows, 16 * chunks), dtype=np.uint8)
    tile, strides = _rows(data, rows, chunks)
    body = f"add.u64 i, here, {strides | 1 << 46}; tcgen05.cp.cta_group::1.{shape}{format} [d], i;"
    out = execute(body, tiles=tile[None])
    if format:
        width = 4 if "b4" in format else 6
        numbers = [[int.from_bytes(c.tobytes(), "little") for c in row.reshape(-1, 16)] for row in data]
        data = np.array([[[x >> width * i & ((1 << width) - 1) for i in range(16)] for x in row] for row in numbers], np.uint8).reshape(
            data.shape
        )
        data <<= 2 if width == 4 else 0
    expected = np.zeros((128, 512), np.uint32)
    for at in copies:
        expected[at : at + rows, : 4 * chunks] = data.view(np.uint32)
    assert (out[0] == expected).all()


def test_a_shift_moves_rows_down() -> None:
    cells = np.random.default_rng(4).integers(0, 1 << 32, (1, 128, 512), dtype=np.uint64).astype(np.uint32)
    out = execute("add.u32 n, d, 0x200010; tcgen05.shift.cta_group::1.down [n];", cells=cells)
    expected = cells.copy()
    expected[0, 33:64, 16:24] = cells[0, 32:63, 16:24]
    assert (out == expected).all()


def test_a_shift_starts_at_a_multiple_of_32_lanes() -> None:
    with pytest.raises(Fault, match=r"tcgen05\.shift from lane 40: it must be a multiple of 32") as caught:
        execute("add.u32 n, d, 0x280010; tcgen05.shift.cta_group::1.down [n];")
    assert caught.value.kind == "tensor lanes"


# -- products

KINDS = {
    "f16": (16, {".f16": 0, ".bf16": 1}),
    "tf32": (8, {".tf32": 2}),
    "f8f6f4": (32, {".e4m3": 0, ".e5m2": 1, ".e2m3": 3, ".e3m2": 4, ".e2m1": 5}),
    "i8": (32, {".u8": 0, ".s8": 1}),
}


def _gaps(tile: Any, type: str) -> Any:
    """A tile of bytes as it lies in shared memory: elements of 6 and 4 bits packed at the beginning of 16 bytes."""
    width = {".e2m1": 4, ".e3m2": 6, ".e2m3": 6}.get(type)
    if width is None:
        return tile
    codes = tile >> (2 if width == 4 else 0)
    out = np.zeros_like(tile)
    for row in range(len(tile)):
        for chunk in range(0, tile.shape[1], 16):
            number = sum(int(codes[row, chunk + i]) << width * i for i in range(16))
            out[row, chunk : chunk + 16] = np.frombuffer(number.to_bytes(16, "little"), np.uint8)
    return out


class _Memory:
    """What `place` wants: the shared memory of CTAs."""

    def __init__(self, ctas: int = 1) -> None:
        self.bytes = np.zeros((ctas, SHARED), np.uint8)


def _descriptor(words: int) -> int:
    """A descriptor of wgmma as tcgen05 has it."""
    swizzle = {0: 0, 1: 2, 2: 4, 3: 6}[words >> 62]
    return (words & ((1 << 46) - 1)) | 1 << 46 | swizzle << 61


def _layout(m: int, n: int, stationary: bool) -> tuple[Any, Any]:
    row, column = np.arange(m)[:, None], np.arange(n)[None, :]
    if m == 128:
        return np.broadcast_arrays(row, column)  # type: ignore[return-value]
    if stationary:
        parts = 128 // m
        return row + m * (column // (n // parts)), np.broadcast_to(column % (n // parts), (m, n))
    return np.broadcast_arrays(row % 16 + 32 * (row // 16), column)  # type: ignore[return-value]


def _matches(found: Any, left: Any, right: Any, c: Any, slack: float) -> bool:
    exact = np.matmul(left, right) + c
    return bool((abs(found - exact) <= (np.matmul(abs(left), abs(right)) + abs(c)) * slack).all())


CASES = [("f16", ".f16", ".f16", 128), ("f16", ".bf16", ".bf16", 64), ("tf32", ".tf32", ".tf32", 128), ("f8f6f4", ".e4m3", ".e2m1", 128)]
CASES += [("f8f6f4", ".e3m2", ".e5m2", 64), ("i8", ".s8", ".u8", 128)]


@pytest.mark.parametrize(("kind", "atype", "btype", "m"), CASES)
@pytest.mark.parametrize("width", [0, 128])
def test_products(kind: str, atype: str, btype: str, m: int, width: int) -> None:
    rng = np.random.default_rng(5)
    k, types = KINDS[kind]
    n, bits = 32, BITS[atype]
    memory = _Memory()
    a, b = random(rng, (m, k), atype), random(rng, (n, k), btype)
    da = _descriptor(place(memory, 0, A, _gaps(a, atype), bits, width, True))
    db = _descriptor(place(memory, 0, B, _gaps(b, btype), bits, 32, True))
    dtype = np.int32 if kind == "i8" else np.float32
    c = rng.integers(-50, 50, (m, n)).astype(dtype)
    at = _layout(m, n, False)
    cells = np.zeros((1, 128, 512), np.uint32)
    cells[0][at] = c.view(np.uint32)
    what = (2 if kind == "i8" else 1) << 4 | types[atype] << 7 | types[btype] << 10 | n >> 3 << 17 | m >> 4 << 24
    body = f"add.u64 g, here, {da}; add.u64 h, here, {db}; tcgen05.mma.cta_group::1.kind::{kind} [d], g, h, {what}, on;"
    out = execute(body, memory.bytes, cells)
    assert _matches(out[0][at].view(dtype), value(a, atype), value(b, btype).T, c, 0 if kind == "i8" else 2.0**-20)
    cells[0][at] = 0
    out[0][at] = 0
    assert (out[0] == cells[0]).all()


def test_a_from_tensor_memory_scaled_and_masked() -> None:
    rng = np.random.default_rng(6)
    m, n, k = 128, 16, 16
    memory = _Memory()
    a, b = random(rng, (m, k), ".f16"), random(rng, (n, k), ".f16")
    db = _descriptor(place(memory, 0, B, b, 16, 0, True))
    cells = np.zeros((1, 128, 512), np.uint32)
    c = rng.standard_normal((m, n)).astype(np.float32)
    cells[0, :, 64 : 64 + n] = c.view(np.uint32)
    cells[0, :, 256:264] = a.view(np.uint32)
    what = 1 << 4 | n >> 3 << 17 | m >> 4 << 24
    body = f"""add.u64 h, here, {db}; add.u32 n, d, 256; add.u32 e, d, 64;
        mov.u32 z0, 1; mov.u32 z1, 0; mov.u32 z2, 0; mov.u32 z3, 0x80000000;
        tcgen05.mma.cta_group::1.kind::f16 [e], [n], h, {what}, {{z0, z1, z2, z3}}, on, 3;"""
    found = execute(body, memory.bytes, cells)[0, :, 64 : 64 + n].view(np.float32)
    assert (found[[0, 127]] == c[[0, 127]]).all()
    assert _matches(found[1:127], value(a[1:127], ".f16"), value(b, ".f16").T, c[1:127] / 8, 2.0**-20)


@pytest.mark.parametrize("ctas", [1, 2, 4])
def test_each_cta_multiplies_what_is_its_own(ctas: int) -> None:
    """Tiles of as many chunks of 16 bytes as two CTAs have threads; places in tensor memory with something added to them."""
    rng = np.random.default_rng(16)
    m, n, k = 128, 16, 16
    tiles = np.zeros((ctas, SHARED), np.uint8)
    cells = np.zeros((ctas, 128, 512), np.uint32)
    left, right = [], []
    for cta in range(ctas):
        memory = _Memory()
        a, b = random(rng, (m, k), ".f16"), random(rng, (n, k), ".f16")
        da, db = (_descriptor(place(memory, 0, at, x, 16, 0, True)) for at, x in ((A, a), (B, b)))
        tiles[cta] = np.asarray(memory.bytes).reshape(-1)[:SHARED]
        cells[cta, :, 256:264] = a.view(np.uint32)
        left.append(value(a, ".f16"))
        right.append(value(b, ".f16").T)
    what = 1 << 4 | n >> 3 << 17 | m >> 4 << 24
    body = f"""add.u64 g, here, {da}; add.u64 h, here, {db}; mov.u32 n, {what};
        tcgen05.mma.cta_group::1.kind::f16 [d + 32], g, h, n, 0;
        tcgen05.mma.cta_group::1.kind::f16 [d + 64], [d + 256], h, n, 0;"""
    found = execute(body, tiles, cells, ctas=ctas).view(np.float32)
    for cta in range(ctas):
        for column in (32, 64):
            assert _matches(found[cta, :, column : column + n], left[cta], right[cta], 0, 2.0**-20), (cta, column)


def test_halves_are_kept_one_in_a_cell() -> None:
    rng = np.random.default_rng(7)
    m, n, k = 128, 16, 16
    memory = _Memory()
    a, b = random(rng, (m, k), ".f16"), random(rng, (n, k), ".f16")
    da = _descriptor(place(memory, 0, A, a, 16, 0, False))
    db = _descriptor(place(memory, 0, B, b, 16, 32, False))
    what = 3 << 15 | 1 << 13 | n >> 3 << 17 | m >> 4 << 24
    body = f"add.u64 g, here, {da}; add.u64 h, here, {db}; tcgen05.mma.cta_group::1.kind::f16 [d], g, h, {what}, 0;"
    found = execute(body, memory.bytes)[0, :, :n]
    assert (found < 65536).all()
    assert _matches(found.astype(np.uint16).view(np.float16).astype(float), -value(a, ".f16"), value(b, ".f16").T, 0, 2.0**-9)


@pytest.mark.parametrize("m", [32, 64, 128])
def test_weight_stationary_products(m: int) -> None:
    rng = np.random.default_rng(8)
    n, k = 64, 16
    memory = _Memory()
    a, b = random(rng, (m, k), ".f16"), random(rng, (n, k), ".f16")
    da, db = (_descriptor(place(memory, 0, at, x, 16, 64, True)) for at, x in ((A, a), (B, b)))
    what = 1 << 4 | n >> 3 << 17 | m >> 4 << 24
    body = f"add.u64 g, here, {da}; add.u64 h, here, {db}; tcgen05.mma.ws.cta_group::1.kind::f16.collector::b1::fill [d], g, h, {what}, 0;"
    found = execute(body, memory.bytes)[0][_layout(m, n, True)].view(np.float32)
    assert _matches(found, value(a, ".f16"), value(b, ".f16").T, 0, 2.0**-20)


@pytest.mark.parametrize("m", [128, 256])
def test_pairs_of_ctas(m: int) -> None:
    """Each CTA has half of the rows of A and half of the columns of B; D of 64 rows lies in two halves, one below the other."""
    rng = np.random.default_rng(9)
    n, k = 64, 16
    memory = _Memory(2)
    a, b = random(rng, (2, m // 2, k), ".f16"), random(rng, (2, n // 2, k), ".f16")
    for cta in range(2):
        da, db = (_descriptor(place(memory, cta, at, x[cta], 16, 32, True)) for at, x in ((A, a), (B, b)))
    what = 1 << 4 | n >> 3 << 17 | m >> 4 << 24
    body = f"add.u64 g, here, {da}; add.u64 h, here, {db}; tcgen05.mma.cta_group::2.kind::f16 [d], g, h, {what}, 0;"
    out = execute(body, memory.bytes)
    right = value(b.reshape(n, k), ".f16").T
    for cta in range(2):
        found = out[cta][_layout(m // 2, n, True)].view(np.float32)
        assert _matches(found, value(a[cta], ".f16"), right, 0, 2.0**-20)


@pytest.mark.parametrize(("kind", "type"), [("f16", ".f16"), ("f8f6f4", ".e4m3"), ("i8", ".s8"), ("tf32", ".tf32")])
@pytest.mark.parametrize("m", [64, 128])
def test_sparse_products(kind: str, type: str, m: int) -> None:
    rng = np.random.default_rng(10)
    k, types = KINDS[kind]
    k, n, bits = 2 * k, 16, BITS[type]
    memory = _Memory()
    full, kept, rows = compressed(rng, random(rng, (1, m, k), type), bits)
    b = random(rng, (n, k), type)
    da = _descriptor(place(memory, 0, A, kept[0], bits, 32, True))
    db = _descriptor(place(memory, 0, B, b, bits, 64, True))
    cells = np.zeros((1, 128, 512), np.uint32)
    selector = 1 if bits >= 16 else 0
    for row in range(m):
        base = row // 16 * (16 if m == 128 else 32)
        for part in range(4 if bits == 8 else 2):
            cell = (0, base + 8 * (part % 2) + row % 8, 100 + selector + part // 2)
            cells[cell] |= np.uint32((int(rows[0, row]) >> 16 * part & 0xFFFF) << (16 if row % 16 >= 8 else 0))
    dtype = np.int32 if kind == "i8" else np.float32
    what = selector | 1 << 2 | (2 if kind == "i8" else 1) << 4 | types[type] << 7 | types[type] << 10 | n >> 3 << 17 | m >> 4 << 24
    body = f"""add.u64 g, here, {da}; add.u64 h, here, {db}; add.u32 n, d, 100;
        tcgen05.mma.sp.cta_group::1.kind::{kind} [d], g, h, [n], {what}, 0;"""
    found = execute(body, memory.bytes, cells)[0][_layout(m, n, False)].view(dtype)
    assert _matches(found, value(full[0], type), value(b, type).T, 0, 0 if kind == "i8" else 2.0**-20)


SCALED = [("mxf8f6f4", ".e4m3", ".block32", 1), ("mxf4", ".e2m1", ".block32", 2), ("mxf4nvf4", ".e2m1", ".block16", 4)]


@pytest.mark.parametrize(("kind", "type", "vec", "count"), SCALED)
def test_scaled_products(kind: str, type: str, vec: str, count: int) -> None:
    rng = np.random.default_rng(11)
    m, n, k, bits = 128, 64, 32 if count == 1 else 64, 8 if count == 1 else 4
    table = format_of(type, bits == 4)
    codes = np.flatnonzero(np.isfinite(table.values))
    memory = _Memory()
    a, b = rng.choice(codes, (m, k)), rng.choice(codes, (n, k))
    da, db = (_descriptor(place(memory, 0, at, x, bits, 32, True)) for at, x in ((A, a), (B, b)))
    unsigned = kind == "mxf4nvf4"
    low, high = (0x30, 0x48) if unsigned else (120, 134)
    sa, sb = rng.integers(low, high, (m, count)), rng.integers(low, high, (n, count))
    byte = 2 if count == 2 else 3 if count == 1 else 0
    cells = np.zeros((1, 128, 512), np.uint32)
    octets = cells.view(np.uint8).reshape(128, 512, 4)
    for scales, column in ((sa, 100), (sb, 120)):
        for row in range(len(scales)):
            octets[row % 32, column + row // 32, byte : byte + count] = scales[row]
    one = 0 if count == 1 else 1
    what = byte << 4 | one << 7 | one << 10 | n >> 3 << 17 | (0 if unsigned else 1) << 23 | m >> 7 << 27 | byte << 29
    body = f"""add.u64 g, here, {da}; add.u64 h, here, {db}; add.u32 n, d, 100; add.u32 e, d, 120;
        tcgen05.mma.cta_group::1.kind::{kind}.block_scale{vec} [d], g, h, {what}, [n], [e], 0;"""
    found = execute(body, memory.bytes, cells)[0, :, :n].view(np.float32)

    def scale(x: Any) -> Any:
        return np.repeat(format_of(".e4m3").values[x] if unsigned else 2.0 ** (x - 127.0), k // count, 1)

    assert _matches(found, table.values[a] * scale(sa), (table.values[b] * scale(sb)).T, 0, 2.0**-19)


# -- what is wrong


def test_a_product_that_nobody_waits_for_is_still_in_flight_when_its_memory_is_freed() -> None:
    body = """tcgen05.mma.cta_group::1.kind::f16 [d], here, here, 0x8080010, 0;
        @q bra issued;"""
    with pytest.raises(Fault, match=r"kind::f16`, when it completed: .* not all of which are allocated"):
        execute(body)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("tcgen05.mma.cta_group::1.kind::f16 [d], here, here, 0x8080020, 0;", "has type 2 for D"),
        ("tcgen05.mma.cta_group::1.kind::f16 [d], here, here, 0x3080010, 0;", "M = 48"),
        ("tcgen05.mma.cta_group::1.kind::f16 [d], here, here, 0x8080014, 0;", "says that A is sparse"),
        ("add.u32 n, d, 500; tcgen05.mma.cta_group::1.kind::f16 [n], here, here, 0x8080010, 0;", "not all of which are allocated"),
        ("add.u64 g, here, 0x6000000000000000; tcgen05.cp.cta_group::1.128x128b [d], g;", "swizzling mode 3"),
    ],
)
def test_mistakes_end_the_launch(body: str, message: str) -> None:
    with pytest.raises(Fault, match=message):
        execute(body)
