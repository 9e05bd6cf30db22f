"""MMAs of the fifth generation of tensor cores: instruction descriptors, and A·B + D (ISA 9.1: 9.7.16.4.2, 9.7.16.10)."""

from __future__ import annotations

from typing import Any

import numpy as np

from ptxkit.frozen import frozen
from ptxkit.machine.matrices import sparsity
from ptxkit.machine.matrices.elements import BITS, format_of, integers, scale_format
from ptxkit.machine.matrices.products import Factor, adder, float_product, integer_product
from ptxkit.machine.matrices.scaling import scaled

Array = np.ndarray[Any, Any]

_SMALL = {0: ".e4m3", 1: ".e5m2", 3: ".e2m3", 4: ".e3m2", 5: ".e2m1"}
_MULTIPLICANDS = {
    ".kind::f16": {0: ".f16", 1: ".bf16"},
    ".kind::tf32": {2: ".tf32"},
    ".kind::f8f6f4": _SMALL,
    ".kind::mxf8f6f4": _SMALL,
    ".kind::i8": {0: ".u8", 1: ".s8"},
    ".kind::mxf4": {1: ".e2m1"},
    ".kind::mxf4nvf4": {1: ".e2m1"},
}
_RESULTS = {".kind::i8": {2: ".s32"}, ".kind::tf32": {1: ".f32"}}


@frozen
class Instruction:
    """An instruction descriptor, decoded for a kind. `k` is the depth of the product, doubled if A is sparse."""

    m: int
    n: int
    k: int
    atype: str
    btype: str
    dtype: str
    negative: bool
    a_transposed: bool
    b_transposed: bool
    saturate: bool
    selector: int
    a_scale: int
    b_scale: int
    scale: str

    @property
    def bits(self) -> int:
        """Size of an element of A and B in bits, packed as the kind requires."""
        return 4 if self.k >= 64 and self.scale and self.atype == ".e2m1" and self.packed else BITS[self.atype]

    packed: bool = False
    """Whether 4-bit elements are packed without gaps."""


def decode(word: int, kind: str, sparse: bool) -> Instruction:
    """Decodes a descriptor. Raises ValueError for types, sizes or a depth that the kind does not support."""

    def field(at: int, width: int) -> int:
        return word >> at & ((1 << width) - 1)

    block = kind.startswith(".kind::mx")
    packed = kind in (".kind::mxf4", ".kind::mxf4nvf4")
    types = _MULTIPLICANDS[kind]
    a, b = field(7, 3), field(10, 2 if packed else 3)
    if a not in types or b not in types:
        raise ValueError(f"the instruction descriptor has types {a} and {b}, which {kind} does not support")
    results = {1: ".f32"} if block else _RESULTS.get(kind, {0: ".f16", 1: ".f32"})
    d = 1 if block else field(4, 2)
    if d not in results:
        raise ValueError(f"the instruction descriptor has type {d} for D, which {kind} does not support")
    if bool(field(2, 1)) != sparse:
        raise ValueError(f"the instruction descriptor says that A is {'dense' if sparse else 'sparse'}, the instruction that it is not")
    if packed and field(31, 1):
        raise ValueError("products of depth 96 are not modelled: how their scales lie is known from figures only")
    bits = 4 if packed else BITS[types[a]]
    m = field(27, 2) << 7 if block else field(24, 5) << 4
    n = field(17, 6) << 3
    if m not in (32, 64, 128, 256) or not 8 <= n <= 256:
        raise ValueError(f"the instruction descriptor has M = {m} and N = {n}, which is not a valid shape")
    return Instruction(
        m,
        n,
        256 // bits * (2 if sparse else 1),
        types[a],
        types[b],
        results[d],
        bool(field(13, 1)) != bool(field(14, 1)),
        bool(field(15, 1)),
        bool(field(16, 1)),
        kind == ".kind::i8" and bool(field(3, 1)),
        0 if block else field(0, 2),
        field(29, 2) if block else 0,
        field(4, 2) if block else 0,
        (".ue8m0" if field(23, 1) else ".ue4m3") if block else "",
        packed,
    )


def product(
    what: Instruction, target: str, a: Array, b: Array, c: Array, chosen: Array | None, scales: tuple[Array, Array] | None
) -> Array:
    """a·b + c: bits (1, M, K) and (1, K, N), values (1, M, N), the columns of a sparse A, and codes of scales (1, M, s) and (1, s, N)."""
    if what.atype in (".s8", ".u8"):
        left = integers(a, what.atype)
        if chosen is not None:
            left = sparsity.expanded(left, chosen)
        return integer_product(left, integers(b, what.btype), c, what.saturate)
    left_format, right_format = format_of(what.atype, what.packed), format_of(what.btype, what.packed)
    if what.negative:
        a = a ^ a.dtype.type(left_format.sign)
    a, b = left_format.index(a), right_format.index(b)
    if scales is not None:
        if chosen is not None:
            a = sparsity.expanded(a, chosen)
        table = scale_format(what.scale)
        return scaled(Factor(left_format, a), Factor(right_format, b), c, Factor(table, scales[0]), Factor(table, scales[1]), what.packed)
    if chosen is not None:
        b = sparsity.matching(b, chosen)
    how = adder(target, "tcgen05", what.atype, a.shape[2])
    return float_product(Factor(left_format, a), Factor(right_format, b), c, how, BITS[what.dtype])


def halves(cells: Array) -> Array:
    """The `float16` values in the lower halves of cells."""
    return (cells & 0xFFFF).astype(np.uint16).view(np.float16)
