"""Small formats: every code, what is between two codes, what is too large, NaNs."""

from __future__ import annotations

import math
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference import BFLOAT, HALF, MODES, rounded, same
from sampling import examples

from ptxkit.machine.values.elements import elements_of
from ptxkit.machine.values.formats import FORMATS, decode, encode, largest
from ptxkit.machine.values.half import to_bfloat, to_half, to_tf32

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")

SMALL = {
    ".e4m3": ml_dtypes.float8_e4m3fn,
    ".e5m2": ml_dtypes.float8_e5m2,
    ".e3m2": ml_dtypes.float6_e3m2fn,
    ".e2m3": ml_dtypes.float6_e2m3fn,
    ".e2m1": ml_dtypes.float4_e2m1fn,
    ".ue8m0": ml_dtypes.float8_e8m0fnu,
}
FLOATS = st.one_of(st.floats(width=32, allow_nan=False, allow_infinity=False), st.floats(-500, 500), st.floats(-1e-4, 1e-4))


@pytest.mark.parametrize("name", SMALL)
def test_every_code_is_the_number_that_ml_dtypes_has(name: str) -> None:
    format = FORMATS[name]
    codes = np.arange(1 << format.bits, dtype=np.uint8)
    np.testing.assert_array_equal(decode(codes, format), codes.view(SMALL[name]).astype(np.float64))


@pytest.mark.parametrize("name", [*SMALL, ".ue5m3"])
@pytest.mark.parametrize("mode", ["rn", "rz", "rm", "rp", "rna"])
def test_a_code_comes_back(name: str, mode: str) -> None:
    format = FORMATS[name]
    codes = np.arange(1 << format.bits, dtype=np.uint8)
    numbers = decode(codes, format)
    codes = codes[~np.isnan(numbers)]
    np.testing.assert_array_equal(encode(decode(codes, format), format, mode), codes)


@pytest.mark.parametrize("name", [n for n in SMALL if n != ".ue8m0"])
@pytest.mark.parametrize("mode", [*MODES, "rna"])
@given(x=FLOATS)
@examples(150)
def test_rounded_as_fractions_are(name: str, mode: str, x: float) -> None:
    format = FORMATS[name]
    top = 8 if name == ".e4m3" else math.floor(math.log2(largest(name)))
    least = format.smallest_exponent - format.mantissa
    expected = rounded(Fraction(x), mode, format.mantissa + 1, least, top + 1) if x else x
    got = float(elements_of(name).numbers(elements_of(name).rounded(np.float64(x), mode, finite=True)))
    assert same(got, max(-largest(name), min(largest(name), expected)))


@pytest.mark.parametrize("mode", MODES)
@given(x=st.one_of(FLOATS, st.floats(-70000, 70000), st.floats(-1e-6, 1e-6)))
@examples(300)
def test_half_precision_and_bfloat(mode: str, x: float) -> None:
    half = float(to_half(np.float64(x), mode).view(np.float16))
    assert same(half, rounded(Fraction(x), mode, *HALF) if x else x)
    bfloat = float((np.uint32(to_bfloat(np.float64(x), mode)) << 16).view(np.float32))
    assert same(bfloat, rounded(Fraction(x), mode, *BFLOAT) if x else x)


@pytest.mark.parametrize("mode", ["rn", "rz", "rna"])
@given(x=st.floats(width=32, allow_nan=False, allow_infinity=False))
@examples(200)
def test_tf32(mode: str, x: float) -> None:
    got = float(to_tf32(np.float64(x), mode).view(np.float32))
    assert same(got, rounded(Fraction(x), mode, 11, -136, 128) if x else x)


def test_too_large() -> None:
    """Without a finite limit: infinity where there is one, or else a NaN; towards zero the largest number."""
    x = np.array([1e6, -1e6])
    assert encode(x, FORMATS[".e5m2"], "rn").tolist() == [0x7C, 0xFC]
    assert encode(x, FORMATS[".e4m3"], "rn").tolist() == [0x7F, 0xFF]
    assert encode(x, FORMATS[".e5m2"], "rz").tolist() == [0x7B, 0xFB]
    assert encode(np.array([465.0, 448.0, 463.9]), FORMATS[".e4m3"], "rn").tolist() == [0x7F, 0x7E, 0x7E]


def test_nan() -> None:
    nan = np.array([np.nan, -np.nan])
    for name in (".e4m3", ".e5m2"):
        assert encode(nan, FORMATS[name], "rn").tolist() == [0x7F, 0x7F]
    assert encode(nan, FORMATS[".e2m1"], "rn").tolist() == [7, 7]


def test_powers_of_two() -> None:
    x = np.array([1.0, 1.5, 2.0**-127, 2.0**-126 * 0.75, 0.0, 2.0**128, -3.0])
    assert encode(x, FORMATS[".ue8m0"], "rz").tolist() == [127, 127, 0, 0, 0, 254, 128]
    assert encode(x, FORMATS[".ue8m0"], "rp").tolist() == [127, 128, 0, 1, 0, 255, 129]


def test_random_bits_carry() -> None:
    """What is dropped of 1.25 is a quarter of the step: with random bits from three quarters on it is rounded up."""
    up = [int(encode(np.float64(1.125), FORMATS[".e5m2"], "rs", np.float64(r), 2)) for r in range(4)]
    assert up == [0x3C, 0x3C, 0x3D, 0x3D]


@pytest.mark.parametrize("type", [".f16x2", ".bf16x2", ".e4m3x4", ".e2m1x2", ".e2m1x4", ".f32x2", ".e2m3x2"])
def test_a_register_comes_back(type: str) -> None:
    kind = elements_of(type)
    registers = np.arange(1, 60, dtype=kind.register) * kind.register.type(0x01 if kind.register.itemsize == 1 else 0x0101)
    np.testing.assert_array_equal(kind.joined(kind.codes(registers)), registers)
    assert kind.joined(kind.codes(registers[7])) == registers[7]
