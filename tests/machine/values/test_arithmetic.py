"""Single and double precision against fractions: every mode, near halves, cancelled sums, subnormal numbers and overflow."""

from __future__ import annotations

import math
from fractions import Fraction
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference import DOUBLE, MODES, SINGLE, rounded, same, zero_of_sum
from sampling import examples

from ptxkit.machine.values import double, single

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")

SINGLES = st.floats(width=32, allow_nan=False, allow_infinity=False)
DOUBLES = st.floats(allow_nan=False, allow_infinity=False)
SHORT = st.builds(lambda m, e: math.ldexp(m, e), st.integers(-(2**13), 2**13), st.integers(-40, 10))
"""Numbers of few bits: their products are often halfway between two others."""
KINDS = [pytest.param(np.float32, single, SINGLE, id="single"), pytest.param(np.float64, double, DOUBLE, id="double")]
EXAMPLES = examples(150)


def numbers(kind: Any) -> st.SearchStrategy[float]:
    return st.one_of(SINGLES, SHORT) if kind is np.float32 else st.one_of(DOUBLES, SINGLES, SHORT)


@pytest.mark.parametrize(("kind", "module", "format"), KINDS)
@pytest.mark.parametrize("mode", MODES)
@given(data=st.data())
@EXAMPLES
def test_sum(kind: Any, module: ModuleType, format: tuple[int, int, int], mode: str, data: st.DataObject) -> None:
    a, b = data.draw(numbers(kind)), data.draw(numbers(kind))
    exact = Fraction(a) + Fraction(b)
    expected = rounded(exact, mode, *format) if exact else zero_of_sum(a, b, mode)
    assert same(float(module.add(kind(a), kind(b), mode)), expected)


@pytest.mark.parametrize(("kind", "module", "format"), KINDS)
@pytest.mark.parametrize("mode", MODES)
@given(data=st.data())
@EXAMPLES
def test_product(kind: Any, module: ModuleType, format: tuple[int, int, int], mode: str, data: st.DataObject) -> None:
    a, b = data.draw(numbers(kind)), data.draw(numbers(kind))
    exact = Fraction(a) * Fraction(b)
    expected = rounded(exact, mode, *format) if exact else a * b
    assert same(float(module.multiply(kind(a), kind(b), mode)), expected)


@pytest.mark.parametrize(("kind", "module", "format"), KINDS)
@pytest.mark.parametrize("mode", MODES)
@given(data=st.data())
@EXAMPLES
def test_fused_product_and_sum(kind: Any, module: ModuleType, format: tuple[int, int, int], mode: str, data: st.DataObject) -> None:
    a, b = data.draw(numbers(kind)), data.draw(numbers(kind))
    near = [float(kind(-a) * kind(b)), float(np.nextafter(kind(-a) * kind(b), kind(0)))]
    c = data.draw(st.one_of(numbers(kind), st.sampled_from([x if math.isfinite(x) else 0.0 for x in near])))
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    expected = rounded(exact, mode, *format) if exact else zero_of_sum(a * b if a == 0 or b == 0 else math.copysign(1, a * b), c, mode)
    assert same(float(module.fma(kind(a), kind(b), kind(c), mode)), expected)


@pytest.mark.parametrize(("kind", "module", "format"), KINDS)
@pytest.mark.parametrize("mode", MODES)
@given(data=st.data())
@EXAMPLES
def test_quotient(kind: Any, module: ModuleType, format: tuple[int, int, int], mode: str, data: st.DataObject) -> None:
    a, b = data.draw(numbers(kind)), data.draw(numbers(kind).filter(bool))
    expected = rounded(Fraction(a) / Fraction(b), mode, *format) if a else math.copysign(0.0, a) * math.copysign(1, b)
    assert same(float(module.divide(kind(a), kind(b), mode)), expected)


@pytest.mark.parametrize(("kind", "module", "format"), KINDS)
@pytest.mark.parametrize("mode", MODES)
@given(data=st.data())
@EXAMPLES
def test_square_root(kind: Any, module: ModuleType, format: tuple[int, int, int], mode: str, data: st.DataObject) -> None:
    a = abs(data.draw(numbers(kind).filter(bool)))
    scale = 1200
    scaled = Fraction(a) * 4**scale
    root = Fraction(math.isqrt(math.floor(scaled)), 2**scale)
    if root**2 != Fraction(a):
        root += Fraction(1, 2 ** (scale + 1))
    assert same(float(module.square_root(kind(a), mode)), rounded(root, mode, *format))


def test_the_double_that_is_halfway() -> None:
    """A product and sum just above the middle of two singles, that a double cannot tell from it."""
    a, b, c = np.float32(4097), np.float32(4097), np.float32(2.0**-60)
    assert float(single.fma(a, b, c)) == 16785410 != float(np.float32(np.float64(a) * np.float64(b) + np.float64(c)))


def test_arrays_of_any_length_and_scalars() -> None:
    a, c = np.arange(40000, dtype=np.float32) * np.float32(1.1), np.linspace(-3, 3, 40000, dtype=np.float32)
    b = np.float32(0.3)
    whole = single.fma(a, b, c)
    assert all(single.fma(a[i], b, c[i]) == whole[i] for i in range(0, 40000, 997))
    assert single.fma(b, b, c).shape == (40000,) and np.isscalar(single.fma(b, b, b))


def test_vectors_of_which_one_is_the_same_for_all_lanes() -> None:
    """As `fma.rn.f32x2` has them: a row for each lane, or one row for all."""
    rows = np.arange(640, dtype=np.float32).reshape(320, 2)
    one = np.array([2, 3], np.float32)
    assert (single.fma(one, rows, rows) == one * rows + rows).all()
    assert (single.fma(rows, one, one) == rows * one + one).all()


@pytest.mark.parametrize("function", [single.add, single.multiply, single.divide])
def test_a_nan_is_the_canonical_one(function: Any) -> None:
    strange = np.uint32(0xFFC12345).view(np.float32)
    assert function(strange, np.float32(1)).view(np.uint32) == 0x7FFFFFFF
    assert single.fma(np.float32(np.inf), np.float32(0), strange).view(np.uint32) == 0x7FFFFFFF
