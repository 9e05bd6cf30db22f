"""Atomic operations on many lanes at once are those of some order: compared with one lane after another."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sampling import examples

from ptxkit.machine.memory.combining import canonical, combining, flushed, maximum, minimum, to_bf16
from ptxkit.machine.memory.updates import Update, serially

FLOATS = [0.0, -0.0, 1.0, -1.5, 3e-39, -1e-45, 1e38, 3.0e38, np.inf, -np.inf, np.nan, 1.1754944e-38, 0.1]


@examples(150)
@given(st.data())
def test_at_once_is_one_after_another(data):
    op, type = data.draw(
        st.sampled_from(
            [
                *(
                    (".add", ".u32"),
                    (".add", ".f32"),
                    (".add", ".f64"),
                    (".add", ".f16"),
                    (".add", ".bf16"),
                    (".min", ".f16"),
                    (".inc", ".u32"),
                ),
                *((".dec", ".u32"), (".exch", ".b64"), (".max", ".s64"), (".xor", ".b32"), (".cas", ".b32")),
            ]
        )
    )
    change = combining(op, type)
    update = change.update.in_global or change.update
    count = data.draw(st.integers(1, 40))
    places = data.draw(st.integers(1, 6))
    index = np.array(data.draw(st.lists(st.integers(0, places - 1), min_size=count, max_size=count)))

    def values(n: int) -> np.ndarray:
        if type in (".f32", ".f64", ".f16"):
            return np.array(data.draw(st.lists(st.sampled_from(FLOATS), min_size=n, max_size=n)), change.dtype)
        if type == ".bf16":
            return to_bf16(np.array(data.draw(st.lists(st.sampled_from(FLOATS), min_size=n, max_size=n)), np.float32))
        return np.array(data.draw(st.lists(st.integers(0, 4), min_size=n, max_size=n))).astype(change.dtype)

    start = values(places)
    operands = (values(count), values(count)) if op == ".cas" else (values(count),)
    with np.errstate(all="ignore"):
        found = start.copy()
        olds = serially(found, index, update, operands, count)
        silent = start.copy()
        serially(silent, index, update.silent(), operands, count, False)
        expected, before = start.copy(), []
        for i, place in enumerate(index.tolist()):
            before.append(expected[place])
            expected[place : place + 1] = update.step(expected[place : place + 1], *(o[i : i + 1] for o in operands))
    bits = f"u{change.dtype.itemsize}"
    used = np.isin(np.arange(places), index)
    assert olds.view(bits).tolist() == np.array(before, change.dtype).view(bits).tolist()
    assert found.view(bits).tolist() == expected.view(bits).tolist()
    assert silent.view(bits)[used].tolist() == expected.view(bits)[used].tolist()


def test_smallest_and_largest():
    nan = np.float32(np.nan)
    a, b = np.array([0.0, -0.0, nan, 1, nan], np.float32), np.array([-0.0, 0.0, 2, nan, nan], np.float32)
    assert np.signbit(minimum(a, b)).tolist()[:2] == [True, True]
    assert np.signbit(maximum(a, b)).tolist()[:2] == [False, False]
    assert minimum(a, b)[2:4].tolist() == maximum(a, b)[2:4].tolist() == [2, 1]


@pytest.mark.parametrize(("value", "bits"), [(1.0, 0x3F80), (1.00390625, 0x3F80), (1.01171875, 0x3F82), (3.4e38, 0x7F80), (np.nan, 0x7FFF)])
def test_bfloat(value, bits):
    assert to_bf16(np.array([value], np.float32)).tolist() == [bits]


def test_nan_and_subnormal_numbers():
    assert canonical(np.array([np.nan, 1], np.float32)).view(np.uint32).tolist() == [0x7FFFFFFF, 0x3F800000]
    assert flushed(np.array([-1e-45, 1e-38, 2e-38], np.float32)).tolist() == [0, 0, np.float32(2e-38)]


def test_an_update_by_any_function():
    view = np.array([1, 2], np.uint32)
    olds = serially(view, np.array([0, 0, 1]), Update(lambda old, b: old * b), (np.array([3, 5, 7], np.uint32),), 3)
    assert olds.tolist() == [1, 3, 2]
    assert view.tolist() == [15, 14]


def test_nans_of_doubles_keep_their_bits_in_global_memory_alone():
    signaling, payload, number = 0xFFF0000000000001, 0x7FF8000000000005, 0x3FF0000000000000
    old = np.array([signaling, number, signaling, payload, number], np.uint64).view(np.float64)
    b = np.array([number, signaling, payload, signaling, number], np.uint64).view(np.float64)
    update = combining(".add", ".f64").update
    assert update.in_global is not None
    with np.errstate(invalid="ignore"):
        there, shared = (np.asarray(one.step(old, b)).view(np.uint64).tolist() for one in (update.in_global, update))
    assert there == [signaling, signaling, payload, signaling, 0x4000000000000000]
    quiet = signaling | 1 << 51
    assert shared == [quiet, quiet, quiet, payload, 0x4000000000000000]
