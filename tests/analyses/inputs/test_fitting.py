"""Boxes of tensor maps, as a run of the kernel shows them."""

from __future__ import annotations

import contextlib
import math
from typing import Any

import pytest

import ptxkit
from ptxkit.analyses.execution.contents import COUNT
from ptxkit.analyses.execution.loading import loaded
from ptxkit.analyses.execution.transfers import ENOUGH, Transfers
from ptxkit.analyses.framework.routine import Routine, routines
from ptxkit.analyses.inputs import fitting
from ptxkit.analyses.inputs.arguments import TENSOR, Sizes
from ptxkit.analyses.inputs.example import Example, Map, Maps, made_maps, memory_of
from ptxkit.analyses.inputs.fitting import fits, is_guessed
from ptxkit.analyses.inputs.launches import example
from ptxkit.analyses.inputs.parameters import parameters
from ptxkit.analyses.inputs.shapes import shapes
from ptxkit.diagnostics import Severity
from ptxkit.machine import Fault

COPY = "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
EXPECT = "mbarrier.arrive.expect_tx.shared::cta.b64 _,"
GENERIC = "mov.b64 %rd1, a; cvta.param.u64 %rd1, %rd1; mov.b64 %rd2, b; cvta.param.u64 %rd2, %rd2;"
OF_PARAMETERS = ".param .align 64 .b8 a[128], .param .align 64 .b8 b[128]"


def text_of(body: str, maps: str = OF_PARAMETERS, take: str = GENERIC) -> str:
    return f""".version 9.0
.target sm_100a
.address_size 64
.visible .entry k({maps}) .reqntid 32
{{
.reg .pred %p<4>; .reg .b32 %r<9>; .reg .b64 %rd<9>;
.shared .align 1024 .b8 s[65536]; .shared .align 8 .b64 bar[2];
mov.u32 %r1, %tid.x; setp.ne.u32 %p1, %r1, 0; @%p1 ret;
{take}
mov.u32 %r2, s; mov.u32 %r3, bar;
mbarrier.init.shared::cta.b64 [%r3], 1;
mbarrier.init.shared::cta.b64 [%r3+8], 1;
fence.proxy.async.shared::cta;
{body}
ret;
}}
"""


def kernel(body: str, maps: str = OF_PARAMETERS, take: str = GENERIC) -> Routine:
    return next(iter(routines(ptxkit.parse(text_of(body, maps, take)))))


APART = f"""
{EXPECT} [%r3], 4096;
{COPY} [%r2], [%rd1, {{0, 0}}], [%r3];
{COPY} [%r2+2048], [%rd1, {{0, 0}}], [%r3];
{EXPECT} [%r3+8], 10240;
{COPY} [%r2+8192], [%rd2, {{0, 0}}], [%r3+8];
{COPY} [%r2+32768], [%rd1, {{0, 0}}], [%r3+8];
"""
USUAL = f"""
{EXPECT} [%r3], 1024;
{COPY} [%r2], [%rd1, {{0, 0}}], [%r3];
{COPY} [%r2+8192], [%rd1, {{0, 0}}], [%r3];
{EXPECT} [%r3+8], 1024;
{COPY} [%r2+16384], [%rd2, {{0, 0}}], [%r3+8];
{COPY} [%r2+32768], [%rd2, {{0, 0}}], [%r3+8];
"""
TOGETHER = f"""
{EXPECT} [%r3], 12288;
{COPY} [%r2], [%rd1, {{0, 0}}], [%r3];
{COPY} [%r2+8192], [%rd2, {{0, 0}}], [%r3];
{EXPECT} [%r3+8], 24576;
{COPY} [%r2+12288], [%rd1, {{0, 0}}], [%r3+8];
{COPY} [%r2+20480], [%rd2, {{0, 0}}], [%r3+8];
{COPY} [%r2+24576], [%rd1, {{0, 0}}], [%r3+8];
{COPY} [%r2+32768], [%rd2, {{0, 0}}], [%r3+8];
"""
COMPUTED = f"setp.eq.u32 %p3, %r1, 0; selp.u32 %r4, 2048, 4096, %p3; {EXPECT} [%r3], %r4;\n{COPY} [%r2], [%rd1, {{0, 0}}], [%r3];\n"
WAIT = "L: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r3], 0; @!%p2 bra L;\n"
CHANGE = "ld.shared.u32 %r5, [%r2]; add.u32 %r5, %r5, 1; st.shared.u32 [%r2], %r5; fence.proxy.async.shared::cta;\n"
STORE = """
cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%rd2, {0, 0}], [%r2];
cp.async.bulk.commit_group;
cp.async.bulk.wait_group 0;
"""
OTHER = f"{COPY} [%r2+8192], [%rd2, {{0, 0}}], [%r3+8];"


