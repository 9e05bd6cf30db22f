"""Conversions: integers, floats, whole numbers, packed small floats, random bits (ISA 9.7.10.20, 9.7.10.21)."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from instructions import run
from reference import DOUBLE, HALF, MODES, SINGLE, rounded, same
from sampling import examples

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")

EXAMPLES = examples(100)
WHOLE = {"rni": round, "rzi": math.trunc, "rmi": math.floor, "rpi": math.ceil}
FLOATS = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False, width=32), st.floats(-300, 300, width=32), st.integers(-600, 600).map(lambda n: n / 2)
)


def test_between_integers() -> None:
    a = np.array([-1, 300, 127], np.int32)
    assert run("cvt.u8.s32", a).tolist() == [255, 44, 127]
    assert run("cvt.sat.u8.s32", a).tolist() == [0, 255, 127]
    assert run("cvt.sat.s8.s32", a).tolist() == [-1, 127, 127]
    assert run("cvt.s64.s32", a).tolist() == a.tolist()
    assert run("cvt.sat.s32.u64", np.array([2**63], np.uint64)).tolist() == [2**31 - 1]


@pytest.mark.parametrize("mode", WHOLE)
@pytest.mark.parametrize("type", ["u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64"])
@given(x=FLOATS)
@EXAMPLES
def test_floats_to_integers(mode: str, type: str, x: float) -> None:
    bits = int(type[1:])
    least, most = (0, 2**bits - 1) if type[0] == "u" else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    expected = max(least, min(most, WHOLE[mode](Fraction(x))))
    assert int(run(f"cvt.{mode}.{type}.f32", np.float32(x))) == expected
    assert int(run(f"cvt.{mode}.{type}.f64", np.float64(x))) == expected


def test_nans_and_infinities_to_integers() -> None:
    x = np.array([np.nan, np.inf, -np.inf], np.float32)
    assert run("cvt.rzi.s32.f32", x).tolist() == [0, 2**31 - 1, -(2**31)]
    assert run("cvt.rzi.u64.f32", x).tolist() == [2**63, 2**64 - 1, 0]
    assert run("cvt.rzi.s64.f64", x.astype(float)).tolist() == [-(2**63), 2**63 - 1, -(2**63)]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("type", ["u64", "s64", "u32", "s32"])
@given(data=st.data())
@EXAMPLES
def test_integers_to_floats(mode: str, type: str, data: st.DataObject) -> None:
    bits = int(type[1:])
    least, most = (0, 2**bits - 1) if type[0] == "u" else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    a = data.draw(st.one_of(st.integers(least, most), st.integers(0, 70000)))
    value = np.dtype(f"{'u' if type[0] == 'u' else ''}int{bits}").type(a)
    exact = Fraction(a)
    assert same(float(run(f"cvt.{mode}.f32.{type}", value)), rounded(exact, mode, *SINGLE) if a else 0.0)
    assert same(float(run(f"cvt.{mode}.f64.{type}", value)), rounded(exact, mode, *DOUBLE) if a else 0.0)
    assert same(float(run(f"cvt.{mode}.f16.{type}", value).view(np.float16)), rounded(exact, mode, *HALF) if a else 0.0)


@pytest.mark.parametrize("mode", MODES)
@given(x=st.one_of(st.floats(allow_nan=False, allow_infinity=False), FLOATS))
@EXAMPLES
def test_to_narrower_floats(mode: str, x: float) -> None:
    exact = Fraction(x)
    assert same(float(run(f"cvt.{mode}.f32.f64", np.float64(x))), rounded(exact, mode, *SINGLE) if x else x)
    assert same(float(run(f"cvt.{mode}.f16.f64", np.float64(x)).view(np.float16)), rounded(exact, mode, *HALF) if x else x)


def test_whole_numbers_stay_floats() -> None:
    assert run("cvt.rni.f32.f32", np.array([0.5, 1.5, -0.3], np.float32)).tolist() == [0, 2, -0.0]
    assert run("cvt.rpi.ftz.f32.f32", np.array([1e-40], np.float32)).tolist() == [0]


def test_limits() -> None:
    x = np.array([70000, -70000, np.inf, np.nan, -1], np.float32)
    assert [int(v) for v in run("cvt.rn.f16.f32", x)] == [0x7C00, 0xFC00, 0x7C00, 0x7FFF, 0xBC00]
    assert [int(v) for v in run("cvt.rn.satfinite.f16.f32", x)] == [0x7BFF, 0xFBFF, 0x7BFF, 0x7FFF, 0xBC00]
    assert [int(v) for v in run("cvt.rn.relu.f16.f32", x)] == [0x7C00, 0, 0x7C00, 0x7FFF, 0]
    assert run("cvt.sat.f32.f32", x).tolist() == [1, 0, 1, 0, 0]


def test_the_first_operand_goes_to_the_upper_half() -> None:
    one, two = np.float32(1), np.float32(2)
    assert int(run("cvt.rn.f16x2.f32", one, two)) == 0x3C004000
    assert int(run("cvt.rn.bf16x2.f32", one, two)) == 0x3F804000
    assert int(run("cvt.rn.satfinite.e4m3x2.f32", one, two)) == 0x3840
    assert int(run("cvt.rn.satfinite.e2m1x2.f32", one, two)) == 0x24
    assert int(run("cvt.rn.satfinite.e5m2x2.f16x2", np.uint32(0x3C004000))) == 0x3C40
    assert int(run("cvt.rn.f16x2.e4m3x2", np.uint16(0x3840))) == 0x3C004000
    assert int(run("cvt.rn.bf16x2.ue8m0x2", np.uint16(0x7F80))) == 0x3F804000


def test_scales() -> None:
    one, two = np.float32(1), np.float32(2)
    assert int(run("cvt.rn.satfinite.scaled::n1::ue8m0.e4m3x2.f32", one, two, np.uint8(128))) == 0x3038
    assert int(run("cvt.rn.scaled::n2::ue8m0.bf16x2.e4m3x2", np.uint16(0x3838), np.uint16(0x807F))) == 0x40003F80
    assert int(run("cvt.rn.satfinite.s2f6x2.f32", one, np.float32(-0.5))) == 0x40E0


def test_random_bits() -> None:
    """A bit of what is dropped is set: the random bits must carry from there."""
    x = np.uint32(0x3F800001).view(np.float32)
    assert int(run("cvt.rs.bf16x2.f32", x, x, np.uint32(0xFFFF_FFFE))) == 0x3F813F80
    assert int(run("cvt.rs.f16x2.f32", x, x, np.uint32(0x1FFF_1FFE))) == 0x3C013C00
    quarter = np.float32(1.125)
    vector = (quarter, quarter, np.float32(1), np.float32(2))
    assert int(run("cvt.rs.satfinite.e5m2x4.f32", vector, np.uint32(0x8000_0000))) == 0x3D3D3C40
    assert int(run("cvt.rs.satfinite.e5m2x4.f32", vector, np.uint32(0x7FFF_FFFF))) == 0x3C3C3C40


def test_pack() -> None:
    a, b = np.int32(-5), np.int32(70000)
    assert int(run("cvt.pack.sat.s16.s32", a, b)) == 0xFFFB7FFF
    assert int(run("cvt.pack.sat.u8.s32.b32", a, b, np.uint32(0xABCD))) == 0xABCD00FF
    assert int(run("cvt.pack.sat.s4.s32.b32", a, b, np.uint32(1))) == 0x000001B7


def test_nans_as_sm_90_has_them() -> None:
    """Copied as bits, made canonical, quiet with what fits of the payload, or counted up as any bits."""
    nan = np.uint32(0xFF800001)
    assert int(run("cvt.f32.f32", nan.view(np.float32)).view(np.uint32)) == nan
    assert int(run("cvt.f32.bf16", np.uint16(0xFF81)).view(np.uint32)) == 0xFF810000
    assert int(run("cvt.rna.tf32.f32", nan)) == 0xFF800000
    assert int(run("cvt.rn.tf32.f32", nan.view(np.float32))) == 0x7FFFE000
    double = np.uint64(0xFFF0000000000001).view(np.float64)
    assert int(run("cvt.rn.f16.f64", double)) == 0xFE00 and int(run("cvt.rn.bf16.f64", double)) == 0xFFC0
    assert int(run("cvt.rn.f32.f64", double).view(np.uint32)) == 0xFFC00000
    assert int(run("cvt.ftz.f64.f32", nan.view(np.float32)).view(np.uint64)) == 0x7FFFFFFFE0000000
    assert int(run("cvt.f64.f16", np.uint16(0x7C01)).view(np.uint64)) == 0x7FF8040000000000
