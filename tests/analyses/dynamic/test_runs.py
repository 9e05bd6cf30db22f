"""What is run of a launch, and how far."""

from __future__ import annotations

from typing import Any

import pytest

import ptxkit
from ptxkit.analyses.dynamic.exercise import exercise
from ptxkit.analyses.dynamic.once import Ran, once
from ptxkit.analyses.dynamic.runs import LEAST, RUNS, USUAL, Runs, Setting
from ptxkit.analyses.execution.contents import COUNT
from ptxkit.analyses.execution.loading import loaded
from ptxkit.analyses.framework.routine import routines
from ptxkit.analyses.inputs.example import Example
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


RACE = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k() .reqntid 64
{
	.reg .pred %p;
	.reg .b32 %r<3>;
	.shared .b32 s;
	mov.u32 %r0, %tid.x;
	st.shared.u32 [s], %r0;
	mov.u32 %r1, 0;
loop:
	bar.sync 0;
	add.u32 %r1, %r1, 1;
	setp.lt.u32 %p, %r1, 50;
	@%p bra loop;
	ret;
}
"""


def test_a_run_ends_once_it_has_shown_what_is_asked_about() -> None:
    runs, launch = _runs(RACE)
    whole = runs.once(launch, USUAL)
    other, _ = _runs(RACE)

    short = other.once(launch, Setting(asked=whole.wrong))

    assert len(whole.wrong) == 1
    assert short.has_shown_enough and not whole.has_shown_enough
    assert [one.diagnostic.span for one in short.wrong] == [one.diagnostic.span for one in whole.wrong]
    assert short.observer.operations < whole.observer.operations / 10


def test_a_run_that_ended_early_answers_only_for_what_it_has_shown() -> None:
    runs, launch = _runs(RACE)
    asked = runs.once(launch, USUAL).wrong
    other, _ = _runs(RACE)

    short = other.once(launch, Setting(asked=asked))

    assert other.once(launch, Setting(asked=asked)) is short
    whole = other.once(launch, USUAL)
    assert whole.fault is None
    assert other.once(launch, Setting(asked=asked)) is whole


def test_a_run_goes_on_for_what_it_does_not_show() -> None:
    runs, launch = _runs(RACE)
    asked = runs.once(launch, USUAL).wrong
    other, ordered = _runs(RACE.replace("st.shared.u32 [s], %r0;", "atom.shared.exch.b32 %r2, [s], %r0;"))

    assert other.once(ordered, Setting(asked=asked)).fault is None


def _runs(text: str) -> tuple[Runs, Example]:
    module = ptxkit.parse(text)
    routine = routines(module)[0]
    runs = Runs(routine, loaded(module), 60)
    return runs, runs.example(shapes(routine)[0], Sizes())


FLAG = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 p) .reqntid THREADS
{
	.reg .b32 %r;
	.reg .b64 %rd;
	ld.param.u64 %rd, [p];
	ld.acquire.gpu.global.u32 %r, [%rd];
	st.global.u32 [%rd+4], %r;
	ret;
}
"""


@pytest.mark.parametrize(("threads", "has_orders"), [(1, False), (2, True)])
def test_other_schedules_are_tried_for_several_threads_only(threads: int, has_orders: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    assert (1 in _schedules(FLAG.replace("THREADS", str(threads)), monkeypatch)) == has_orders


NUMBERS = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .align 8 .b8 p[40]) BFLAG
{
	.reg .pred %p;
	.reg .b32 %r<9>;
	.reg .b64 %rd<9>;
	ld.param.u64 %rd1, [p];
	ld.param.u32 %r1, [p+8]; ld.param.u32 %r2, [p+12]; ld.param.u32 %r3, [p+16];
	ld.param.u32 %r4, [p+20]; ld.param.u32 %r5, [p+24];
	add.u32 %r1, %r1, %r2; add.u32 %r3, %r3, %r4; add.u32 %r1, %r1, %r3; add.u32 %r1, %r1, %r5;
	mov.u32 %r6, %tid.x;
	setp.ge.u32 %p, %r6, %r1;
	@%p ret;
	atom.global.add.u32 %r7, [%rd1], 1;
	st.global.u32 [%rd1+4], %r6;
	ret;
}
"""


@pytest.mark.parametrize(("block", "is_once"), [(".maxntid 128", True), (".reqntid 128", False)])
def test_a_kernel_whose_numbers_excuse_all_findings_is_run_once(block: str, is_once: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    assert (len(_schedules(NUMBERS.replace("BFLAG", block), monkeypatch)) == 1) == is_once


def _schedules(text: str, monkeypatch: pytest.MonkeyPatch) -> list[str | int]:
    """The schedules of all runs of a kernel."""
    found: list[str | int] = []
    run = Runs.once

    def watched(self: Runs, one: Example, setting: Setting, **options: Any) -> Ran:
        found.append(setting.schedule)
        return run(self, one, setting, **options)

    module = ptxkit.parse(text)
    with monkeypatch.context() as patched:
        patched.setattr(Runs, "once", watched)
        exercise(routines(module)[0], loaded(module))
    return found