def bytes_of(routine: Routine) -> dict[tuple[str, int, int], int]:
    return {name: fit.bytes for name, fit in fits(routine).boxes.items()}


def test_phases_of_mbarriers_are_equations() -> None:
    routine = kernel(APART)

    assert bytes_of(routine) == {("a", 0, 0): 2048, ("b", 0, 0): 8192}
    assert not is_guessed(routine)
    maps = [one for _, one in example(routine, shapes(routine)[0]).arguments]
    assert [math.prod(one.box) * 2 for one in maps if isinstance(one, Map)] == [2048, 8192]


def test_two_mbarriers_that_expect_the_same_bytes_do_not_share_them() -> None:
    body = f"""
    {EXPECT} [%r3], 4096;
    {COPY} [u], [%rd1, {{0, 0}}], [%r3];
    {EXPECT} [%r3+8], 4096;
    {COPY} [v], [%rd2, {{0, 0}}], [%r3+8];
    """
    routine = kernel(".shared .align 128 .b8 u[4096], v[4096];" + body)
    assert bytes_of(routine) == {("a", 0, 0): 4096, ("b", 0, 0): 4096}
    assert not is_guessed(routine)


def test_boxes_of_one_phase_have_the_room_before_the_next_copy() -> None:
    routine = kernel(TOGETHER)

    assert bytes_of(routine) == {("a", 0, 0): 8192, ("b", 0, 0): 4096}
    assert not is_guessed(routine)


def test_two_boxes_of_one_phase_that_no_room_tells_apart_are_guessed() -> None:
    alone = TOGETHER[: TOGETHER.rindex(EXPECT)] + f"{EXPECT} [%r3+8], 16;"

    assert is_guessed(kernel(alone))


def test_phases_that_contradict_each_other_leave_a_guess() -> None:
    wrong = APART.replace("10240", "10256").replace("[%rd2,", "[%rd1,") + f"{COPY} [%r2+40960], [%rd1, {{0, 0}}], [%r3+8];"

    assert is_guessed(kernel(wrong))


def test_one_phase_that_contradicts_others_of_the_same_boxes_is_a_mistake_of_the_kernel() -> None:
    again = f"{EXPECT} [%r3], 2064;\n{COPY} [%r2], [%rd1, {{0, 0}}], [%r3];\n"
    first = f"{EXPECT} [%r3], 2048;\n{COPY} [%r2], [%rd1, {{0, 0}}], [%r3];\n"
    routine = kernel(f"{first}{WAIT}{again}{EXPECT} [%r3+8], 2560;\n{COPY} [%r2+2048], [%rd1, {{0, 0}}], [%r3+8];\n" + OTHER)

    assert bytes_of(routine) == {("a", 0, 0): 2048, ("b", 0, 0): 512}
    assert not is_guessed(routine)


def test_boxes_smaller_than_the_room_are_powers_of_two() -> None:
    body = f"""
        {EXPECT} [%r3], 6144;
        {COPY} [%r2], [%rd1, {{0, 0}}], [%r3];
        {COPY} [%r2+4096], [%rd2, {{0, 0}}], [%r3];
        {EXPECT} [%r3+8], 6144;
        {COPY} [%r2+6656], [%rd1, {{0, 0}}], [%r3+8];
        {COPY} [%r2+10752], [%rd2, {{0, 0}}], [%r3+8];
    """
    routine = kernel(body)

    assert bytes_of(routine) == {("a", 0, 0): 4096, ("b", 0, 0): 2048}
    assert not is_guessed(routine)


def test_boxes_fill_a_stage_of_a_ring_that_the_run_does_not_get_to() -> None:
    # with synthesized boxes, the first wait has no end
    ring = f"""
        {EXPECT} [%r3+8], 8192;
        mov.u32 %r4, 0;
        LOOP: and.b32 %r5, %r4, 1; mad.lo.u32 %r6, %r5, 1536, %r2; mad.lo.u32 %r7, %r5, 768, %r2;
        {EXPECT} [%r3], 2304;
        {COPY} [%r6], [%rd1, {{0, 0}}], [%r3];
        {COPY} [%r7+8192], [%rd2, {{0, 0}}], [%r3];
        L: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r3], %r5; @!%p2 bra L;
        add.u32 %r4, %r4, 1; setp.lt.u32 %p2, %r4, 4; @%p2 bra LOOP;
    """
    routine = kernel(ring)

    assert bytes_of(routine) == {("a", 0, 0): 1536, ("b", 0, 0): 768}
    assert not is_guessed(routine)


