"""Register pressure."""

from __future__ import annotations

from sample import kernel

from ptxkit.analyses.registers.pressure import pressure


class TestPressure:
    def test_units_by_instruction(self) -> None:
        found = pressure(kernel("mov.u32 %r1, 1; mov.u64 %d1, 2; st.global.u32 [%d1], %r1; ret;"))

        assert found.units == (1, 3, 3, 0)
        assert (found.peak, found.peak_at) == (3, 1)

    def test_predicates_are_counted_apart(self) -> None:
        found = pressure(kernel("setp.eq.u32 %p1, 1, 1; setp.eq.u32 %p2, 1, 1; @%p1 bra a; a: @%p2 ret; ret;"))

        assert found.units == (0,) * 5
        assert found.predicates == (1, 2, 2, 1, 0)

    def test_unread_result_needs_room(self) -> None:
        assert pressure(kernel("mov.u64 %d1, 1; ret;")).units == (2, 0)

    def test_what_was_never_written_needs_no_room(self) -> None:
        found = pressure(kernel("@%p1 mov.u32 %r1, 1; @%p1 st.global.u32 [0], %r1; ret;"))

        assert found.entering == (0,)
        assert found.units == (1, 1, 0)

    def test_loop_header(self) -> None:
        found = pressure(kernel("mov.u32 %r1, 0; mov.u64 %d1, 0; a: add.u32 %r1, %r1, 1; st.global.u32 [%d1], %r1; @%p1 bra a; ret;"))

        assert found.headers == ((1, 3),)
        assert found.blocks == (3, 3, 0)

    def test_function_without_instructions(self) -> None:
        found = pressure(kernel(""))

        assert (found.peak, found.peak_at, found.units) == (0, -1, ())
