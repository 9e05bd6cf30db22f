"""Liveness and live ranges."""

from __future__ import annotations

from sample import function, kernel, names

from ptxkit.analyses.framework.routine import Routine
from ptxkit.analyses.registers.liveness import live_ranges, liveness
from ptxkit.analyses.registers.registers import CARRY, registers


def live_before(routine: Routine, i: int) -> set[str]:
    return set(names(routine, liveness(routine).before_instruction(i)))


class TestLiveness:
    def test_straight_line(self) -> None:
        routine = kernel("mov.u32 %r1, 1; mov.u32 %r2, 2; add.u32 %r3, %r1, %r2; st.global.u32 [%d1], %r3; ret;")

        assert [live_before(routine, i) for i in range(5)] == [{"%d1"}, {"%d1", "%r1"}, {"%d1", "%r1", "%r2"}, {"%d1", "%r3"}, set()]

    def test_loop(self) -> None:
        routine = kernel("mov.u32 %r1, 0; a: add.u32 %r1, %r1, %r2; setp.lt.u32 %p1, %r1, %r3; @%p1 bra a; ret;")

        assert set(names(routine, liveness(routine).after[1])) == {"%r1", "%r2", "%r3"}

    def test_write_under_a_guard_kills_nothing(self) -> None:
        routine = kernel("@%p1 mov.u32 %r1, 1; st.global.u32 [%d1], %r1; ret;")

        assert live_before(routine, 0) == {"%p1", "%r1", "%d1"}

    def test_components(self) -> None:
        routine = kernel("mov.f32 v.x, 0f00000000; st.global.v4.f32 [%d1], v; ret;")

        assert live_before(routine, 0) == {"v.y", "v.z", "v.w", "%d1"}

    def test_carry(self) -> None:
        routine = kernel("add.cc.u32 %r1, %r2, %r3; addc.u32 %r4, %r5, %r6; ret;")

        assert CARRY in live_before(routine, 1)
        assert CARRY not in live_before(routine, 0)

    def test_results_are_live_up_to_the_return_and_the_end(self) -> None:
        for end in ("ret;", ""):
            routine = function(f".func (.reg .b32 o) f() {{ .reg .pred p; mov.u32 o, 1; setp.eq.u32 p, 1, 1; {end} }}")

            assert live_before(routine, 1) == {"o"}

    def test_unreachable_blocks_have_live_registers(self) -> None:
        routine = kernel("ret; st.global.u32 [%d1], %r1; ret;")

        assert live_before(routine, 1) == {"%d1", "%r1"}
        assert liveness(routine).before[0] == 0

    def test_function_without_instructions(self) -> None:
        assert liveness(kernel("")).before == ()


class TestRanges:
    def test_ranges(self) -> None:
        routine = kernel("mov.u32 %r1, 1; mov.u32 %r2, %r1; mov.u32 %r1, 2; st.global.u32 [0], %r1; st.global.u32 [0], %r2; ret;")
        found = live_ranges(routine)
        (one,), (two,) = registers(routine).named("%r1"), registers(routine).named("%r2")

        assert found[one] == ((0, 4),) or found[one] == ((0, 2), (2, 4))
        assert found[two] == ((1, 5),)

    def test_unread_value_has_its_instruction(self) -> None:
        assert live_ranges(kernel("mov.u32 %r1, 1; ret;"))[0] == ((0, 1),)

    def test_live_through_a_block(self) -> None:
        routine = kernel("mov.u32 %r1, 1; @%p1 bra a; mov.u32 %r2, 2; a: st.global.u32 [0], %r1; ret;")

        assert live_ranges(routine)[registers(routine).named("%r1")[0]] == ((0, 4),)

    def test_hole(self) -> None:
        routine = kernel("mov.u32 %r1, 1; st.global.u32 [0], %r1; bar.sync 0; mov.u32 %r1, 2; st.global.u32 [0], %r1; ret;")

        assert live_ranges(routine)[0] == ((0, 2), (3, 5))
