"""What is run of a launch, and how far."""

from __future__ import annotations

import pytest

import ptxkit
from ptxkit.analyses.dynamic.once import once
from ptxkit.analyses.dynamic.runs import LEAST, RUNS, USUAL, Runs, Setting
from ptxkit.analyses.execution.contents import COUNT
from ptxkit.analyses.execution.loading import loaded
from ptxkit.analyses.framework.routine import routines
from ptxkit.analyses.inputs.launches import Sizes, example
from ptxkit.analyses.inputs.shapes import shapes

LOOP = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k()
{{
	.reg .pred %p;
	.reg .b32 %r;
	mov.u32 %r, 0;
loop:
	bar.sync 0;
	add.u32 %r, %r, 1;
	setp.lt.u32 %p, %r, {rounds};
	@%p bra loop;
	{rest}
	ret;
}}
"""


@pytest.mark.parametrize(
    ("rest", "ends"),
    [("", True), ("bar.sync 1;" * 9, False)],
    ids=["only the loop", "most instructions come after it"],
)
def test_a_launch_that_only_repeats_itself_ends(rest: str, ends: bool) -> None:
    module = ptxkit.parse(LOOP.format(rounds=1000, rest=rest))
    routine = routines(module)[0]
    launch = example(routine, shapes(routine)[0], Sizes())

    ran = once(loaded(module), launch, COUNT, 100_000, 60, patience=500)

    assert ran.is_timed_out == ends
    assert (500 < ran.observer.operations < 600) == ends


def test_a_launch_with_few_rounds_is_not_cut() -> None:
    module = ptxkit.parse(LOOP.format(rounds=100, rest=""))
    routine = routines(module)[0]
    launch = example(routine, shapes(routine)[0], Sizes())

    assert once(loaded(module), launch, COUNT, 100_000, 60, patience=500).fault is None


def test_a_launch_that_does_not_end_is_not_run_again_and_charged_in_full() -> None:
    module = ptxkit.parse(LOOP.format(rounds=1 << 30, rest=""))
    routine = routines(module)[0]
    runs = Runs(routine, loaded(module), 60)
    launch = runs.example(shapes(routine)[0], Sizes())

    first = runs.once(launch, USUAL)
    again = runs.once(launch, USUAL)

    assert first.is_timed_out
    assert again is first
    for _ in range(RUNS - 2):
        assert not runs.is_used_up
        runs.once(launch, USUAL)
    assert runs.is_used_up


def test_whether_collectives_order_a_race_is_found_out_even_if_nothing_is_left() -> None:
    module = ptxkit.parse(LOOP.format(rounds=1 << 30, rest=""))
    routine = routines(module)[0]
    runs = Runs(routine, loaded(module), 60)
    launch = runs.example(shapes(routine)[0], Sizes())
    first = runs.once(launch, USUAL)
    while not runs.is_used_up:
        runs.once(launch, USUAL)

    assert runs.once(launch, Setting(schedule=1)).limit == LEAST
    assert runs.once(launch, USUAL, by_collectives=True).limit == first.limit > LEAST
