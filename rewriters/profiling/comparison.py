"""Compares the results of two runs of a kernel."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ptxkit.frozen import frozen
from ptxkit.rewriters.profiling.elements import SIZES, unpacked
from ptxkit.rewriters.profiling.launch import Array, Launch


@frozen
class Difference:
    """A difference in the final contents of an argument between two runs."""

    argument: int
    """The index of the argument."""
    count: int
    """The number of elements that differ."""
    of: int
    """The number of elements."""
    first: int
    """The first one that differs; for arrays compared as multisets, in the order of their bytes."""
    before: int | float
    after: int | float

    def __str__(self) -> str:
        return f"argument {self.argument}: {self.count} of {self.of} elements differ, [{self.first}] was {self.before}, is {self.after}"


def compared(launch: Launch) -> tuple[int, ...]:
    """The indices of the arguments to compare: the outputs, or every array if none is declared an output."""
    arrays = [i for i, argument in enumerate(launch.arguments) if isinstance(argument, Array) and argument.kind in ("buffer", "tensormap")]
    outputs = [i for i in arrays if _array(launch, i).output]
    return tuple([i for i in outputs or arrays if _array(launch, i).compare != "none"])


def differences(launch: Launch, before: Sequence[bytes], after: Sequence[bytes]) -> tuple[Difference, ...]:
    """The differences of the compared arguments; both runs' contents are in the order of `compared`."""
    found = [_difference(i, _array(launch, i), a, b) for i, a, b in zip(compared(launch), before, after, strict=True)]
    return tuple([one for one in found if one is not None])


def _array(launch: Launch, argument: int) -> Array:
    array = launch.arguments[argument]
    assert isinstance(array, Array)
    return array


def _difference(argument: int, array: Array, before: bytes, after: bytes) -> Difference | None:
    if before == after:
        return None
    size = SIZES[array.type]
    a = [before[at : at + size] for at in range(0, len(before), size)]
    b = [after[at : at + size] for at in range(0, len(after), size)]
    if array.compare == "sorted":
        a, b = sorted(a), sorted(b)
    wrong = [i for i, (one, other) in enumerate(zip(a, b, strict=True)) if one != other]
    if array.atol or array.rtol:
        wrong = [i for i in wrong if not _near(array, *unpacked(array.type, a[i] + b[i]))]
    if not wrong:
        return None
    was, now = unpacked(array.type, a[wrong[0]] + b[wrong[0]])
    return Difference(argument, len(wrong), len(a), wrong[0], was, now)


def _near(array: Array, a: float, b: float) -> bool:
    """NaN is near NaN; an infinity only itself."""
    if math.isnan(a) or math.isnan(b):
        return math.isnan(a) and math.isnan(b)
    return a == b or abs(a - b) <= array.atol + array.rtol * abs(a) < math.inf
