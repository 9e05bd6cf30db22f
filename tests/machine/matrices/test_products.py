"""Products: against exact rational arithmetic, aligned and cut as the tensor cores do."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from ptxkit.machine.matrices.accuracy import rough_products
from ptxkit.machine.matrices.elements import NO_EXPONENT, Format, format_of, scale_format
from ptxkit.machine.matrices.products import (
    Adder,
    Factor,
    adder,
    bit_product,
    cut,
    double_product,
    float_product,
    integer_product,
)
from ptxkit.machine.matrices.scaling import scaled


def _single(total: Fraction, fraction: int) -> float:
    """Towards zero, with so many bits of the fraction."""
    if total == 0:
        return 0.0
    exponent = max(-126, math.floor(math.log2(abs(total))) - 2)
    while abs(total) >= Fraction(2) ** (exponent + 1):
        exponent += 1
    unit = Fraction(2) ** (exponent - fraction)
    return float(math.trunc(total / unit) * unit)


def _reference(format: Format, a: Any, b: Any, c: float, how: Adder) -> float:
    """One element of D, the slow way."""
    for step in range(how.steps):
        length = len(a) // how.steps
        part = slice(step * length, (step + 1) * length)
        terms = [(Fraction(c), max(-126, math.frexp(c)[1] - 1) if c else NO_EXPONENT)]
        for x, y in zip(a[part], b[part], strict=True):
            value = Fraction(float(format.values[x])) * Fraction(float(format.values[y]))
            terms.append((value, int(format.exponents[x]) + int(format.exponents[y])))
        unit = Fraction(2) ** (max(-900, *(e for _, e in terms)) - how.kept)
        c = _single(sum(math.trunc(value / unit) for value, _ in terms) * unit, how.fraction)
    return c


@pytest.mark.parametrize("how", [Adder(), Adder(13, 13), Adder(24, 23, 2), Adder(23)], ids=str)
@pytest.mark.parametrize("type", [".f16", ".bf16", ".tf32", ".e4m3", ".e5m2", ".e3m2"])
def test_sums_are_aligned_and_cut(type: str, how: Adder) -> None:
    format = format_of(type)
    finite = np.flatnonzero(np.isfinite(format.values))
    near = finite[(abs(format.values[finite]) < 4) & (abs(format.values[finite]) > 2**-6)]
    rng = np.random.default_rng(1)
    for codes in (finite, near):
        a, b = rng.choice(codes, (2, 4, 8)), rng.choice(codes, (2, 8, 3))
        c = (rng.standard_normal((2, 4, 3)) * 2.0 ** rng.integers(-8, 8, (2, 4, 3))).astype(np.float32)
        got = float_product(Factor(format, a), Factor(format, b), c, how, 32)
        for g, m, n in np.ndindex(*c.shape):
            expected = _reference(format, a[g, m], b[g, :, n], float(c[g, m, n]), how)
            assert got[g, m, n] == (np.float32(expected) if abs(expected) < 2.0**128 else np.inf * np.sign(expected))


def test_sums_that_lose_nothing_are_the_same_on_the_short_path() -> None:
    """Small integers take `matmul`; one far summand makes all take the long way."""
    format = format_of(".f16")
    rng = np.random.default_rng(2)
    a, b = (rng.integers(-8, 9, shape).astype(np.float16) for shape in ((5, 16, 16), (5, 16, 8)))
    c = rng.integers(-99, 99, (5, 16, 8)).astype(np.float32)
    short = float_product(Factor(format, a.view(np.uint16)), Factor(format, b.view(np.uint16)), c, Adder(), 32)
    assert (short == np.matmul(a.astype(float), b.astype(float)) + c).all()
    far = c.copy()
    far[0, 0, 0] = 2.0**-40
    long = float_product(Factor(format, a.view(np.uint16)), Factor(format, b.view(np.uint16)), far, Adder(), 32)
    assert (long.reshape(-1)[1:] == short.reshape(-1)[1:]).all()


def test_infinities_and_nans() -> None:
    format = format_of(".f16")
    a = np.array([[[np.inf, 0, 1, 1]], [[np.inf, 1, 1, 1]], [[np.inf, 1, 1, 1]], [[1, 1, 1, 1]]], np.float16)
    b = np.array([[[1], [0], [0], [0]], [[0], [0], [0], [0]], [[1], [-np.inf], [0], [0]], [[1], [1], [1], [1]]], np.float16)
    c = np.array([0, 0, 0, -np.inf], np.float32).reshape(4, 1, 1)
    for bits, nan in ((32, 0x7FFFFFFF), (16, 0x7FFF)):
        got = float_product(Factor(format, a.view(np.uint16)), Factor(format, b.view(np.uint16)), c, Adder(), bits).reshape(-1)
        assert got[0] == np.inf
        assert got.view(f"uint{bits}")[[1, 2]].tolist() == [nan, nan]
        assert got[3] == -np.inf


def test_cutting_goes_towards_zero() -> None:
    third = np.array([1 / 3, -1 / 3, 2.0**-150, 3 * 2.0**-150, 1e39, -np.inf])
    with np.errstate(over="ignore"):
        got = cut(third)
    assert got.tolist() == [float(np.nextafter(np.float32(1 / 3), np.float32(0))), -got[0], 0, 2.0**-149, np.inf, -np.inf]


def test_integers_wrap_or_saturate() -> None:
    a, b = np.full((1, 1, 4), 127, np.int8), np.full((1, 4, 1), 127, np.int8)
    c = np.full((1, 1, 1), 2**31 - 1, np.int32)
    assert integer_product(a, b, c, True).item() == 2**31 - 1
    assert integer_product(a, b, c, False).item() == 2**31 - 1 + 4 * 127 * 127 - 2**32
    assert integer_product(a, -b, -c, True).item() == -(2**31)


def test_single_bits() -> None:
    a, b = np.array([[[0b1100, 1]]], np.uint32), np.array([[[0b1010], [1]]], np.uint32)
    c = np.zeros((1, 1, 1), np.int32)
    assert bit_product(a, b, c, ".xor").item() == 2
    assert bit_product(a, b, c, ".and").item() == 2


def test_adders_of_the_architectures() -> None:
    assert adder("sm_90a", "wgmma", ".e4m3", 32) == Adder(13, 13)
    assert adder("sm_90a", "mma", ".f16", 16) == Adder(25)
    assert adder("sm_80", "mma", ".f16", 16) == Adder(24, 23, 2)
    assert adder("sm_80", "mma", ".f16", 8) == Adder(24)
    assert adder("sm_75", "mma", ".f16", 8) == Adder(24)
    assert adder("sm_70", "mma", ".f16", 4) == Adder(23)
    assert adder("sm_90a", "mma", ".e4m3", 32).by == "pairs"
    assert adder("sm_90a", "mma.m8n8k4", ".f16", 4).by == "one"
    assert adder("sm_90a", "wmma", ".tf32", 8).steps == 2


def _bytes_of(type: str, values: Any) -> Any:
    format = format_of(type)
    return np.argmin(np.where(np.isfinite(format.values), abs(format.values - np.asarray(values)[..., None]), np.inf), -1)


def test_hopper_adds_8_bit_floats_in_pairs_and_c_last() -> None:
    """Beside 256 the products below 2**-17 are cut; the sum is then added to c to nearest, however small c is."""
    format = format_of(".e5m2")
    a = _bytes_of(".e5m2", np.full((1, 1, 16), 2.0**-10))
    b = _bytes_of(".e5m2", np.full((1, 16, 1), 2.0**-10))
    a[0, 0, 0], b[0, 0, 0] = (_bytes_of(".e5m2", 16.0),) * 2
    c = np.full((1, 1, 1), -256, np.float32)
    got = float_product(Factor(format, a), Factor(format, b), c, Adder(by="pairs"), 32)
    # beside 256 all small products are cut, in the first step and in the second, which adds to the first
    assert got.item() == 0
    b[0, 0, 0] = _bytes_of(".e5m2", 0.0)
    got = float_product(Factor(format, a), Factor(format, b), c, Adder(by="pairs"), 32)
    assert got.item() == np.float32(15 * 2.0**-20 - 256)


def test_m8n8k4_is_summed_in_single_precision() -> None:
    format = format_of(".f16")
    a, b = np.array([[[1, 2**-11, 1, 1]]], np.float16), np.array([[[1], [2**-13], [-1], [2**-14]]], np.float16)
    c = np.full((1, 1, 1), 2.0**-40, np.float32)
    got = float_product(Factor(format, a.view(np.uint16)), Factor(format, b.view(np.uint16)), c, Adder(by="one"), 32)
    assert got.item() == np.float32(np.float32(np.float32(np.float32(1 + 2.0**-24) - 1) + 2.0**-14) + np.float32(2.0**-40))


def test_doubles_are_fused_one_after_another() -> None:
    a, b, c = np.array([[[3.0, 1e250]]]), np.array([[[1 / 3], [-1e250]]]), np.array([[[-1.0]]])
    with np.errstate(over="ignore", invalid="ignore"):
        assert double_product(a[:, :, :1], b[:, :1], c, "rn").item() == float(Fraction(1 / 3) * 3 - 1)
        # what overflows is finite beside an infinity
        assert double_product(a[:, :, 1:], b[:, 1:], np.array([[[np.inf]]]), "rn").item() == np.inf


def test_of_two_nans_that_of_b_stays() -> None:
    nan = np.array([0x7FF8000000000001, 0x7FF8000000000002, 0x7FF8000000000003], np.uint64).view(np.float64)
    one = np.ones((1, 1, 1))
    a, b, c = (n.reshape(1, 1, 1) for n in nan)
    assert double_product(a, b, c, "rn").view(np.uint64).item() & 3 == 2
    assert double_product(a, one, c, "rn").view(np.uint64).item() & 3 == 3
    assert double_product(a, one, one, "rn").view(np.uint64).item() & 3 == 1


def test_rough_products_differ_in_their_last_bits_only() -> None:
    lot = np.random.default_rng(5)
    format = format_of(".bf16", False)
    a, b = (Factor(format, lot.integers(0x3E00, 0x4100, shape)) for shape in ((3, 16, 16), (3, 16, 8)))
    c = lot.random((3, 16, 8), np.float32)
    exact = float_product(a, b, c, Adder(), 32)
    with rough_products():
        rough = float_product(a, b, c, Adder(), 32)
    assert np.allclose(exact, rough, rtol=1e-5)
    assert (float_product(a, b, c, Adder(), 32) == exact).all()


def test_rough_products_with_scales_differ_in_their_last_bits_only() -> None:
    lot = np.random.default_rng(6)
    scale = scale_format(".ue8m0")
    for type, four, high, each in ((".e2m1", True, 16, 32), (".e4m3", False, 0x70, 32)):
        format = format_of(type, four)
        a, b = (Factor(format, lot.integers(0, high, shape)) for shape in ((1, 128, 128), (1, 128, 64)))
        ascale, bscale = (Factor(scale, lot.integers(125, 130, shape)) for shape in ((1, 128, 128 // each), (1, 128 // each, 64)))
        c = lot.random((1, 128, 64), np.float32)
        exact = scaled(a, b, c, ascale, bscale, four)
        with rough_products():
            rough = scaled(a, b, c, ascale, bscale, four)
        assert np.allclose(exact, rough, rtol=1e-4, atol=1e-3)
