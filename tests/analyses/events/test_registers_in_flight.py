"""Registers that asynchronous operations hold."""

from __future__ import annotations

from sample import kernel, names

from ptxkit.analyses.events.registers_in_flight import accesses_in_flight, is_certain, program
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
