"""Comparison and selection: with NaNs, predicates, and elements of packed operands."""

from __future__ import annotations

import numpy as np
import pytest
from instructions import run

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")

NAN = np.float32(np.nan)
A = np.array([1, 2, 2, NAN, 1, NAN], np.float32)
B = np.array([2, 1, 2, 1, NAN, NAN], np.float32)


@pytest.mark.parametrize(
    ("comparison", "holds"),
    [
        *(("eq", "001000"), ("ne", "110000"), ("lt", "100000"), ("le", "101000"), ("gt", "010000"), ("ge", "011000")),
        *(("equ", "001111"), ("neu", "110111"), ("ltu", "100111"), ("leu", "101111"), ("gtu", "010111"), ("geu", "011111")),
        *(("num", "111000"), ("nan", "000111")),
    ],
)
def test_numbers_and_nans(comparison: str, holds: str) -> None:
    assert "".join(str(int(x)) for x in run(f"setp.{comparison}.f32", A, B)) == holds
    assert "".join(str(int(x)) for x in run(f"setp.{comparison}.f64", A.astype(float), B.astype(float))) == holds
    assert "".join(str(int(x)) for x in run(f"setp.{comparison}.f16", A.astype(np.float16), B.astype(np.float16))) == holds


def test_signed_and_unsigned() -> None:
    x, y = np.uint32(0xFFFFFFFF), np.uint32(1)
    assert not run("setp.lt.u32", x, y) and run("setp.lt.s32", x.view(np.int32), y.view(np.int32)) and run("setp.hi.u32", x, y)


def test_combined_with_a_predicate() -> None:
    c = np.array([True, False])
    assert run("setp.lt.and.s32", np.int32(1), np.int32(2), c).tolist() == [True, False]
    assert run("setp.lt.xor.s32", np.int32(1), np.int32(2), c).tolist() == [False, True]


def test_subnormal_numbers_are_zero_with_ftz() -> None:
    tiny = np.float32(1e-40)
    assert run("setp.gt.f32", tiny, np.float32(0)) and not run("setp.gt.ftz.f32", tiny, np.float32(0))


def test_results_in_registers() -> None:
    assert int(run("set.lt.u32.s32", np.int32(-1), np.int32(0))) == 0xFFFFFFFF
    assert run("set.lt.f32.s32", np.int32(-1), np.int32(0)).view(np.float32) == 1.0
    assert int(run("set.lt.u16.f16", np.float16(1), np.float16(2))) == 0xFFFF
    assert int(run("set.eq.f16x2.f16x2", np.uint32(0x3C004000), np.uint32(0x3C003C00))) == 0x3C000000
    assert int(run("set.eq.u32.bf16x2", np.uint32(0x3F804000), np.uint32(0x3F803F80))) == 0xFFFF0000


def test_selection() -> None:
    assert run("selp.b32", np.uint32(1), np.uint32(2), np.array([True, False])).tolist() == [1, 2]
    c = np.array([0.0, -0.0, -1.0, np.nan, -1e-40], np.float32)
    assert run("slct.u32.f32", np.uint32(1), np.uint32(2), c).tolist() == [1, 1, 2, 2, 2]
    assert run("slct.ftz.u32.f32", np.uint32(1), np.uint32(2), c).tolist() == [1, 1, 2, 2, 1]
