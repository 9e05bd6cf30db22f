"""Block scaling: a scale for each 16 or 32 elements along K, of rows of A and columns of B (ISA 9.7.14.5).

Scaled 8-bit elements are summed like others, with the exponents of the scales added to those of the products. Products of 4-bit elements
are summed exactly in blocks of sixteen before they are scaled and aligned, with more bits kept (Xie et al. 2025).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ptxkit.machine.matrices import sparsity
from ptxkit.machine.matrices.accuracy import is_rough
from ptxkit.machine.matrices.elements import format_of, scale_format
from ptxkit.machine.matrices.products import LEAST, Adder, Factor, aligned_sum, exponents_of, rough_product_of, rounded
from ptxkit.machine.operation import Operation

Array = np.ndarray[Any, Any]

KEPT_OF_FOUR = 35


def scaled_product(op: Operation, atype: str, btype: str, stype: str) -> Callable[..., Array]:
    """The product of an instruction with `.block_scale`: of A and B as bits, C as values, columns of a sparse A, codes of the scales."""
    four = not op.has(".kind::mxf8f6f4")
    left, right, scale = format_of(atype, four), format_of(btype, four), scale_format(stype)

    def compute(a: Array, b: Array, c: Array, chosen: Array | None, ascale: Array, bscale: Array) -> Array:
        a, b = left.index(a), right.index(b)
        if chosen is not None:
            a = sparsity.expanded(a, chosen)
        return scaled(Factor(left, a), Factor(right, b), c, Factor(scale, ascale), Factor(scale, bscale), four)

    return compute


def scaled(a: Factor, b: Factor, c: Array, ascale: Factor, bscale: Factor, four: bool) -> Array:
    """Σ (a·ascale)·(b·bscale) + c as `float32`; ascale (groups, M, scales) and bscale (groups, scales, N) are distributed evenly over K."""
    groups, m, k = a.index.shape
    count = ascale.index.shape[2]
    how = Adder(KEPT_OF_FOUR if four else 25)
    c = c.astype(np.float64)
    each = 16 if four else 1
    of = np.arange(k // each) * count // (k // each)
    ascale, bscale = ascale.part((slice(None), slice(None), of)), bscale.part((slice(None), of))
    if is_rough():
        left, right = a.values * ascale.values.repeat(each, axis=2), b.values * bscale.values.repeat(each, axis=1)
        return rough_product_of(left, right, c, 32)
    if not four:
        left, right = a.values * ascale.values, b.values * bscale.values
        return rounded(*aligned_sum(left, a.exponents + ascale.exponents, right, b.exponents + bscale.exponents, c, how.kept), how, 32)
    # (groups, blocks, M, N): the products of a block of sixteen are summed exactly
    sums = np.matmul(a.values.reshape(groups, m, -1, each).swapaxes(1, 2), b.values.reshape(groups, k // each, each, -1))
    terms = sums * (ascale.values.swapaxes(1, 2)[..., None] * bscale.values[:, :, None])
    exponents = ascale.exponents.swapaxes(1, 2)[..., None] + bscale.exponents[:, :, None]
    highest = np.maximum(np.maximum(exponents.max(1), exponents_of(c)), LEAST)
    unit = highest.astype(np.int64) - how.kept
    with np.errstate(invalid="ignore", over="ignore"):
        total = np.trunc(np.ldexp(terms, -unit[:, None])).sum(1) + np.trunc(np.ldexp(c, -unit))
    return rounded(total, unit, how, 32)
