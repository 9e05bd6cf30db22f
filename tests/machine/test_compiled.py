"""The functions that compiled code calls."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

np = pytest.importorskip("numpy")

from ptxkit.machine.compiled import fit, guarded, land, wide  # noqa: E402

U16, U32, I32, F32, U64 = (np.dtype(name) for name in ("u2", "u4", "i4", "f4", "u8"))


def test_fit_reinterprets_bits_of_the_same_size() -> None:
    assert fit(np.uint32(0x3F800000), F32) == np.float32(1)
    assert fit(np.array([-1], I32), U32).tolist() == [0xFFFFFFFF]


def test_fit_converts_to_another_size() -> None:
    assert fit(np.uint32(0x12345), U16) == 0x2345


def test_a_narrow_result_is_extended_by_its_sign() -> None:
    assert land(np.int16(-2), np.dtype("i2"), I32) == -2
    assert land(np.uint16(0xFFFE), U16, U32) == 0xFFFE


def test_a_result_in_a_register_of_128_bits() -> None:
    assert wide(np.uint64(7)).tolist() == (7, 0)


@pytest.mark.parametrize(
    ("predicate", "expected", "runs"),
    [
        (np.bool_(False), [5, 6, 7, 8], 0),
        (np.array([False] * 4), [5, 6, 7, 8], 0),
        (np.array([True, False, True, False]), [11, 6, 13, 8], 1),
        (np.array([True] * 4), [11, 12, 13, 14], 1),
    ],
)
def test_a_guarded_instruction_runs_for_the_lanes_whose_predicate_holds(predicate: Any, expected: list[int], runs: int) -> None:
    calls = []

    def add(a: Any, b: Any) -> Any:
        calls.append(len(a))
        return a + b

    lanes = SimpleNamespace(at=lambda positions: positions)
    old = np.array([5, 6, 7, 8], np.uint32)
    (result,) = guarded(predicate, lanes, (add, False, (0,), ((U32, U32),)), (np.array([1, 2, 3, 4], np.uint32), np.uint32(10)), (old,))

    assert result.tolist() == expected
    assert calls == ([np.count_nonzero(predicate)] if runs else [])
    assert old.tolist() == [5, 6, 7, 8]
