"""What modifiers add to arithmetic, special values, and the bounds of approximate functions (ISA 9.7.3, 9.7.4)."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from instructions import run
from reference import BFLOAT, HALF, SINGLE, rounded, same, zero_of_sum
from sampling import examples

from ptxkit.machine.operation import Unsupported

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")

EXAMPLES = examples(150)
TINY, INF, NAN = np.float32(1e-40), np.float32(np.inf), np.float32(np.nan)


def f32(*values: float) -> Any:
    return np.array(values, np.float32)


def bits(x: Any) -> list[int]:
    return [int(v) for v in np.atleast_1d(x).view(f"u{x.dtype.itemsize}")]


def test_ftz_flushes_what_comes_in_and_goes_out() -> None:
    assert bits(run("add.ftz.f32", f32(1e-40, -1e-40), f32(0, -0.0))) == [0, 0x80000000]
    assert bits(run("mul.ftz.f32", f32(1e-20), f32(-1e-20))) == [0x80000000]
    assert run("mul.f32", f32(1e-20), f32(1e-20))[0] == np.float32(1e-40)
    assert bits(run("fma.rn.ftz.f32", f32(1e-20), f32(1e-20), f32(0.0))) == [0]


def test_sat_clamps_and_makes_zero_of_a_nan() -> None:
    assert bits(run("add.sat.f32", f32(-3, 0.25, 7, np.nan, -0.0), f32(0, 0, 0, 0, -0.0))) == bits(f32(0, 0.25, 1, 0, 0))
    assert run("fma.rn.sat.f16", np.float16(2), np.float16(3), np.float16(-5.5)).view(np.float16) == 0.5


@pytest.mark.parametrize("type", ["f32", "f64", "f16"])
def test_minimum_and_maximum(type: str) -> None:
    kind = {"f32": np.float32, "f64": np.float64, "f16": np.float16}[type]
    a, b = np.array([0.0, -0.0, 1, np.nan, np.nan, 3], kind), np.array([-0.0, 0.0, 2, 1, np.nan, np.nan], kind)
    least, most = run(f"min.{type}", a, b).view(kind), run(f"max.{type}", a, b).view(kind)
    assert [math.copysign(1, x) for x in least[:2]] == [-1, -1] and [math.copysign(1, x) for x in most[:2]] == [1, 1]
    assert least[2:4].tolist() == [1, 1] and most[2:4].tolist() == [2, 1] and np.isnan(least[4]) and least[5] == 3


def test_a_nan_wins_if_it_is_asked_to() -> None:
    assert bits(run("min.NaN.f32", f32(1, np.nan), f32(np.nan, 2))) == [0x7FFFFFFF] * 2
    assert bits(run("max.NaN.bf16", np.uint16(0xFFC1), np.uint16(0x3F80))) == [0x7FFF]


def test_the_sign_of_a_product_and_the_smaller_magnitude() -> None:
    assert run("min.xorsign.abs.f32", f32(-1, -1, 3), f32(-2, 2, 2)).tolist() == [1, -1, 2]
    assert run("max.xorsign.abs.f32", f32(-1, -1, np.nan), f32(-2, 2, -2)).tolist() == [2, -2, -2]


def test_the_smallest_of_three() -> None:
    assert run("min.f32", f32(3), f32(np.nan), f32(2)).tolist() == [2]
    assert run("max.abs.f32", f32(-3), f32(1), f32(2)).tolist() == [3]


@pytest.mark.parametrize(
    ("op", "holds"),
    [
        ("finite", "110110"),
        ("infinite", "001000"),
        ("number", "111110"),
        ("notanumber", "000001"),
        ("normal", "110100"),
        ("subnormal", "000010"),
    ],
)
def test_properties(op: str, holds: str) -> None:
    assert "".join(str(int(x)) for x in run(f"testp.{op}.f32", f32(0, 1, -np.inf, -2, 1e-40, np.nan))) == holds


def test_copied_sign() -> None:
    assert run("copysign.f32", f32(-1), f32(3)).tolist() == [-3]


@pytest.mark.parametrize("opcode", ["rcp.approx.ftz.f32", "rcp.approx.f32"])
def test_reciprocals_of_special_values(opcode: str) -> None:
    assert bits(run(opcode, f32(-np.inf, -0.0, 0.0, np.inf, np.nan))) == [*bits(f32(-0.0, -np.inf, np.inf, 0)), 0x7FFFFFFF]


def test_subnormal_operands_of_approximate_functions() -> None:
    assert run("rcp.approx.ftz.f32", f32(1e-40, -1e-40)).tolist() == [np.inf, -np.inf]
    assert bits(run("sqrt.approx.ftz.f32", f32(-1e-40, 1e-40))) == bits(f32(-0.0, 0.0))
    assert run("rsqrt.approx.ftz.f32", f32(-1e-40, 1e-40)).tolist() == [-np.inf, np.inf]
    assert run("lg2.approx.ftz.f32", f32(1e-40)).tolist() == [-np.inf]
    assert run("ex2.approx.ftz.f32", f32(-1e-40, -140)).tolist() == [1, 0]
    assert run("lg2.approx.f32", f32(2.0**-140)).tolist() == [-140]


def test_fast_quotient() -> None:
    """With .ftz the reciprocal of a number from 2^126 on is subnormal, so zero."""
    assert bits(run("div.approx.ftz.f32", f32(1, np.inf, 1, 6), f32(2.0**127, 2.0**127, 0, 2)))[0] == 0
    assert np.isnan(run("div.approx.ftz.f32", f32(np.inf), f32(2.0**127))[0])
    assert run("div.full.f32", f32(6), f32(2)).tolist() == [3]


@pytest.mark.parametrize(
    ("opcode", "function", "least", "most", "bound"),
    [
        ("sin", math.sin, -math.pi, math.pi, 2**-20.9),
        ("cos", math.cos, -math.pi, math.pi, 2**-20.9),
        ("tanh", math.tanh, -4, 4, 2**-10.987),
    ],
)
def test_absolute_errors(opcode: str, function: Any, least: float, most: float, bound: float) -> None:
    x = np.linspace(least, most, 2001).astype(np.float32)
    got = run(f"{opcode}.approx.f32", x)
    assert max(abs(float(g) - function(float(v))) for g, v in zip(got, x, strict=True)) <= bound


def test_coarse_functions_of_doubles() -> None:
    assert bits(run("rcp.approx.ftz.f64", np.array([2.0, np.inf, -0.0]))) == bits(np.array([0.5, 0.0, -np.inf]))
    assert bits(run("rcp.approx.ftz.f64", np.array([np.nan]))) == [0x7FFFFFFF << 32]
    assert bits(run("rsqrt.approx.ftz.f64", np.array([4.0])))[0] == bits(np.array([0.5]))[0]


HALVES = st.integers(0, 0xFFFF).filter(lambda c: c & 0x7C00 != 0x7C00)
BFLOATS = st.integers(0, 0xFFFF).filter(lambda c: c & 0x7F80 != 0x7F80)


def _of_bfloat(code: int) -> float:
    return float(np.uint32(code << 16).view(np.float32))


@pytest.mark.parametrize("type", ["f16", "bf16"])
@given(data=st.data())
@EXAMPLES
def test_half_precision_is_rounded_once(type: str, data: st.DataObject) -> None:
    codes = HALVES if type == "f16" else BFLOATS
    number = (lambda c: float(np.uint16(c).view(np.float16))) if type == "f16" else _of_bfloat
    format = HALF if type == "f16" else BFLOAT
    a, b, c = (data.draw(codes) for _ in range(3))
    x, y, z = number(a), number(b), number(c)

    def check(got: Any, exact: Fraction, zero: float) -> None:
        assert same(number(int(got)) if int(got) & 0x7FFF <= 0x7F80 else math.nan, rounded(exact, "rn", *format) if exact else zero)

    u, v, w = np.uint16(a), np.uint16(b), np.uint16(c)
    check(run(f"add.{type}", u, v), Fraction(x) + Fraction(y), zero_of_sum(x, y, "rn"))
    check(run(f"mul.{type}", u, v), Fraction(x) * Fraction(y), x * y)
    check(run(f"fma.rn.{type}", u, v, w), Fraction(x) * Fraction(y) + Fraction(z), zero_of_sum(x * y, z, "rn"))


def test_relu_and_out_of_bounds() -> None:
    one, minus, nan = np.uint16(0x3C00), np.uint16(0xBC00), np.uint16(0x7E01)
    assert int(run("fma.rn.relu.f16", minus, one, np.uint16(0))) == 0
    assert int(run("fma.rn.relu.f16", nan, one, one)) == 0x7FFF


@given(a=HALVES, c=st.floats(width=32, allow_nan=False, allow_infinity=False))
@EXAMPLES
def test_mixed_precision(a: int, c: float) -> None:
    x = float(np.uint16(a).view(np.float16))
    got = float(run("add.rz.f32.f16", np.uint16(a), np.float32(c)))
    exact = Fraction(x) + Fraction(c)
    assert same(got, rounded(exact, "rz", *SINGLE) if exact else zero_of_sum(x, c, "rz"))


def test_packed_small_floats() -> None:
    assert int(run("add.e4m3x4.e4m3x4", np.uint32(0x38383838), np.uint32(0x38404800))) == 0x40444A38
    assert int(run("fma.rn.satfinite.e4m3x4.e4m3x4.e4m3x4", np.uint32(0x7E), np.uint32(0x7E), np.uint32(0))) == 0x7E


def f64(*codes: int) -> Any:
    return np.array(codes, np.uint64).view(np.float64)


def test_nans_of_doubles() -> None:
    """As sm_90 has them: of two the second, of three the second factor, the summand, the first factor; quiet, their sign kept."""
    one, first, second = 0x3FF0 << 48, 0x7FF0000000000001, 0xFFF8000000000005
    quiet = first | 1 << 51
    assert bits(run("add.rn.f64", f64(first, first, one), f64(one, second, first))) == [quiet, second, quiet]
    assert bits(run("sub.rz.f64", f64(one), f64(second))) == [second]
    assert bits(run("fma.rn.f64", f64(first, first, one), f64(one, second, one), f64(second, first, first))) == [second, second, quiet]
    assert bits(run("neg.f64", f64(second))) == bits(run("abs.f64", f64(second))) == [second]
    assert bits(run("sub.f64", np.array([np.inf]), np.array([np.inf]))) == [0xFFF8 << 48]


def test_a_product_too_large_for_a_double_beside_infinity() -> None:
    assert run("fma.rn.f64", np.array([1.7e308]), np.array([-1e10]), np.array([np.inf])).tolist() == [np.inf]


def test_what_is_rounded_up_to_the_least_normal_number_is_flushed() -> None:
    least, below_one = np.float32(2.0**-126), np.uint32(0x3F7FFFFF).view(np.float32)
    assert bits(run("mul.f32", least, below_one)) == [0x00800000]
    assert bits(run("mul.ftz.f32", least, below_one)) == [0]
    assert bits(run("fma.rn.ftz.f32", least, -below_one, np.float32(0))) == [0x80000000]
    assert bits(run("mul.ftz.f16", np.uint16(0x0400), np.uint16(0x3BFF))) == [0]


def test_a_rounding_that_the_manual_does_not_have() -> None:
    with pytest.raises(Unsupported, match=r"only \.rn"):
        run("fma.rz.bf16", np.uint16(0), np.uint16(0), np.uint16(0))
