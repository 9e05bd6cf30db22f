"""When outputs of two runs are the same."""

from __future__ import annotations

import math

import pytest

from ptxkit.rewriters.profiling.comparison import compared, differences
from ptxkit.rewriters.profiling.elements import packed
from ptxkit.rewriters.profiling.launch import Array, Launch, Scalar

NAN, INF = math.nan, math.inf


def launch(*arguments: Array | Scalar) -> Launch:
    return Launch("k", (1, 1, 1), (1, 1, 1), arguments)


def differ(array: Array, before: list[float], after: list[float]) -> str:
    found = differences(launch(array), [packed(array.type, before)], [packed(array.type, after)])
    return "; ".join([str(one) for one in found])


def test_outputs_are_compared_or_else_every_array() -> None:
    given, taken = Array("i32", (4,)), Array("i32", (4,), output=True)
    ignored = Array("i32", (4,), output=True, compare="none")
    assert compared(launch(given, Scalar("i32", 1), taken, ignored)) == (2,)
    assert compared(launch(given, Scalar("i32", 1), given, Array("f32", (3,), kind="texture"))) == (0, 2)


def test_bits() -> None:
    array = Array("i32", (3,), output=True)
    assert differ(array, [1, 2, 3], [1, 2, 3]) == ""
    assert differ(array, [1, 2, 3], [1, 5, 4]) == "argument 0: 2 of 3 elements differ, [1] was 2, is 5"
    assert differ(Array("f32", (1,), output=True), [0.0], [-0.0]) != ""
    assert differ(Array("f32", (1,), output=True), [NAN], [NAN]) == ""


def test_multisets() -> None:
    array = Array("i16", (3,), output=True, compare="sorted")
    assert differ(array, [1, 2, 3], [3, 1, 2]) == ""
    assert differ(array, [1, 2, 3], [3, 1, 1]) != ""


@pytest.mark.parametrize(
    ("before", "after", "near"),
    [(1.0, 1.0009, True), (1.0, 1.0011, False), (0.0, 1e-6, True), (0.0, 2e-5, False), (NAN, NAN, True), (NAN, 1.0, False),
     (INF, INF, True), (INF, -INF, False), (INF, 1.0, False), (1.0, INF, False), (-1000.0, -1000.5, True)],
)  # fmt: skip
def test_tolerance(before: float, after: float, near: bool) -> None:
    array = Array("f32", (1,), output=True, atol=1e-5, rtol=1e-3)
    assert (differ(array, [before], [after]) == "") is near
