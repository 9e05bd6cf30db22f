"""Semantics of `isa/mma.isa`: matrix multiply-accumulate by a warp, and moves of matrices (ISA 9.7.15.4, 9.7.15.5)."""

from __future__ import annotations

from typing import Any

import numpy as np

from ptxkit.machine.matrices import layouts, sparsity
from ptxkit.machine.matrices.elements import BITS, packed, unpacked, widened
from ptxkit.machine.matrices.fragments import Collect, as_written, gathered, scattered, spread_words, words
from ptxkit.machine.matrices.instructions import REGISTER, product_of, shape_of, types_of
from ptxkit.machine.matrices.layouts import Layout, to_fragments, to_matrix
from ptxkit.machine.matrices.scaling import scaled_product
from ptxkit.machine.operation import Operation, Semantics, Unsupported
from ptxkit.machine.types import dtype_of

Array = np.ndarray[Any, Any]


def mma(op: Operation) -> Semantics:
    """§ 9.7.15.4.14, 9.7.15.5.3: multiplies the matrices in the registers of each warp and adds a third."""
    m, n, k = shape_of(op)
    dtype, atype, btype, ctype = types_of(op)[:4]
    if (m, n, k) == (8, 8, 4) and atype in (".bf16", ".tf32"):
        raise Unsupported("the manual has no such form, and what ptxas makes of it leaves the results undefined (seen on an H200)")
    if (m, n, k) == (8, 8, 4) and atype != ".f64":
        return _quarters(op, dtype, atype, ctype)
    narrow = k >= 64 and op.has(".block_scale")
    abits, bbits = (4, 4) if narrow and atype == ".e2m1" else (BITS[atype], BITS[btype])
    sparse = any(modifier.startswith(".sp") for modifier in op.bound.modifiers)
    a_layout = layouts.multiplicand_a(m, k // 2 if sparse else k, abits)
    b_layout = layouts.multiplicand_b(k, n, bbits)
    c_layout = layouts.accumulator(m, n)
    selector = op.constants.get("f", 0) if sparse else 0
    compute = product_of(op, "mma", dtype, atype, btype, k // 2 if sparse else k)
    if op.has(".block_scale"):
        compute = scaled_product(op, atype, btype, types_of(op)[4])

    def run(lanes: Any, a: Any, b: Any, c: Any, *rest: Any) -> Any:
        collect = lanes.by_warp
        left = gathered(collect, a, abits, a_layout) if atype != ".b1" else _words_of_rows(collect, a, m)
        right = gathered(collect, b, bbits, b_layout) if atype != ".b1" else _words_of_columns(collect, b)
        third = gathered(collect, c, BITS[ctype], c_layout).view(dtype_of(ctype))
        chosen = None
        if sparse:
            chosen = sparsity.columns(words(collect, rest[0])[:, :, 0], selector, k // 2, abits)
            rest = rest[2:]
        scales = _scale_factors(collect, op, *rest) if rest else ()
        result = compute(left, right, third, chosen, *scales)
        return as_written(op, "d", scattered(lanes.from_warp, result, c_layout, REGISTER[dtype]))

    return Semantics(run, lanes=True)


def _words_of_rows(collect: Collect, registers: Any, m: int) -> Array:
    """A of single bits: (warps, rows, words along K)."""
    held = words(collect, registers).reshape(-1, 8, 4, max(1, len(registers) // (m // 8)), m // 8)
    return held.transpose(0, 4, 1, 3, 2).reshape(len(held), m, -1)


def _words_of_columns(collect: Collect, registers: Any) -> Array:
    """B of single bits: (warps, words along K, columns)."""
    held = words(collect, registers).reshape(-1, 8, 4, len(registers) if isinstance(registers, tuple) else 1)
    return held.transpose(0, 3, 2, 1).reshape(len(held), -1, 8)


def _scale_factors(
    collect: Collect, op: Operation, ascale: Any, abyte: Any, athread: Any, bscale: Any, bbyte: Any, bthread: Any
) -> tuple[Array, Array]:
    """The codes of the scales of A's rows (warps, 16, scales) and of B's columns (warps, scales, 8) (ISA 9.7.14.5, block scaling).

    Lane `2·thread` of a group has the scales of row `g`, the next lane those of row `g + 8`, lane `thread` those of column `g`.
    """
    count = {".scale_vec::2X": 2, ".scale_vec::4X": 4}.get(op.slot(".scale_vec"), 2 if op.has(".kind::mxf4") else 1)
    abyte, athread, bbyte, bthread = (int(np.ravel(x)[0]) for x in (abyte, athread, bbyte, bthread))
    of_a = unpacked(words(collect, ascale), 8).reshape(-1, 8, 4, 4)[:, :, 2 * athread : 2 * athread + 2, abyte : abyte + count]
    of_b = unpacked(words(collect, bscale), 8).reshape(-1, 8, 4, 4)[:, :, bthread, bbyte : bbyte + count]
    return of_a.swapaxes(1, 2).reshape(len(of_a), 16, count), of_b.swapaxes(1, 2)


def _quarters(op: Operation, dtype: str, atype: str, ctype: str) -> Semantics:
    """`m8n8k4`: four products, each by eight lanes."""
    a_by_rows, b_by_rows = op.slot(".alayout") == ".row", op.slot(".blayout") == ".row"
    a_layout, b_layout = layouts.quarter_a(a_by_rows), layouts.quarter_b(b_by_rows)
    c_layout, d_layout = layouts.quarter_c(BITS[ctype]), layouts.quarter_c(BITS[dtype])
    compute = product_of(op, "mma.m8n8k4", dtype, atype, atype, 4)

    def run(lanes: Any, a: Any, b: Any, c: Any) -> Any:
        left = gathered(lanes.by_warp, a, BITS[atype], a_layout).reshape(-1, 8, 4)
        right = gathered(lanes.by_warp, b, BITS[atype], b_layout).reshape(-1, 8, 4).swapaxes(1, 2)
        third = gathered(lanes.by_warp, c, BITS[ctype], c_layout).view(dtype_of(ctype)).reshape(-1, 8, 8)
        result = compute(left, right, third, None).reshape(-1, 32, 8)
        return scattered(lanes.from_warp, result, d_layout, REGISTER[dtype])

    return Semantics(run, lanes=True)


def _addresses_of(lanes: Any, opcode: str, number: int) -> None:
    """Raises a fault for warps in which one of the first `number` lanes, which hold row addresses, is missing."""
    missing = number - lanes.by_warp(np.ones(lanes.count, bool))[:, :number].sum(1)
    if not missing.any():
        return
    mask = lanes.from_warp(np.broadcast_to(missing[:, None] > 0, (len(missing), 32)))
    reason = (
        f"{opcode} takes the addresses of rows from lanes 0 to {number - 1} of a warp, and {missing.max()} of them are missing: "
        "all threads of the warp must execute it"
    )
    lanes.fault(mask, reason, "warp")


def ldmatrix(op: Operation) -> Semantics:
    """§ 9.7.15.4.15: loads the rows at the addresses of the first lanes as fragments; `.trans` loads columns."""
    if not op.bound.form.modelled:
        raise Unsupported("the manual for PTX 9.4 is not out: what this form does is not known")
    count, space = int(op.slot(".num")[2:]), op.space("p")
    rows = 16 if op.has(".m16n16") else 8
    bits = 16 if op.has(".b16") else 8
    columns = 128 // bits
    layout = layouts.moved(rows, columns, bits)
    if op.has(".trans"):
        layout = layouts.transposed(layouts.moved(columns, rows, bits))
    width = {".b6x16_p32": 6, ".b4x16_p64": 4}.get(op.slot(".src_fmt"))

    def run(lanes: Any, p: Array) -> Any:
        _addresses_of(lanes, "ldmatrix", rows * count)
        held = lanes.subset(lanes.lane < rows * count)
        loaded = held.load(space, np.broadcast_to(p, lanes.count)[lanes.lane < rows * count], np.dtype(np.uint32), 4)
        octets = np.ascontiguousarray(words(held.by_warp, loaded)[:, : rows * count]).view(np.uint8)
        if width is not None:
            octets = widened(octets, width)
        matrices = octets.view(f"uint{bits}").reshape(-1, rows, columns)
        registers = packed(to_fragments(layout, matrices), np.dtype(np.uint32))
        each = registers.shape[2]
        registers = registers.reshape(-1, count, 32, each).swapaxes(1, 2).reshape(-1, 32, count * each)
        return as_written(op, "r", spread_words(lanes.from_warp, registers))

    return Semantics(run, lanes=True)


def stmatrix(op: Operation) -> Semantics:
    """§ 9.7.15.4.16: stores fragments, the inverse of `ldmatrix`."""
    count, space = int(op.slot(".num")[2:]), op.space("p")
    layout = layouts.moved(8, 8, 16)
    bits = 16 if op.has(".b16") else 8
    if bits == 8:
        layout = layouts.accumulator(16, 8)
    if op.has(".trans"):
        layout = layouts.transposed(layout)

    def run(lanes: Any, p: Array, r: Any) -> None:
        _addresses_of(lanes, "stmatrix", 8 * count)
        registers = words(lanes.by_warp, r)
        elements = unpacked(registers.swapaxes(1, 2)[..., None], bits)
        matrices = to_matrix(layout, elements.reshape(-1, 32, 32 // bits))
        rows = np.zeros((len(registers), 32, 4), np.uint32)
        rows[:, : 8 * count] = np.ascontiguousarray(matrices).view(np.uint32).reshape(len(registers), 8 * count, 4)
        storing = lanes.lane < 8 * count
        values = tuple(lanes.from_warp(np.ascontiguousarray(rows[:, :, w]))[storing] for w in range(4))
        lanes.subset(storing).store(space, np.broadcast_to(p, lanes.count)[storing], values)

    return Semantics(run, lanes=True)


def movmatrix(op: Operation) -> Semantics:
    """§ 9.7.15.4.17: transposes an 8x8 matrix of 16-bit elements."""
    layout: Layout = layouts.moved(8, 8, 16)

    def run(lanes: Any, a: Any) -> Any:
        matrices = gathered(lanes.by_warp, a, 16, layout).swapaxes(1, 2)
        return as_written(op, "d", scattered(lanes.from_warp, matrices, layout, "uint32"))

    return Semantics(run, lanes=True)