def test_an_aligned_start_of_memory_is_no_stage() -> None:
    # the boxes fill the room before the next copy and the end of the variable: the text says so
    routine = kernel(f"""
        add.u32 %r2, %r2, 1023; and.b32 %r2, %r2, -1024;
        {EXPECT} [%r3], 24576;
        {COPY} [%r2], [%rd1, {{0, 0}}], [%r3];
        {COPY} [%r2+16384], [%rd2, {{0, 0}}], [%r3];
        {EXPECT} [%r3+8], 24576;
        {COPY} [%r2+24576], [%rd1, {{0, 0}}], [%r3+8];
        {COPY} [%r2+40960], [%rd2, {{0, 0}}], [%r3+8];
    """)

    assert not is_guessed(routine)
    maps = [one for _, one in example(routine, shapes(routine)[0]).arguments]
    assert [math.prod(one.box) * 2 for one in maps if isinstance(one, Map)] == [16384, 8192]


def test_of_several_choices_launches_with_other_sizes_have_another() -> None:
    body = f"""
        {EXPECT} [%r3], 640;
        {COPY} [%r2], [%rd1, {{0, 0}}], [%r3];
        {COPY} [%r2+512], [%rd2, {{0, 0}}], [%r3];
        {EXPECT} [%r3+8], 640;
        {COPY} [%r2+1024], [%rd1, {{0, 0}}], [%r3+8];
        {COPY} [%r2+1536], [%rd2, {{0, 0}}], [%r3+8];
    """
    routine = kernel(body)

    assert not is_guessed(routine)
    chosen = [
        [math.prod(one.box) * 2 for _, one in example(routine, shapes(routine)[0], sizes).arguments if isinstance(one, Map)]
        for sizes in (Sizes(), Sizes(differ=True))
    ]
    assert chosen == [[128, 512], [512, 128]]


def test_expected_bytes_that_are_computed() -> None:
    routine = kernel(COMPUTED)

    assert bytes_of(routine) == {("a", 0, 0): 2048}
    assert not is_guessed(routine)


def test_no_phase_counts_the_box_of_a_store() -> None:
    routine = kernel(COMPUTED + WAIT + CHANGE + STORE)

    assert bytes_of(routine) == {("a", 0, 0): 2048}
    assert is_guessed(routine)


@pytest.mark.parametrize(("store", "severity"), [("", Severity.ERROR), (STORE, Severity.WARNING)])
def test_a_missing_wait_for_a_load_is_a_warning_where_the_box_of_a_store_is_guessed(store: str, severity: Severity) -> None:
    right, wrong = text_of(COMPUTED + WAIT + CHANGE + store), text_of(COMPUTED + CHANGE + store)

    assert not ptxkit.lint(right)
    assert [(one.rule, one.severity) for one in ptxkit.lint(wrong)] == [("M019", severity)]


def test_maps_of_one_structure_are_told_apart() -> None:
    take = "mov.b64 %rd1, m; cvta.param.u64 %rd1, %rd1; add.u64 %rd2, %rd1, 128;"
    one = f"{EXPECT} [%r3], 6144;\n{COPY} [%r2], [%rd1, {{0, 0}}], [%r3];\n{COPY} [%r2+2048], [%rd2, {{0, 0}}], [%r3];\n"
    two = f"{EXPECT} [%r3+8], 6144;\n{COPY} [%r2+6144], [%rd1, {{0, 0}}], [%r3+8];\n{COPY} [%r2+8192], [%rd2, {{0, 0}}], [%r3+8];\n"
    end = f"{EXPECT} [%r3], 2048;\n{COPY} [%r2+12288], [%rd1, {{0, 0}}], [%r3];\n"
    for body in (one + two + end, one + two):
        routine = kernel(body, ".param .align 64 .b8 m[256]", take)
        ((_, argument),) = example(routine, shapes(routine)[0]).arguments

        assert [math.prod(one.box) * 2 for one in made_maps(argument) if one is not None] == [2048, 4096]


def test_every_share_of_the_expected_bytes_makes_a_box() -> None:
    body = f"{EXPECT} [%r3], 16;\n{COPY} [%r2], [%rd1, {{0, 0}}], [%r3];\n{COPY} [%r2+2048], [%rd2, {{0, 0}}], [%r3];\n"
    maps = [one for _, one in example(kernel(body), shapes(kernel(body))[0]).arguments if isinstance(one, Map)]

    assert [math.prod(one.box) * 2 % 16 for one in maps] == [0, 0]


