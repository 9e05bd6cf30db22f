"""Products and sums rounded once: by an instruction of this computer, and put together of doubles, bit for bit the same."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
import pytest

from ptxkit.machine.values import double, fused, single

BITS = {single: np.uint32, double: np.uint64}
EDGES: dict[ModuleType, Any] = {
    single: np.array([0, 1 << 31, 1, 0x7FFFFF, 0x800000, 0x807FFFFF, 0x7F7FFFFF, 0x7F800000, 0xFF800000, 0xFFC12345], np.uint32),
    double: np.array([0, 1 << 63, 1, (1 << 52) - 1, 1 << 52, 0x7FEF << 48, 0x7FF0 << 48, 0xFFF0 << 48, 0x7FF8000000000123], np.uint64),
}


def operands(module: ModuleType, count: int) -> tuple[Any, Any, Any]:
    """Any bits, the edges among them; the summand is often what is left of nothing but rounding."""
    random = np.random.default_rng(count)
    bits = np.dtype(BITS[module])
    kind = np.dtype(f"f{bits.itemsize}")

    def some() -> Any:
        made = random.integers(0, np.iinfo(bits).max, count, bits, endpoint=True)
        strange = random.random(count) < 0.2
        made[strange] = random.choice(EDGES[module], int(strange.sum()))
        near = random.random(count) < 0.4
        made[near] = (made[near] & bits.type((1 << kind.itemsize * 4) - 1)) | np.ones(1, kind).view(bits)
        return made.view(kind)

    a, b, c = some(), some(), some()
    cancels = random.random(count) < 0.5
    c[cancels] = -(a * b)[cancels]
    return a, b, c


@pytest.mark.parametrize("module", [single, double])
@pytest.mark.parametrize("count", [1, 2, 31, 32, 257, fused.MOST, fused.MOST + 1])
def test_both_ways_give_the_same(module: Any, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    if not fused.is_there(np.dtype(BITS[module]).itemsize):
        pytest.skip("this computer has no such instruction")
    with np.errstate(all="ignore"):
        a, b, c = operands(module, count)
        given = [(a, b, c), (a, b[0], c), (a[-1], b, c), (a, b, c[0])]
        at_once = [module.fma(*one) for one in given]
        monkeypatch.setattr(fused, "is_there", lambda size: False)
        monkeypatch.setattr(fused.kept, "singles", {})
        for one, found in zip(given, at_once, strict=True):
            assert (module.fma(*one).view(BITS[module]) == found.view(BITS[module])).all()


def test_a_nan_that_may_be_any_is_one() -> None:
    nan, one = np.full(8, 0xFFC12345, np.uint32).view(np.float32), np.ones(8, np.float32)
    assert np.isnan(single.fma_with_any_nan(nan, one, one)).all()
    assert (single.fma_to_nearest(nan, one, one).view(np.uint32) == 0x7FFFFFFF).all()


@pytest.mark.parametrize("module", [single, double])
@pytest.mark.parametrize("count", [1, 31, 256, fused.MOST + 1, 2 * fused.MOST + 1])
def test_sums_go_on_from_the_last_result(module: Any, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def chain() -> list[Any]:
        a, b, c = operands(module, count)
        one = a.dtype.type(1.5)
        found = [module.fma(a, b, c)]
        for x, y in ((a, b), (b, a), (one, b), (a, one), (one, one), (c, b)):
            found += [module.fma(x, y, found[-1]), module.fma(x, found[-1], c), module.fma(y, x, found[0]), module.fma(y, x, one)]
        return found

    with np.errstate(all="ignore"):
        at_once = chain()
        monkeypatch.setattr(fused, "is_there", lambda size: False)
        monkeypatch.setattr(fused.kept, "singles", {})
        apart = chain()
    assert all(np.array_equal(x.view(BITS[module]), y.view(BITS[module])) for x, y in zip(at_once, apart, strict=True))
