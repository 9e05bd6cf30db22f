"""The arithmetic of tensor cores on two matrices and an accumulator (ISA 9.7.15.3.5, 9.7.15.4.14, 9.7.16.5.2).

Floating-point products. The manual does not specify order and rounding. Measurements of hardware (Fasi et al. 2021; Khattak and Mikaitis
2025; Xie et al. 2025) show the method: the products of a block of K are exact; they and the accumulator are aligned to the greatest
exponent among them, where the exponent of a product is the sum of its factors' exponents, and truncated some bits below it; the rest is
summed exactly and rounded to the type of the accumulator, by truncation to `.f32` and to nearest to `.f16`. `Adder` has the parameters that
differ between architectures.

Shapes: a (groups, M, K), b (groups, K, N), c and the result (groups, M, N); b may be (groups, M, K, N) if every row has its own B.
"""

from __future__ import annotations

import re
from functools import cache, cached_property
from typing import Any

import attrs
import numpy as np

from ptxkit.frozen import frozen
from ptxkit.machine.matrices.accuracy import is_rough
from ptxkit.machine.matrices.elements import NO_BIT, NO_EXPONENT, Format
from ptxkit.machine.values import double

Array = np.ndarray[Any, Any]

_CHUNK = 1 << 15
"""Number of accumulator elements that are processed at a time, so that their arrays stay in the cache."""

_ALONE = 1 << 18
"""Number of multiplications that one thread performs fast enough."""

LEAST = -900
"""The least exponent to which sums are aligned, far below that of any product; scaling by it stays in the range of float64."""

CANONICAL_NAN = {16: 0x7FFF, 32: 0x7FFFFFFF}


@frozen
class Adder:
    """How a tensor core adds: bits kept below the greatest exponent, fraction bits of an `.f32` result, steps along K.

    Operations for which a GPU has no unit are computed by other means, which `by` names. Hopper multiplies 8-bit floats as halves, in
    `pairs`: first two of every four along K, then the other two; c is added last, to nearest. It computes `m8n8k4` in single precision,
    `one` product after another, c last.
    """

    kept: int = 25
    fraction: int = 23
    steps: int = 1
    by: str = ""


@cache
def adder(target: str, instruction: str, type: str, k: int) -> Adder:
    """The adder of an architecture (`sm_90a`) for an instruction (`mma`, `mma.m8n8k4`, `wmma`, `wgmma`, `tcgen05`), a type of A and a
    depth of the product."""
    found = re.search(r"\d+", target)
    architecture = int(found[0]) if found else 90
    small = type not in (".f16", ".bf16", ".tf32")
    if architecture < 75:
        return Adder(23)
    if architecture < 80:
        return Adder(24)
    if architecture < 90:
        half = {".tf32": 8, ".f16": 16, ".bf16": 16}.get(type, 32)
        narrow = small and architecture == 89
        return Adder(13 if narrow else 24, 13 if narrow else 23, 2 if k >= half else 1)
    if architecture < 100 and small:
        return Adder(13, 13) if instruction == "wgmma" else Adder(by="pairs")
    if instruction == "mma.m8n8k4":
        return Adder(by="one")
    return Adder(steps=2) if instruction == "wmma" and type == ".tf32" and architecture < 100 else Adder()


@frozen(eq=False)
class Factor:
    """A multiplicand: its elements are indices into the tables of their format."""

    format: Format
    index: Array

    @cached_property
    def values(self) -> Array:
        return self.format.values.take(self.index)

    @property
    def single(self) -> Array:
        """The values as float32."""
        return self.format.single.take(self.index)

    @cached_property
    def exponents(self) -> Array:
        return self.format.exponents.take(self.index)

    def range(self) -> tuple[int, int]:
        """The greatest exponent and the lowest set bit of all elements."""
        return int(self.exponents.max(initial=NO_EXPONENT)), int(self.format.lowest.take(self.index).min(initial=NO_BIT))

    def part(self, chosen: Any) -> Factor:
        return Factor(self.format, self.index[chosen])


