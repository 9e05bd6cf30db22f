"""Which arrivals at barriers meet."""

from __future__ import annotations

from ptxkit.analyses.memory_model.barriers import Arrival, meetings


def sync(event: int, name: int = 0, threads: int | None = None) -> Arrival:
    return Arrival(event, name, True, threads)


def arrive(event: int, name: int = 0, threads: int | None = None) -> Arrival:
    return Arrival(event, name, False, threads)


def phases(*threads: list[Arrival], awaits_all: bool = True) -> list[tuple[list[tuple[int, ...]], tuple[tuple[int, int], ...]]]:
    return [(sorted(phase.events for phase in one.phases), one.stuck) for one in meetings(threads, awaits_all)]


def test_all_threads_meet_once_for_each_arrival() -> None:
    assert phases([sync(0), sync(1)], [sync(2), sync(3)]) == [([(0, 2), (1, 3)], ())]


def test_a_thread_that_has_exited_is_not_waited_for() -> None:
    assert phases([sync(0)], []) == [([(0,)], ())]


def test_threads_at_different_barriers_deadlock() -> None:
    assert phases([sync(0, 0), sync(1, 1)], [sync(2, 1), sync(3, 0)]) == [([], ((0, 0), (1, 2)))]
    assert phases([sync(0, 0)], [sync(1, 1)]) == [([], ((0, 0), (1, 1)))]


def test_litmus_barriers_wait_only_for_those_that_come() -> None:
    assert phases([sync(0, 0)], [sync(1, 1)], awaits_all=False) == [([(0,), (1,)], ())]


def test_any_two_of_three_complete_a_barrier_that_counts_two() -> None:
    found = phases([sync(0, threads=2)], [sync(1, threads=2)], [sync(2, threads=2)])

    assert sorted(found) == [([(0, 1)], ((2, 2),)), ([(0, 2)], ((1, 1),)), ([(1, 2)], ((0, 0),))]


def test_arriving_does_not_wait() -> None:
    assert phases([arrive(0, threads=2), sync(1, 1, 2)], [sync(2, threads=2), arrive(3, 1, 2)]) == [([(0, 2), (1, 3)], ())]


def test_too_few_for_the_count() -> None:
    assert phases([sync(0, threads=3)], [sync(1, threads=3)]) == [([], ((0, 0), (1, 1)))]
