"""Use-def and def-use chains."""

from __future__ import annotations

import pytest
from sample import kernel

from ptxkit.analyses.framework.routine import Routine
from ptxkit.analyses.registers.reaching import ENTRY, reaching
from ptxkit.analyses.registers.registers import registers


def seen(routine: Routine, i: int, name: str) -> tuple[int, ...]:
    return reaching(routine).definitions(i, registers(routine).named(name)[0])


class TestReaching:
    def test_the_last_write(self) -> None:
        assert seen(kernel("mov.u32 %r1, 1; mov.u32 %r1, 2; mov.u32 %r2, %r1; ret;"), 2, "%r1") == (1,)

    def test_nothing(self) -> None:
        assert seen(kernel("mov.u32 %r2, %r1; ret;"), 0, "%r1") == (ENTRY,)

    def test_both_branches(self) -> None:
        routine = kernel("@%p1 bra a; mov.u32 %r1, 1; bra b; a: mov.u32 %r1, 2; b: mov.u32 %r2, %r1; ret;")

        assert seen(routine, 4, "%r1") == (1, 3)

    def test_guarded_write_lets_the_one_before_through(self) -> None:
        assert seen(kernel("mov.u32 %r1, 1; @%p1 mov.u32 %r1, 2; mov.u32 %r2, %r1; ret;"), 2, "%r1") == (0, 1)

    def test_loop(self) -> None:
        routine = kernel("mov.u32 %r1, 1; a: add.u32 %r1, %r1, 1; @%p1 bra a; ret;")

        assert seen(routine, 1, "%r1") == (0, 1)
        assert reaching(routine).uses(1, registers(routine).named("%r1")[0]) == (1,)

    def test_uses(self) -> None:
        routine = kernel("mov.u32 %r1, 1; @%p1 mov.u32 %r1, 2; mov.u32 %r2, %r1; mov.u32 %r3, %r1; ret;")

        assert reaching(routine).uses(0, registers(routine).named("%r1")[0]) == (2, 3)

    def test_unreachable(self) -> None:
        routine = kernel("ret; mov.u32 %r1, %r2; ret;")

        assert seen(routine, 1, "%r2") == ()
        assert reaching(routine).uses(1, registers(routine).named("%r1")[0]) == ()

    def test_not_read(self) -> None:
        with pytest.raises(KeyError):
            reaching(kernel("mov.u32 %r2, %r1; ret;")).definitions(0, 0)