def float_product(a: Factor, b: Factor, c: Array, how: Adder, bits: int) -> Array:
    """a·b + c as `float16` or `float32` (`bits` 16 or 32); c is either of them."""
    if is_rough():
        return _rough_product(a, b, c, bits)
    if how.by:
        return _pairs(a, b, c, how, bits) if how.by == "pairs" else _one_by_one(a, b, c, bits)
    result = np.empty(c.shape, np.float16 if bits == 16 else np.float32)
    each = max(1, _CHUNK // (c.shape[1] * c.shape[2]))
    for at in range(0, len(c), each):
        now = slice(at, at + each)
        part = c[now]
        for step in range(how.steps):
            length = a.index.shape[2] // how.steps
            along = slice(step * length, (step + 1) * length)
            middle = (now, slice(None), along) if b.index.ndim == 4 else (now, along)
            part = rounded(*_sum(a.part((now, slice(None), along)), b.part(middle), part, how.kept), how, bits)
        result[now] = part
    return result


def _rough_product(a: Factor, b: Factor, c: Array, bits: int) -> Array:
    """a·b + c, rounded once."""
    return rough_product_of(a.values, b.values, c, bits)


def rough_product_of(a: Array, b: Array, c: Array, bits: int) -> Array:
    """a·b + c of values, rounded once."""
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        product = _product(a, b) if b.ndim == 3 else np.matmul(a[:, :, None], b)[:, :, 0]
        # zeros are positive, as on a tensor core
        total: Array = product + c
        return canonical(total.astype(np.float16) + np.float16(0) if bits == 16 else total.astype(np.float32) + np.float32(0))


def _product(a: Array, b: Array) -> Array:
    """a·b of values, in blocks of rows small enough that NumPy starts no threads, which would contend with each other."""
    rows = max(1, _ALONE // (b.shape[1] * b.shape[2]))
    if a.shape[1] <= rows:
        product: Array = np.matmul(a, b)
        return product
    return np.concatenate([np.matmul(a[:, at : at + rows], b) for at in range(0, a.shape[1], rows)], axis=1)


def _pairs(a: Factor, b: Factor, c: Array, how: Adder, bits: int) -> Array:
    """Two of every four products, then the other two, then c, with the exponents of the values as halves."""
    a, b = Factor(_as_halves(a.format), a.index), Factor(_as_halves(b.format), b.index)
    along = np.arange(a.index.shape[2])
    total = np.zeros(c.shape, np.float16 if bits == 16 else np.float32)
    for chosen in (along[along % 4 < 2], along[along % 4 >= 2]):
        part = b.part((slice(None), slice(None), chosen) if b.index.ndim == 4 else (slice(None), chosen))
        total = float_product(a.part((slice(None), slice(None), chosen)), part, total, attrs.evolve(how, by=""), bits)
    with np.errstate(over="ignore", invalid="ignore"):
        return canonical(
            (total + c.astype(total.dtype)) if bits == 32 else (total.astype(np.float32) + c.astype(np.float32)).astype(np.float16)
        )


@cache
def _as_halves(format: Format) -> Format:
    _, exponents = np.frexp(format.values)
    halves = np.where(format.exponents == NO_EXPONENT, NO_EXPONENT, np.maximum(exponents - 1, -14))
    return attrs.evolve(format, exponents=halves.astype(np.int16))


def _one_by_one(a: Factor, b: Factor, c: Array, bits: int) -> Array:
    """Every sum is rounded to nearest in single precision: c last for `.f32`; c first and the products in another order for `.f16`."""
    products = [a.values[:, :, k, None] * b.values[:, k, None, :] for k in range(a.index.shape[2])]
    summands = [c, products[1], products[0], products[3], products[2]] if bits == 16 else [*products, c]
    total = np.zeros(c.shape)
    with np.errstate(over="ignore", invalid="ignore"):
        for summand in summands:
            total = (total + summand).astype(np.float32).astype(np.float64)
        return canonical(total.astype(np.float16 if bits == 16 else np.float32))


def _sum(a: Factor, b: Factor, c: Array, kept: int) -> tuple[Array, Array | int]:
    """The aligned sum, as float64 and the exponent by which it is still to be scaled."""
    c = c.astype(np.float64)
    highest, lowest = (x + y for x, y in zip(a.range(), b.range(), strict=True))
    if b.index.ndim == 3 and _nothing_is_cut(highest, lowest, c, kept):
        single = a.format.small and b.format.small and highest + 2 + a.index.shape[2].bit_length() - lowest <= 24
        return (np.matmul(a.single, b.single) if single else np.matmul(a.values, b.values)) + c, 0
    if a.format.small and b.format.small:
        return aligned_sum(a.single, a.exponents, b.single, b.exponents, c, kept)
    return aligned_sum(a.values, a.exponents, b.values, b.exponents, c, kept)


def _nothing_is_cut(highest: int, lowest: int, c: Array, kept: int) -> bool:
    if lowest < highest - kept or not np.isfinite(c).all():
        return False
    greatest = float(np.abs(c).max(initial=0.0))
    quantum = max(highest, exponents_of(np.array(greatest)).item()) - kept
    if lowest < quantum:
        return False
    scaled = c * 2.0 ** -max(quantum, LEAST)
    return bool((scaled == np.trunc(scaled)).all())


def aligned_sum(a: Array, ea: Array, b: Array, eb: Array, c: Array, kept: int) -> tuple[Array, Array]:
    """Σ a·b + c, with every summand truncated `kept` bits below the greatest exponent; as integers and the exponent of their unit.

    a and b may be float32 if products of the format are exact in it and far from the ends of its range.
    """
    across = c.shape[2] < 64  # the innermost axis: groups if rows are short, so that NumPy's inner loops are long
    factors, exponents = _along_k(a, b, across), _along_k(ea, eb, across)
    if across:
        c = np.ascontiguousarray(c.transpose(1, 2, 0))
    highest = exponents_of(c)
    for x, y in exponents:
        np.maximum(highest, x + y, out=highest)
    np.maximum(highest, LEAST, out=highest)
    unit = highest.astype(np.int32) - kept
    scale = np.ldexp(1.0, -unit)
    with np.errstate(invalid="ignore", over="ignore"):
        total = np.trunc(c * scale)
        if a.dtype == np.float32:
            scale = np.minimum(scale, 2.0**80).astype(np.float32)  # where it is more, all products are zero
        term = np.empty_like(scale)
        for x, y in factors:
            np.multiply(x, y, out=term)
            term *= scale
            np.trunc(term, out=term)
            total += term
    return (total.transpose(2, 0, 1), unit.transpose(2, 0, 1)) if across else (total, unit)


def _along_k(a: Array, b: Array, across: bool) -> list[tuple[Array, Array]]:
    """For each K, the column of A and the row of B, to be broadcast against each other: (M, N, groups) if `across`, otherwise (groups,
    M, N)."""
    a = np.ascontiguousarray(a.transpose(2, 1, 0) if across else a.transpose(2, 0, 1))
    left = a[:, :, None] if across else a[..., None]
    if b.ndim == 4:
        return list(zip(left, np.ascontiguousarray(b.transpose(2, 1, 3, 0) if across else b.transpose(2, 0, 1, 3)), strict=True))
    b = np.ascontiguousarray(b.transpose(1, 2, 0) if across else b.transpose(1, 0, 2))
    return list(zip(left, b[:, None] if across else b[:, :, None], strict=True))


def exponents_of(c: Array) -> np.ndarray[Any, np.dtype[np.int16]]:
    """The exponents of accumulator values as the adder uses them; infinities and NaNs are ignored."""
    _, exponent = np.frexp(c)
    exponent = np.maximum(exponent - 1, -126)
    return np.where((c == 0) | ~np.isfinite(c), NO_EXPONENT, exponent).astype(np.int16)


def rounded(total: Array, unit: Array | int, how: Adder, bits: int) -> Array:
    """A sum as `.f16`, rounded to nearest, or as `.f32`, truncated. NaNs are canonical; an empty sum is +0."""
    value = np.ldexp(total, unit) if isinstance(unit, np.ndarray) else total
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        result = (value.astype(np.float16) if bits == 16 else cut(value, how.fraction)) + (np.float16(0) if bits == 16 else np.float32(0))
    return canonical(result)


def canonical(values: Array) -> Array:
    """Replaces NaNs by the canonical NaN of a tensor core, in place."""
    bits = values.dtype.itemsize * 8
    values.view(f"uint{bits}")[np.isnan(values)] = CANONICAL_NAN[bits]
    return values


def cut(value: Array, fraction: int = 23) -> np.ndarray[Any, np.dtype[np.float32]]:
    """Truncates float64 to float32, keeping `fraction` bits of the fraction; values beyond the range become infinite."""
    exact = value.astype(np.float32)
    if fraction == 23 and (exact == value).all():
        return exact
    words = value.view(np.int64) & ~np.int64((1 << (52 - fraction)) - 1)
    normal = words.view(np.float64)
    smallest = np.abs(value) < 2.0**-126
    if smallest.any():
        unit = 2.0 ** (-126 - fraction)
        normal = np.where(smallest, np.trunc(value / unit) * unit, normal)
    return np.where(np.isfinite(value), normal, value).astype(np.float32)


def integer_product(a: Array, b: Array, c: Array, saturate: bool) -> np.ndarray[Any, np.dtype[np.int32]]:
    """a·b + c of integers, wrapping, or clamped to 32 bits (`.satfinite`). a and b have up to 8 bits."""
    total = np.matmul(a.astype(np.float32), b.astype(np.float32)).astype(np.int64) + c  # sums stay below 2^24: exact
    if saturate:
        limits = np.iinfo(np.int32)
        total = np.clip(total, limits.min, limits.max)
    wrapped: np.ndarray[Any, np.dtype[np.int32]] = total.astype(np.int32)
    return wrapped


def bit_product(a: Array, b: Array, c: Array, operation: str) -> np.ndarray[Any, np.dtype[np.int32]]:
    """popc(a op b) + c, wrapping; a (groups, M, words) and b (groups, words, N) have the bits along K in words."""
    combine = np.bitwise_xor if operation == ".xor" else np.bitwise_and
    total = c.astype(np.int64)
    for word in range(a.shape[2]):
        total += np.bitwise_count(combine(a[:, :, word, None], b[:, word, None, :]))
    return total.astype(np.int32)


def double_product(a: Array, b: Array, c: Array, mode: str) -> np.ndarray[Any, np.dtype[np.float64]]:
    """a·b + c in double precision: successive fused multiply-adds along K, each rounded in this mode (`rn` …).

    If several NaNs meet, that of B is returned, or else that of the sum so far.
    """
    for k in range(a.shape[2]):
        x, y = a[:, :, k, None], b[:, k, None, :]
        before, c = c, double.fma(x, y, c, mode)
        if np.isnan(c).any():
            for nan in (before, np.broadcast_to(y, c.shape)):
                c = np.where(np.isnan(nan), np.add(nan, 0.0), c)
    return c
