"""The SSA view."""

from __future__ import annotations

from sample import function, kernel

from ptxkit.analyses.cfg.graph import control_flow
from ptxkit.analyses.framework.routine import Routine
from ptxkit.analyses.registers.registers import registers
from ptxkit.analyses.registers.ssa import Origin, Value, ssa


def value(routine: Routine, i: int, name: str) -> Value:
    found = ssa(routine)
    return found.values[found.read(i, registers(routine).named(name)[0])]


class TestSSA:
    def test_each_write_is_a_value(self) -> None:
        routine = kernel("mov.u32 %r1, 1; mov.u32 %r1, %r1; ret;")
        found = ssa(routine)

        assert [v.origin for v in found.values] == [Origin.WRITE, Origin.WRITE]
        assert found.uses[1] == found.definitions[0] == (0,)
        assert found.readers == ((1,), ())
        assert found.operand_of == {}

    def test_phi_where_branches_meet(self) -> None:
        routine = kernel("@%p1 bra a; mov.u32 %r1, 1; bra b; a: mov.u32 %r1, 2; b: mov.u32 %r2, %r1; ret;")
        phi = value(routine, 4, "%r1")
        block = control_flow(routine).blocks[3]

        assert phi.origin is Origin.PHI
        assert [ssa(routine).values[operand].block for operand in phi.operands] == list(block.predecessors)

    def test_no_phi_for_what_nobody_reads(self) -> None:
        assert not any(ssa(kernel("@%p1 bra a; mov.u32 %r1, 1; a: ret;")).phis)

    def test_phi_of_a_loop_has_the_value_from_outside_and_its_own(self) -> None:
        routine = kernel("mov.u32 %r1, 1; a: add.u32 %r1, %r1, 1; @%p1 bra a; ret;")

        assert {ssa(routine).values[operand].instruction for operand in value(routine, 1, "%r1").operands} == {0, 1}

    def test_loop_at_the_entry(self) -> None:
        routine = function(".func f(.reg .b32 i) { .reg .pred p; a: add.u32 i, i, 1; setp.lt.u32 p, i, 9; @p bra a; ret; }")
        phi = value(routine, 0, "i")

        assert phi.origin is Origin.PHI
        assert [ssa(routine).values[operand].origin for operand in phi.operands] == [Origin.WRITE, Origin.ENTRY]

    def test_guarded_write_keeps_the_old_value(self) -> None:
        routine = kernel("mov.u32 %r1, 1; @%p1 mov.u32 %r1, 2; @!%p1 mov.u32 %r1, 3; mov.u32 %r2, %r1; ret;")
        last = value(routine, 3, "%r1")

        assert last.instruction == 2
        assert ssa(routine).values[last.operands[0]].instruction == 1
        assert ssa(routine).uses[1][0] == ssa(routine).uses[2][0]
        assert ssa(routine).operand_of == {value: (value + 1,) for value in last.operands} | {ssa(routine).definitions[0][0]: last.operands}

    def test_guarded_first_write(self) -> None:
        routine = kernel("@%p1 mov.u32 %r1, 2; @%p1 mov.u32 %r2, %r1; ret;")

        assert ssa(routine).values[value(routine, 1, "%r1").operands[0]].origin is Origin.ENTRY

    def test_unreachable_blocks_have_none(self) -> None:
        routine = kernel("ret; mov.u32 %r1, %r2; ret;")

        assert ssa(routine).uses[1] == ssa(routine).definitions[1] == ()

    def test_predecessor_that_control_cannot_reach(self) -> None:
        routine = kernel("mov.u32 %r1, 1; @%p1 bra b; mov.u32 %r1, 2; bra b; mov.u32 %r1, 3; b: mov.u32 %r2, %r1; ret;")

        assert value(routine, 5, "%r1").operands.count(-1) == 1

    def test_value_before_an_instruction(self) -> None:
        routine = kernel("mov.u32 %r1, 1; @%p1 bra a; mov.u32 %r2, 2; a: mov.u32 %r3, %r1; ret;")
        found = ssa(routine)
        (register,) = registers(routine).named("%r1")

        assert found.before(3, register) == found.before(2, register) == found.definitions[0][0]
        assert found.before(0, register) is None

    def test_function_without_instructions(self) -> None:
        assert ssa(kernel("")).values == ()
