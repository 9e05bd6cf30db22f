"""Boxes of tensor maps with which what is announced comes."""

from __future__ import annotations

from fractions import Fraction
from types import SimpleNamespace

from hypothesis import given
from hypothesis import strategies as st

from ptxkit.analyses.verify.tensor_boxes import boxes

SIZES = st.dictionaries(st.sampled_from("abcd"), st.integers(1, 64).map(lambda n: 64 * n), min_size=1)


def machine(phases: list[tuple[dict[str, int], int]], targets: dict[str, set[int]] | None = None) -> SimpleNamespace:
    """A run in which one object has these phases: how many copies of each map, and the bytes that are announced."""
    object_ = SimpleNamespace(maps_of=[maps for maps, _ in phases], bytes=[(total, 0) for _, total in phases])
    return SimpleNamespace(by_number={-1: object_}, targets=targets or {})


def test_what_phases_determine() -> None:
    assert boxes(machine([({"a": 2, "b": 1}, 5120), ({"a": 1}, 2048)])) == {"a": 2048, "b": 1024}  # type: ignore[arg-type]


def test_what_they_do_not_is_told_by_where_copies_write() -> None:
    found = boxes(machine([({"a": 1, "b": 1}, 3072)], {"a": {0, 2048}, "b": {4096, 5120}}))  # type: ignore[arg-type]

    assert found == {"a": 2048, "b": 1024}


def test_nothing_fits() -> None:
    assert boxes(machine([({"a": 1}, 2048), ({"a": 1}, 1024)])) == {}  # type: ignore[arg-type]


@given(SIZES, st.lists(st.dictionaries(st.sampled_from("abcd"), st.integers(1, 3)), max_size=5))
def test_the_sums_come_out(sizes: dict[str, int], counts: list[dict[str, int]]) -> None:
    phases = [(own, sum(sizes[name] * count for name, count in own.items())) for one in counts if (own := _within(one, sizes))]
    found = boxes(machine(phases))  # type: ignore[arg-type]

    assert all(sum(Fraction(found[name]) * count for name, count in own.items()) == total for own, total in phases if found)


def _within(counts: dict[str, int], sizes: dict[str, int]) -> dict[str, int]:
    return {name: count for name, count in counts.items() if name in sizes}
