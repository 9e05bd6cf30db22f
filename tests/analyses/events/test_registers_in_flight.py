"""Registers that asynchronous operations hold."""

from __future__ import annotations

from sample import kernel, names

from ptxkit.analyses.events.effects import Action, Effect
from ptxkit.analyses.events.registers_in_flight import (
    Kind,
    Step,
    accesses_in_flight,
    after,
    either,
    is_certain,
    program,
    steps_back,
    witness,
)
from ptxkit.analyses.protocols.wgmma.register_fences import unfenced, wgmma

START = "wgmma.fence.sync.aligned; wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%r1, %r2, %r3, %r4}, %d1, %d2, 1, 1, 1, 0, 0;"
START = ".reg .f32 %f<8>;" + START.replace("%r", "%f")
COMMIT = "wgmma.commit_group.sync.aligned;"


class TestProgram:
    def test_a_function_without_operations_has_none(self) -> None:
        assert program(kernel("ret;"), "wgmma") is None

    def test_only_registers_of_operations_and_their_copies_count(self) -> None:
        routine = kernel(f"{START} mov.f32 %f5, %f1; mov.f32 %f6, %f7; ret;")
        of = wgmma(routine)

        assert of is not None
        assert set(names(routine, of.registers)) == {"%f1", "%f2", "%f3", "%f4", "%f5"}


class TestTouches:
    def test_an_operation_is_told_of_once(self) -> None:
        routine = kernel(f"{START} {COMMIT} add.f32 %f5, %f1, %f2; add.f32 %f6, %f3, %f4; ret;")
        of = wgmma(routine)

        assert of is not None
        (touch,) = accesses_in_flight(of)
        assert (touch.opener, touch.instruction, touch.is_open, touch.has_waited) == (1, 3, False, False)
        assert is_certain(of, touch)

    def test_a_copy_is_not_a_touch_but_what_reads_it_is(self) -> None:
        routine = kernel(f"{START} {COMMIT} mov.f32 %f5, %f1; add.f32 %f6, %f5, %f5; ret;")
        of = wgmma(routine)

        assert of is not None
        assert [touch.instruction for touch in accesses_in_flight(of)] == [4]

    def test_what_is_waited_for_may_be_touched(self) -> None:
        of = wgmma(kernel(f"{START} {COMMIT} wgmma.wait_group.sync.aligned 0; add.f32 %f5, %f1, %f2; ret;"))

        assert of is not None
        assert list(accesses_in_flight(of)) == []


class TestUnfenced:
    def test_no_fence_on_one_way_from_the_entry(self) -> None:
        fence, product = START.replace(".reg .f32 %f<8>;", "").split(";", 1)
        routine = kernel(f".reg .f32 %f<8>; @%p1 bra over; {fence}; over: {product} ret;")

        assert [one.register for one in unfenced(routine)] == [-1]


class TestState:
    """The open group first, then the committed ones; of each the registers that it holds, and those past which a wait has come in vain."""

    def test_an_operation_holds_results_and_sources(self) -> None:
        # of two registers: the first is a result; the second a source, counted above the results
        assert after(Step(0, Kind.OPEN, results=0b01, sources=0b10), ((0, 0),), 2) == ((0b1001, 0),)

    def test_it_takes_over_from_older_ones(self) -> None:
        assert after(Step(0, Kind.OPEN, results=0b01), ((0, 0), (0b11, 0b01)), 2) == ((0b01, 0), (0b10, 0))

    def test_a_commit_closes_the_group(self) -> None:
        step = Step(0, Kind.EFFECT, effect=Effect("wgmma", Action.COMMIT))

        assert after(step, ((0b1, 0), (0b10, 0)), 2) == ((0, 0), (0b1, 0), (0b10, 0))

    def test_a_wait_leaves_the_youngest(self) -> None:
        step = Step(0, Kind.EFFECT, effect=Effect("wgmma", Action.WAIT, 1))

        assert after(step, ((0, 0), (0b1, 0), (0b10, 0)), 2) == ((0, 0), (0b1, 0))
        # there was none but the one that it leaves
        assert after(step, ((0, 0), (0b1, 0)), 2) == ((0, 0), (0b1, 0b1))

    def test_a_copy_is_held_like_what_it_copies(self) -> None:
        copy = Step(0, Kind.COPY, reads=0b01, writes=0b10)

        assert after(copy, ((0b01, 0),), 2) == ((0b11, 0),)
        # of a register that is free: the copy is free too
        assert after(copy, ((0b10, 0),), 2) == ((0, 0),)

    def test_any_path(self) -> None:
        assert either([((0b1, 0), (0b10, 0)), None, ((0b100, 0b100),)]) == ((0b101, 0b100), (0b10, 0))
        assert either([None]) is None


class TestPaths:
    def test_the_steps_back_on_both_sides_of_a_branch(self) -> None:
        fence, product = START.replace(".reg .f32 %f<8>;", "").split(";", 1)
        body = f".reg .f32 %f<8>; mov.f32 %f1, %f5; @%p1 bra over; {fence}; over: {product} ret;"
        of = program(kernel(body), "wgmma", "wgmma-fence")

        assert of is not None
        block, (start,) = next((block, own) for block, own in enumerate(of.steps) if own and own[0].kind is Kind.OPEN)
        register = of.registers.index(next(r for r in of.registers if names(of.routine, (r,)) == ["%f1"]))
        found = {(step.kind, wanted == register) for step, wanted in steps_back(of, block, start, register)}
        past_fences = {step.kind for step, _ in steps_back(of, block, start, register, Kind.FENCE)}

        assert (Kind.COPY, True) in found
        assert Kind.FENCE in {kind for kind, _ in found}
        # one path has no fence, so the copy is still come to
        assert Kind.COPY in past_fences
        assert Kind.FENCE not in past_fences

    def test_what_shows_that_a_register_is_held(self) -> None:
        of = wgmma(kernel(f"{START} {COMMIT} wgmma.wait_group.sync.aligned 1; add.f32 %f5, %f1, %f2; ret;"))

        assert of is not None
        (access,) = accesses_in_flight(of)
        # 0 is the fence
        assert [i for i, _ in witness(of, access)] == [1, 2, 3]
        assert [what for _, what in witness(of, access)][:2] == ["started here", "committed here"]
