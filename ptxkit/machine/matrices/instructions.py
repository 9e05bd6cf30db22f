"""Common parts of all matrix multiplication instructions: shapes, types, and the product that they compute."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np

from ptxkit.machine.matrices import sparsity
from ptxkit.machine.matrices.elements import BITS, format_of, integers
from ptxkit.machine.matrices.products import Adder, Factor, adder, bit_product, double_product, float_product, integer_product
from ptxkit.machine.operation import Operation

Array = np.ndarray[Any, Any]

FLOATS = (".f16", ".bf16", ".tf32", ".e4m3", ".e5m2", ".e3m2", ".e2m3", ".e2m1")


REGISTER = {".f16": "uint32", ".f32": "float32", ".s32": "int32", ".f64": "float64"}
"""The dtype of a register of D."""


def shape_of(op: Operation) -> tuple[int, int, int]:
    """M, N and K."""
    found = next(m for modifier in op.bound.modifiers if (m := re.fullmatch(r"\.m(\d+)n(\d+)k(\d+)", modifier)))
    return int(found[1]), int(found[2]), int(found[3])


def types_of(op: Operation) -> tuple[str, ...]:
    """The types in the opcode, in order: those of D, A, B and C, and of the scales."""
    return tuple(m for m in op.bound.modifiers if m in BITS or m == ".f64")


def product_of(op: Operation, instruction: str, dtype: str, atype: str, btype: str, k: int) -> Callable[..., Array]:
    """The product of an instruction: a function of A and B as bits (groups, M, K) and (groups, K, N), C as values, and the columns of a
    sparse A."""
    if atype == ".f64":
        rounding = (op.slot(".rnd") or ".rn")[1:]
        return lambda a, b, c, chosen: double_product(a.view(np.float64), b.view(np.float64), c, rounding)
    if atype == ".b1":
        operation = ".xor" if op.has(".xor") else ".and"
        return lambda a, b, c, chosen: bit_product(a, b, c, operation)
    if atype in FLOATS:
        return _float_product(dtype, atype, btype, adder(op.target, instruction, atype, k))
    saturate = op.has(".satfinite")

    def integer(a: Array, b: Array, c: Array, chosen: Array | None) -> Array:
        left = integers(a, atype)
        return integer_product(left if chosen is None else sparsity.expanded(left, chosen), integers(b, btype), c, saturate)

    return integer


def _float_product(dtype: str, atype: str, btype: str, how: Adder) -> Callable[..., Array]:
    """The product of floating-point matrices given as bits."""
    left, right = format_of(atype), format_of(btype)

    def compute(a: Array, b: Array, c: Array, chosen: Array | None) -> Array:
        matching = b if chosen is None else sparsity.matching(b, chosen)
        return float_product(Factor(left, left.index(a)), Factor(right, right.index(matching)), c, how, BITS[dtype])

    return compute
