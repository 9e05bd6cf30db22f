"""Semantics of `isa/wmma.isa`: fragments that are loaded, multiplied and stored (ISA 9.7.15.3)."""

from __future__ import annotations

from typing import Any

import numpy as np

from ptxkit.machine.matrices import layouts
from ptxkit.machine.matrices.elements import BITS, packed
from ptxkit.machine.matrices.fragments import as_written, gathered, scattered, words
from ptxkit.machine.matrices.instructions import FLOATS, REGISTER, product_of, shape_of, types_of
from ptxkit.machine.matrices.layouts import Layout
from ptxkit.machine.operation import Operation, Semantics
from ptxkit.machine.types import dtype_of

Array = np.ndarray[Any, Any]


def wmma(op: Operation) -> Semantics:
    """§ 9.7.15.3.3 to 9.7.15.3.5."""
    if op.has(".mma"):
        return _multiply(op)
    return _load(op) if op.has(".load") else _store(op)


def _load(op: Operation) -> Semantics:
    """§ 9.7.15.3.3: each lane loads its elements; those of a register at once if they are contiguous in memory."""
    space, places = op.space("p"), _Places(op)
    registers, register = op.width("r"), op.dtype("r")

    def run(lanes: Any, p: Any, stride: Any = None) -> Any:
        loaded = [lanes.load(space, address, places.unit) for address in places.addresses(lanes, p, stride)]
        held = packed(np.stack(loaded, -1), register)
        return as_written(op, "r", [np.ascontiguousarray(held[:, r % held.shape[1]]) for r in range(registers)])

    return Semantics(run, lanes=True)


def _store(op: Operation) -> Semantics:
    """§ 9.7.15.3.4."""
    space, places = op.space("p"), _Places(op)

    def run(lanes: Any, p: Any, r: Any, stride: Any = None) -> None:
        registers = r if isinstance(r, tuple) else (r,)
        values = np.stack([np.broadcast_to(x, lanes.count) for x in registers], -1).view(places.unit)
        for column, address in enumerate(places.addresses(lanes, p, stride)):
            lanes.store(space, address, np.ascontiguousarray(values[:, column]))

    return Semantics(run, lanes=True)


class _Places:
    """The location of a fragment in memory: `unit` is the dtype of one load, `major` and `minor` the line and the index in it of each
    unit."""

    def __init__(self, op: Operation) -> None:
        fragment = op.bound.fragments[0]
        self.bits = BITS[fragment.type]
        layout = layouts.opaque(fragment.matrix, shape_of(op), fragment.type)
        major, minor = (layout.rows, layout.columns) if fragment.layout == ".row" else (layout.columns, layout.rows)
        self.leading = layout.shape[1 if fragment.layout == ".row" else 0]
        each = max(1, 32 // self.bits)
        whole = self.bits < 32 and self._neighbours(major, minor, each)
        self.unit = np.dtype(np.uint32) if whole else np.dtype(f"uint{self.bits}")
        step = each if whole else 1
        self.major, self.minor = major[:, ::step], minor[:, ::step]

    @staticmethod
    def _neighbours(major: Array, minor: Array, each: int) -> bool:
        """Whether the elements of every register are contiguous in memory."""
        rows, columns = (x.reshape(32, -1, each) for x in (major, minor))
        return bool((rows == rows[..., :1]).all() and (columns - columns[..., :1] == np.arange(each)).all())

    def addresses(self, lanes: Any, p: Any, stride: Any) -> list[Array]:
        """The address of each unit, as arrays over lanes."""
        stride = np.asarray(self.leading if stride is None else stride).astype(np.int64)
        major, minor = self.major[lanes.lane], self.minor[lanes.lane]
        offset = (major * np.broadcast_to(stride, lanes.count)[:, None] + minor) * self.bits // 8
        return list((np.broadcast_to(p, lanes.count)[:, None] + offset.astype(np.uint64)).T)


def _multiply(op: Operation) -> Semantics:
    """§ 9.7.15.3.5."""
    shape = shape_of(op)
    types = types_of(op)
    if len(types) == 2:  # halves: only D and C are written
        dtype, atype, btype, ctype = types[0], ".f16", ".f16", types[1]
    else:
        dtype, atype, btype, ctype = types
    a_layout, b_layout = (layouts.opaque(m, shape, t) for m, t in (("a", atype), ("b", btype)))
    c_layout = layouts.opaque("c", shape, ".f32")
    compute = product_of(op, "wmma", dtype, atype, btype, shape[2])
    finite = op.has(".satfinite") and atype in FLOATS

    def run(lanes: Any, a: Any, b: Any, c: Any) -> Any:
        collect = lanes.by_warp
        if atype == ".b1":
            left, right = _words_along_k(collect, a), _words_along_k(collect, b).swapaxes(1, 2)
        else:
            left, right = _matrix(collect, a, BITS[atype], a_layout), _matrix(collect, b, BITS[btype], b_layout)
        third = gathered(collect, c, BITS[ctype], c_layout).view(dtype_of(ctype))
        result = compute(left, right, third, None)
        if finite:
            result = np.nan_to_num(result, nan=0.0)
        return as_written(op, "d", scattered(lanes.from_warp, result, c_layout, REGISTER[dtype]))

    return Semantics(run, lanes=True)


def _matrix(collect: Any, registers: Any, bits: int, layout: Layout) -> Array:
    """A or B; in a fragment with copies, the first ones are used."""
    registers = registers if isinstance(registers, tuple) else (registers,)
    held = layout.rows.shape[1] * bits // (8 * np.asarray(registers[0]).dtype.itemsize)
    return gathered(collect, registers[: max(1, held)], bits, layout)


def _words_along_k(collect: Any, register: Any) -> Array:
    """Rows of A or columns of B of single bits: (warps, 8, words)."""
    return words(collect, register).reshape(-1, 8, 4)
