"""A thread followed along paths, with what it has in flight: loops that textbooks draw."""

from __future__ import annotations

from collections.abc import Hashable

import pytest
from sample import kernel

from ptxkit.analyses.framework.routine import Routine
from ptxkit.analyses.symex.async_queue import Coverage, explore
from ptxkit.analyses.symex.moments import Moment, Observer

START = "ld.param.u64 %d1, [p]; cvt.u32.u64 %r1, %d1; "
"""Instructions 0 and 1."""
COPY = "cp.async.ca.shared.global [%r1], [%d1], 16; cp.async.commit_group; "


class InFlight(Observer):
    """By watched instruction, the operations in flight before it, by path."""

    def __init__(self) -> None:
        self.found: dict[int, set[tuple[int, ...]]] = {}

    def meet(self, moment: Moment, memory: Hashable) -> Hashable:
        self.found.setdefault(moment.instruction, set()).add(tuple([one.instruction for one in moment.pending("cp.async")]))
        return memory

    def rests(self, memory: Hashable) -> bool:
        return False


def explored(routine: Routine, *watched: int) -> tuple[dict[int, set[tuple[int, ...]]], Coverage]:
    observer = InFlight()
    coverage = explore(routine, {"cp.async"}, dict.fromkeys(watched, ()), observer)
    return {i: observer.found.get(i, set()) for i in watched}, coverage


def test_a_wait_in_one_path_only() -> None:
    routine = kernel(START + "setp.eq.u64 %p1, %d1, 0; " + COPY + "@%p1 bra a; cp.async.wait_group 0; a: ld.shared.u32 %r2, [%r1]; ret;")

    found, coverage = explored(routine, 7)

    assert found == {7: {(3,), ()}}
    assert coverage.complete


def counted(bound: str) -> Routine:
    """A loop with one group in flight after its wait; instruction 9 comes after it."""
    body = f"mov.u32 %r3, 0; a: {COPY} cp.async.wait_group 1; add.u32 %r3, %r3, 1; setp.lt.u32 %p1, %r3, {bound}; @%p1 bra a; "
    return kernel(START + body + "mov.u32 %r4, 1; ret;")


def test_a_loop_is_iterated_until_what_is_in_flight_repeats() -> None:
    found, coverage = explored(counted("%r1"), 9)

    assert found == {9: {(3,)}}
    assert coverage.complete
    assert max(coverage.rounds.values()) <= 4


@pytest.mark.xfail(strict=True, reason="where nothing that is watched changes, the loop counts as followed before its counter lets it end")
def test_what_comes_after_a_loop_of_a_known_number_of_iterations_is_met() -> None:
    found, _ = explored(counted("8"), 9)

    assert found == {9: {(3,)}}


def test_a_diverging_exit_leaves_with_what_is_in_flight() -> None:
    body = "mov.u32 %r5, %tid.x; setp.lt.u32 %p1, %r5, 16; a: " + COPY + "@%p1 bra out; cp.async.wait_group 0; @%p2 bra a; out: "

    found, _ = explored(kernel(START + body + "mov.u32 %r4, 1; ret;"), 9)

    assert found[9] == {(4,), ()}


def test_an_irreducible_loop_is_entered_at_both_blocks() -> None:
    body = "setp.eq.u64 %p1, %d1, 0; @%p1 bra b; a: " + COPY + "b: cp.async.wait_group 1; ld.shared.u32 %r2, [%r1]; @%p2 bra a; "

    found, _ = explored(kernel(START + body + "ret;"), 7)

    assert () in found[7]
    assert (4,) in found[7]
    assert all(len(one) <= 1 for one in found[7])


def test_an_unreachable_block_is_not_met() -> None:
    found, coverage = explored(kernel(START + COPY + "bra a; mov.u32 %r4, 1; a: mov.u32 %r5, 1; ret;"), 5, 6)

    assert found == {5: set(), 6: {(2,)}}
    assert coverage.complete