def test_a_pointer_to_tensor_maps() -> None:
    take = "ld.param.u64 %rd1, [m]; add.u64 %rd2, %rd1, 128;"
    routine = kernel(APART, ".param .u64 m", take)

    (slot,) = parameters(routine)[0].slots
    assert slot.maps == ((0, 2), (128, 2))
    assert bytes_of(routine) == {("m", 0, 0): 2048, ("m", 0, 128): 8192}
    ((_, argument),) = example(routine, shapes(routine)[0]).arguments
    assert isinstance(argument, Maps)
    assert [math.prod(one.box) * 2 for _, one in argument.maps] == [2048, 8192]


def test_tensors_of_many_dimensions_are_small() -> None:
    body = f"{EXPECT} [%r3], 4096;\n{COPY.replace('2d', '5d')} [%r2], [%rd1, {{0, 0, 0, 0, 0}}], [%r3];"

    argument = example(kernel(body), shapes(kernel(body))[0]).arguments[0][1]
    assert isinstance(argument, Map) and len(argument.box) == 5
    assert memory_of(argument) <= TENSOR + 2 * math.prod(argument.box) * 64


ROUNDS = f"""
mov.u32 %r6, 0;
mov.u32 %r7, 0;
R: {EXPECT} [%r3], 2048;
{COPY} [%r2], [%rd1, {{0, 0}}], [%r3];
W: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r3], %r7;
@!%p2 bra W;
xor.b32 %r7, %r7, 1;
add.u32 %r6, %r6, 1;
setp.lt.u32 %p3, %r6, ROUNDS;
@%p3 bra R;
{EXPECT} [%r3+8], 4096;
{COPY} [%r2+8192], [%rd2, {{0, 0}}], [%r3+8];
"""


@pytest.mark.parametrize(("rounds", "sizes"), [(9, [2048, 4096]), (2000, [2048])])
def test_a_run_ends_once_mbarriers_repeat_their_phases(rounds: int, sizes: list[int]) -> None:
    routine = kernel(ROUNDS.replace("ROUNDS", str(rounds)))
    assert sorted(bytes_of(routine).values()) == sizes


def test_a_run_goes_on_to_the_first_phase_however_late() -> None:
    late = "mov.u32 %r8, 0; T: add.u32 %r8, %r8, 1; membar.cta; setp.lt.u32 %p3, %r8, 1050; @%p3 bra T;"
    assert bytes_of(kernel(late + APART)) == {("a", 0, 0): 2048, ("b", 0, 0): 8192}


def test_a_run_ends_soon_after_each_tensor_has_arrived() -> None:
    assert operations_of(["a"]) < 2 * ENOUGH < operations_of(["a", "b"])


def operations_of(asked: list[str]) -> int:
    """Operations of a launch that brings one tensor many times and then another."""
    routine = kernel(ROUNDS.replace("ROUNDS", "400"))
    one = example(routine, shapes(routine)[0])
    code = loaded(routine.module)
    made: list[tuple[int, int]] = []
    arguments = [argument.make(code.machine, COUNT, n + 1, made) for n, (_, argument) in enumerate(one.arguments)]
    starts = {name: start for (name, _), (start, _) in zip(one.arguments, made, strict=True)}
    watch = Transfers(1 << 20, frozenset([starts[name] for name in asked]))
    with contextlib.suppress(Fault):
        code.machine.launch(code, one.kernel, *arguments, grid=one.grid, block=one.block, monitors=(watch,))
    return watch.operations


@pytest.mark.parametrize("body", [USUAL, APART])
def test_a_launch_whose_phases_have_boxes_for_all_maps_is_not_repeated(monkeypatch: pytest.MonkeyPatch, body: str) -> None:
    launches = []
    run = fitting._run

    def watched(routine: Routine, one: Example, *more: Any) -> Any:
        launches.append(one)
        return run(routine, one, *more)

    monkeypatch.setattr(fitting, "_run", watched)
    assert fits(kernel(body)).is_sure
    assert len(launches) == 1


def test_phases_beyond_those_that_are_recorded_are_not_added_to_the_last_one() -> None:
    routine = kernel(ROUNDS.replace("ROUNDS", "7"))
    one = example(routine, shapes(routine)[0])
    code = loaded(routine.module)
    watch = Transfers(patience=1 << 20)
    made: list[tuple[int, int]] = []
    arguments = [argument.make(code.machine, COUNT, n + 1, made) for n, (_, argument) in enumerate(one.arguments)]
    code.machine.launch(code, one.kernel, *arguments, grid=one.grid, block=one.block, monitors=(watch,))
    assert [[phase.expected for phase in own] for own in watch.phases.values()] == [[2048, 2048, 2048], [4096]]
