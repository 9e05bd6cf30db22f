"""Groups that are split and joined: what their registers are, whatever was taken from the split."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from ptxkit.machine.groups import DEEP, Group, Lanes, joined

RESIDENTS: Any = SimpleNamespace(count=1000, first=0)
BLANK = [np.uint32(0)] * 3
LIVE = range(3)


def group(count: int = 8) -> Group:
    """Lanes with two registers over the lanes and one that is the same for all."""
    registers: list[Any] = [np.arange(count), 10 * np.arange(count), np.uint32(7)]
    return Group(SimpleNamespace(), 0, Lanes(RESIDENTS, 100 + np.arange(count)), registers, None)  # type: ignore[arg-type]


def parts(whole: Group, *each: list[int]) -> list[Group]:
    return whole.parts([(1, np.array(one)) for one in each], [LIVE] * len(each), BLANK)


def values(one: Group) -> list[list[int]]:
    return [one.lanes.broadcast(x).tolist() for x in one.registers]


def test_parts_have_their_lanes_values_of_registers() -> None:
    one, other = parts(group(), [0, 2, 5], [1, 3, 4, 6, 7])
    assert values(one) == [[0, 2, 5], [0, 20, 50], [7, 7, 7]]
    assert one.lanes.place.tolist() == [100, 102, 105]
    assert one.block == 1
    assert values(other)[1] == [10, 30, 40, 60, 70]


def test_parts_that_join_again_have_the_registers_of_the_group() -> None:
    whole = group()
    again = joined(parts(whole, [0, 2, 5], [1, 3, 4, 6, 7]), LIVE, BLANK)
    assert again.registers[0] is whole.registers[0]
    assert again.lanes is whole.lanes


def test_what_a_part_has_written_is_joined_with_the_values_of_the_others() -> None:
    one, other = parts(group(), [0, 2, 5], [1, 3, 4, 6, 7])
    one.take([0])
    one.held[1] = one.held[0] + 1000
    again = joined([other, one], LIVE, BLANK)
    assert values(again) == [list(range(8)), [1000, 10, 1002, 30, 40, 1005, 60, 70], [7] * 8]


def test_a_part_that_writes_one_value_in_all_lanes() -> None:
    one, other = parts(group(), [0, 1, 2, 3], [4, 5, 6, 7])
    one.held[0] = np.int64(5)
    other.held[2] = np.uint32(9)
    assert values(joined([one, other], LIVE, BLANK)) == [[5, 5, 5, 5, 4, 5, 6, 7], list(range(0, 80, 10)), [7] * 4 + [9] * 4]


def test_a_part_that_is_split_again() -> None:
    whole = group()
    one, other = parts(whole, [0, 2, 5, 7], [1, 3, 4, 6])
    first, second = parts(one, [0, 3], [1, 2])
    assert first.lanes.place.tolist() == [100, 107]
    second.held[0] = np.array([-1, -2])
    again = joined([first, second], LIVE, BLANK)
    assert again.held[1] is None
    again = joined([again, other], LIVE, BLANK)
    assert values(again)[0] == [0, 1, -1, 3, 4, -2, 6, 7]
    assert again.registers[1] is whole.registers[1]


def test_some_parts_of_a_split_join() -> None:
    one, other, last = parts(group(), [1, 5], [0, 3], [2, 4, 6, 7])
    some = joined([one, other], LIVE, BLANK)
    assert some.held[0] is None
    assert values(joined([last, some], LIVE, BLANK))[1] == list(range(0, 80, 10))
    assert values(joined(parts(group(), [1, 5], [0, 3], [2]), LIVE, BLANK))[0] == [0, 1, 2, 3, 5]


def test_parts_of_different_splits_join() -> None:
    one, other = parts(group(), [0, 2, 5, 7], [1, 3, 4, 6])
    first, second = parts(one, [0, 3], [1, 2])
    beside = joined([first, other], LIVE, BLANK)
    assert values(beside)[1] == [0, 10, 30, 40, 60, 70]
    assert values(joined([second, beside], LIVE, BLANK))[1] == list(range(0, 80, 10))


def test_registers_that_are_not_live_are_blank() -> None:
    one, other = group().parts([(1, np.arange(4)), (2, np.arange(4, 8))], [[0], [1]], BLANK)
    assert values(one) == [[0, 1, 2, 3], [0] * 4, [0] * 4]
    assert values(other) == [[0] * 4, [40, 50, 60, 70], [0] * 4]


def test_lanes_that_leave_one_by_one() -> None:
    here, gone = group(32), []
    for _ in range(31):
        left, here = parts(here, [0], list(range(1, here.lanes.count)))
        gone.append(left)
        assert here.split is not None and here.split.depth <= DEEP
    assert values(joined([*gone, here], LIVE, BLANK)) == [list(range(32)), list(range(0, 320, 10)), [7] * 32]
