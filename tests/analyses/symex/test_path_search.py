"""Paths to an instruction, with their conditions."""

from __future__ import annotations

from sample import kernel

from ptxkit.analyses.cfg.graph import control_flow
from ptxkit.analyses.framework.routine import Routine
from ptxkit.analyses.symex.path_search import MOST_VISITS, Path, paths_to

COMPARE = "ld.param.u32 %r1, [p]; setp.lt.u32 %p1, %r1, 8; setp.ge.u32 %p2, %r1, 8; "


def found(routine: Routine, target: int, *others: int) -> list[Path[tuple[int, ...]]]:
    """The paths to an instruction; the state is what was executed before of some instructions."""
    events: dict[int, list[int]] = {}
    for i in sorted([target, *others]):
        events.setdefault(control_flow(routine).block_of[i], []).append(i)
    return list(paths_to(routine, target, events, (), lambda i, state: (*state, i)))


def test_one_path_on_each_side_of_a_branch() -> None:
    routine = kernel(COMPARE + "@%p1 bra a; mov.u32 %r2, 1; a: mov.u32 %r3, 1; ret;")

    paths = found(routine, 5, 4)

    assert sorted(path.state for path in paths) == [(), (4,)]
    assert sorted(path.decisions for path in paths) == [((3, False),), ((3, True),)]


def test_a_branch_without_events_is_passed_over() -> None:
    routine = kernel(COMPARE + "@%p1 bra a; mov.u32 %r2, 1; a: mov.u32 %r3, 1; ret;")

    assert [path.decisions for path in found(routine, 5)] == [()]


def test_a_path_that_contradicts_itself_is_none() -> None:
    routine = kernel(COMPARE + "@%p1 mov.u32 %r2, 1; @%p2 mov.u32 %r3, 1; ret;")

    assert [(path.state, path.decisions) for path in found(routine, 4, 3)] == [((), ((3, False), (4, True)))]


def test_an_irreducible_loop_is_entered_at_both_blocks() -> None:
    routine = kernel(COMPARE + "@%p1 bra b; a: mov.u32 %r2, 1; b: mov.u32 %r3, 1; @%p3 bra a; ret;")

    first = {path.state[:1] for path in found(routine, 5, 4)}

    assert first == {(), (4,), (5,)}


def test_a_loop_is_iterated_a_few_times() -> None:
    routine = kernel("a: mov.u32 %r2, 1; @%p1 bra a; mov.u32 %r3, 1; ret;")

    assert {len(path.state) for path in found(routine, 2, 0)} <= set(range(1, MOST_VISITS + 1))


def test_nothing_leads_to_an_unreachable_block() -> None:
    assert found(kernel("bra a; mov.u32 %r1, 1; a: ret;"), 1) == []
