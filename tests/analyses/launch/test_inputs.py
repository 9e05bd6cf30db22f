"""Example launches and example inputs, for kernels and inputs small enough to say what is tried."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import ptxkit
from ptxkit.analyses import Routine, routines
from ptxkit.analyses.launch.inputs import (
    ONE_BLOCK,
    TWO_BLOCKS,
    arguments,
    assumed_block,
    candidates,
    certain_block,
    contrasting_arguments,
    example_threads,
    fitted,
    loads_of_lanes,
    special_number,
    starts,
    warp_block,
    widest_block,
)
from ptxkit.analyses.launch.launch import WARP
from ptxkit.analyses.numbers.known_bits import between, bits, constant, top

HEAD = ".version 8.5\n.target sm_90\n.address_size 64\n"


def kernel(directives: str, reads: str = "%tid.x") -> Routine:
    text = f"{HEAD}.entry k() {directives} {{ .reg .b32 r; mov.u32 r, {reads}; ret; }}"
    return routines(ptxkit.parse(text))[0]


class TestThreadBlocks:
    def test_the_shape_that_a_kernel_requires_is_the_only_one(self) -> None:
        of = kernel(".reqntid 8, 4, 2", "%tid.y")

        assert certain_block(of) == warp_block(of) == widest_block(of) == (8, 4, 2)
        assert assumed_block(of) == ((8, 4, 2), False)

    @pytest.mark.parametrize(
        ("directives", "reads", "assumed", "widest"),
        [
            ("", "%tid.x", (32, 1, 1), (1024, 1, 1)),
            (".maxntid 256", "%tid.x", (256, 1, 1), (256, 1, 1)),
            # it may be launched with less in y and more in x
            (".maxntid 16, 16", "%tid.x", (16, 16, 1), (256, 1, 1)),
            # how threads are laid out is up to the launch
            ("", "%tid.y", (1, 1, 1), (1024, 1, 1)),
            (".maxntid 16, 16", "%tid.z", (1, 1, 1), (256, 1, 1)),
            # no device has as many
            (".maxntid 4096", "%tid.x", (32, 1, 1), (1024, 1, 1)),
            (".reqntid 2048", "%tid.x", (32, 1, 1), (1024, 1, 1)),
        ],
    )
    def test_one_is_assumed(self, directives: str, reads: str, assumed: tuple[int, ...], widest: tuple[int, ...]) -> None:
        of = kernel(directives, reads)

        assert assumed_block(of) == (assumed, True)
        assert widest_block(of) == widest
        assert certain_block(of) == (1, 1, 1)
        assert warp_block(of) == (WARP, 1, 1)

    @pytest.mark.parametrize(
        ("size", "threads"), [(1, (0,)), (2, (0, 1)), (32, (0, 1, 31)), (48, (0, 1, 31, 32, 47)), (256, (0, 1, 31, 32, 64, 96, 128, 255))]
    )
    def test_threads_that_are_followed(self, size: int, threads: tuple[int, ...]) -> None:
        assert example_threads(size) == threads


@pytest.mark.parametrize(
    ("name", "one", "two"),
    [
        ("%ntid.x", 64, 64),
        ("%ntid.y", 2, 2),
        ("%ctaid.x", 0, 0),
        ("%nctaid.x", 1, 2),
        ("%nctaid.y", 1, 1),
        ("%clusterid.z", 0, 0),
        ("%nclusterid.x", 1, 2),
        ("%cluster_ctaid.x", 0, 0),
        ("%cluster_ctarank", 0, 0),
        ("%cluster_nctaid.x", 1, 2),
        ("%cluster_nctarank", 1, 2),
        # these depend on the thread, or on more than the launch
        ("%tid.x", None, None),
        ("%laneid", None, None),
        ("%lanemask_eq", None, None),
        ("%smid", None, None),
    ],
)
def test_special_registers(name: str, one: int | None, two: int | None) -> None:
    assert special_number(name, (64, 2, 1), ONE_BLOCK) == one
    assert special_number(name, (64, 2, 1), TWO_BLOCKS) == two


class TestParameters:
    def test_arguments(self) -> None:
        assert arguments() == (17, 1, 100, 1000, 0)
        assert arguments(2) == (17, 1)

    def test_contrasting_arguments_are_on_both_sides_of_a_warp(self) -> None:
        less, more = contrasting_arguments()

        assert 0 < less < WARP < more

    def test_loads_of_lanes_are_less_and_more_than_those_of_others(self) -> None:
        assert {own < others for own, others in loads_of_lanes()} == {True, False}
        assert any(own < 0 < others for own, others in loads_of_lanes())

    @pytest.mark.parametrize(
        ("number", "alignment", "bounds", "width", "found"),
        [
            (17, 1, (0, 255), None, 17),
            # 17 times 16 bytes
            (17, 16, (0, 1023), None, 272),
            # 0 is a multiple of everything
            (17, 0, (0, 0), None, 0),
            (0, 4, (8, 64), None, 8),
            (1000, 1, (0, 255), None, 255),
            # in a byte, 1000 is 232
            (1000, 1, (0, 255), 8, 232),
            (1000, 1, (0, 99), 8, 99),
        ],
    )
    def test_fitted(self, number: int, alignment: int, bounds: tuple[int, int], width: int | None, found: int) -> None:
        assert fitted(number, alignment, bounds, width) == found


class TestCandidates:
    def test_a_search_starts_from_small_numbers(self) -> None:
        assert list(starts()) == sorted(starts())
        assert starts()[0] == 0

    def test_ends_of_the_range_then_constants_then_usual_numbers(self) -> None:
        found = list(candidates(32, top(32), 1, {700, -3, 40, 3}, (5, 9)))

        assert found[:9] == [5, 9, 3, (1 << 32) - 3, 40, 700, 0, 1, 2]
        assert (1 << 32) - 1 in found
        assert 9 << 11 in found

    def test_multiples_of_the_alignment(self) -> None:
        found = list(candidates(32, bits(0b1111, 0, 32), 16, {48}))

        assert found[:4] == [48, 48 * 16, 0, 16]
        assert not any(number % 16 for number in found)

    def test_one_number(self) -> None:
        assert list(candidates(32, constant(12, 32), 4, ())) == [12]

    def test_a_range_through_zero(self) -> None:
        assert sorted(candidates(8, between(-1, 1, 8), 1, ())) == [0, 1, 255]

    def test_sums_do_not_overflow(self) -> None:
        most = (1 << 31) - 1

        assert most not in candidates(32, top(32), 1, {most})
        # but numbers of 16 bits may be what they like
        assert (1 << 15) - 1 in list(candidates(16, top(16), 1, {(1 << 15) - 1}))

    @given(st.sampled_from([1, 8, 16, 32, 64]), st.data())
    def test_each_is_possible_and_comes_once(self, width: int, data: st.DataObject) -> None:
        least = data.draw(st.integers(-(1 << width - 1), (1 << width) - 1))
        span = data.draw(st.integers(0, (1 << width) - 1))
        constants = data.draw(st.sets(st.integers(-(1 << 32), 1 << 32), max_size=4))
        known = between(least, least + span, width)

        found = list(candidates(width, known, 1, constants))

        assert len(found) == len(set(found))
        for number in found:
            assert (number - known.low) % (1 << width) <= known.span
            assert not number & known.zeros
            assert number & known.ones == known.ones
