"""What the instruction table says of how uniform results are."""

from __future__ import annotations

import pytest
from sample import kernel

from ptxkit.analyses.framework.bindings import bindings
from ptxkit.analyses.uniformity.levels import Level
from ptxkit.analyses.uniformity.transfer import How, groups_itself, space_level, special_level, transfer
from ptxkit.isa.binding import Bound


def bound(text: str) -> Bound:
    found = bindings(kernel(text))[0]
    assert isinstance(found, Bound)
    return found


@pytest.mark.parametrize(
    ("text", "how"),
    [
        ("add.u32 %r1, %r2, %r3;", (How.INPUTS, Level.GRID)),
        ("ld.shared.u32 %r1, [%r2];", (How.MEMORY, Level.GRID)),
        # nobody writes there while the kernel runs
        ("ld.global.nc.u32 %r1, [%d1];", (How.INPUTS, Level.GRID)),
        ("atom.shared.add.u32 %r1, [%r2], 1;", (How.NEVER, Level.THREAD)),
        ("vote.sync.any.pred %p1, %p2, -1;", (How.GROUP, Level.WARP)),
        ("shfl.sync.idx.b32 %r1, %r2, 0, 31, -1;", (How.BROADCAST, Level.GRID)),
        # from the lane before or its own: the same if all lanes hold the same
        ("shfl.sync.up.b32 %r1, %r2, 1, 0, -1;", (How.INPUTS, Level.GRID)),
    ],
)
def test_where_the_uniformity_of_a_result_comes_from(text: str, how: tuple[How, Level]) -> None:
    assert transfer(bound(text)).of(0) == how


def test_one_lane_is_elected() -> None:
    plan = transfer(bound("elect.sync %r1|%p1, -1;"))

    assert How.ONE in [how for how, _ in plan.outputs]


def test_a_broadcast_has_a_source_and_is_controlled_by_lane_and_mask() -> None:
    # reads %r2, which is handed out, then the lane %r3 and the mask %r4
    plan = transfer(bound("shfl.sync.idx.b32 %r1, %r2, %r3, 31, %r4;"))

    assert plan.source == 0
    assert set(plan.control) == {1, 2}


@pytest.mark.parametrize(
    ("text", "base", "narrows"),
    [
        ("add.u32 %r1, %r2, 7;", Level.GRID, False),
        # a mask may take away what differs
        ("and.b32 %r1, %r2, 32;", Level.GRID, True),
        ("mov.u32 %r1, %tid.x;", Level.THREAD, True),
        ("mov.u32 %r1, %ctaid.x;", Level.CTA, True),
    ],
)
def test_what_is_no_register(text: str, base: Level, narrows: bool) -> None:
    plan = transfer(bound(text))

    assert (plan.base, plan.narrows) == (base, narrows)


def test_parameters_are_left_to_the_function() -> None:
    by_name = transfer(bound("ld.param.u64 %d1, [p];"))

    assert by_name.parameters
    assert not by_name.is_plain
    assert transfer(bound("add.u32 %r1, %r2, %r3;")).is_plain


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("vote.sync.any.pred %p1, %p2, -1;", True),
        ("bar.red.popc.u32 %r1, 0, %p1;", True),
        ("vote.any.pred %p1, %p2;", False),
    ],
)
def test_who_the_group_is(text: str, expected: bool) -> None:
    assert groups_itself(bound(text)) is expected


@pytest.mark.parametrize(
    ("name", "level"),
    [
        ("%tid.x", Level.THREAD),
        ("%laneid", Level.THREAD),
        ("%ctaid.y", Level.CTA),
        ("%clusterid.x", Level.CLUSTER),
        ("%ntid.z", Level.GRID),
        # may change while the kernel runs
        ("%warpid", Level.THREAD),
        ("%clock64", Level.THREAD),
        ("%nothing", Level.THREAD),
    ],
)
def test_special_registers(name: str, level: Level) -> None:
    assert special_level(name) == level


def test_addresses_of_variables() -> None:
    spaces = (".global", ".const", ".shared", ".shared::cta", ".shared::cluster", ".local")

    assert [space_level(space) for space in spaces] == [Level.GRID, Level.GRID, Level.CTA, Level.CTA, Level.CTA, Level.THREAD]
