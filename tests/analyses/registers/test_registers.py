"""What instructions read and write."""

from __future__ import annotations

import pytest
from sample import function, kernel, names

from ptxkit.analyses.registers.registers import CARRY, registers

CASES = {
    "add.u32 %r1, %r2, %r3;": (["%r2", "%r3"], ["%r1"]),
    "add.u32 %r1, %r2, %r2;": (["%r2", "%r2"], ["%r1"]),
    "@%p1 add.u32 %r1, %r2, 1;": (["%p1", "%r2"], ["%r1"]),
    "st.global.v2.u32 [%d1+8], {%r1, %r2};": (["%d1", "%r1", "%r2"], []),
    "ld.global.v4.f32 v, [%d1];": (["%d1"], ["v.x", "v.y", "v.z", "v.w"]),
    "ld.global.v2.b32 {%r1, _}, [%d1];": (["%d1"], ["%r1"]),
    "mov.f32 v.y, v.x;": (["v.x"], ["v.y"]),
    "mov.f32 v.g, v.r;": (["v.x"], ["v.y"]),
    "mov.b64 {%r1, %r2}, %d1;": (["%d1"], ["%r1", "%r2"]),
    "mov.b64 %d1, {%r1, %r2};": (["%r1", "%r2"], ["%d1"]),
    "mov.b64 %d1, w;": (["w.x", "w.y"], ["%d1"]),
    "setp.lt.and.s32 %p1|%p2, %r1, %r2, !%p3;": (["%r1", "%r2", "%p3"], ["%p1", "%p2"]),
    "shfl.sync.down.b32 %r1|%p1, %r2, 1, 31, %r3;": (["%r2", "%r3"], ["%r1", "%p1"]),
    "mov.u32 %r1, %tid.x;": ([], ["%r1"]),
    "add.cc.u32 %r1, %r2, %r3;": (["%r2", "%r3"], ["%r1", CARRY]),
    "addc.u32 %r1, %r2, %r3;": (["%r2", "%r3", CARRY], ["%r1"]),
    "addc.cc.u32 %r1, %r2, %r3;": (["%r2", "%r3", CARRY], ["%r1", CARRY]),
    "call (%r1), f, (%r2);": (["%r2"], ["%r1"]),
    "call %d1, (), pt;": (["%d1"], []),
    "ret;": ([], []),
}


class TestReadsAndWrites:
    @pytest.mark.parametrize("text", CASES)
    def test_cases(self, text: str) -> None:
        routine = kernel("pt: .callprototype _ ();" + text, ".func (.reg .b32 o) f(.reg .b32 i) { mov.u32 o, i; ret; }")
        found = registers(routine)

        assert (sorted(names(routine, found.reads[0])), names(routine, found.writes[0])) == (sorted(CASES[text][0]), CASES[text][1])
        assert not found.unknown

    def test_guard_comes_first_and_makes_writes_weak(self) -> None:
        routine = kernel("@!%p1 mov.u32 %r1, %r2; mov.u32 %r1, %r2;")
        found = registers(routine)

        assert names(routine, found.reads[0]) == ["%p1", "%r2"]
        assert found.weak == {0}
        assert found.strong(0) == ()
        assert found.strong(1) == found.writes[1]

    def test_unknown_instruction_may_do_anything_to_what_it_names(self) -> None:
        routine = kernel("frobnicate.u32 %r1, %r2;")
        found = registers(routine)

        assert names(routine, found.reads[0]) == ["%r1", "%r2"]
        assert names(routine, found.writes[0]) == ["%r1", "%r2"]
        assert found.unknown == found.weak == {0}

    def test_scopes_hide_names(self) -> None:
        found = registers(kernel("mov.u32 %r1, 1; { .reg .b64 %r<2>; mov.u64 %r1, 1; } mov.u32 %r1, 2;"))

        assert found.writes[0] == found.writes[2] != found.writes[1]
        assert [found.table[number].bits for number in found.named("%r1")] == [32, 64]

    def test_undeclared_register_has_no_type(self) -> None:
        found = registers(kernel("mov.u32 %r1, %nothing;"))

        assert found.table[found.reads[0][0]].type == ""

    def test_parameters_and_results_in_registers(self) -> None:
        routine = function(".func (.reg .b32 o) f(.reg .b32 i) { mov.u32 o, i; ret; }")
        found = registers(routine)

        assert names(routine, found.given) == ["i"]
        assert names(routine, found.returned) == ["o"]
        assert names(routine, found.reads[1]) == ["o"]

    def test_registers_of_the_module_live_on(self) -> None:
        routine = function(".reg .b32 g; .func h() { ret; } .func f() { mov.u32 g, 1; call h; ret; }")
        found = registers(routine)

        assert names(routine, found.given) == ["g"]
        assert names(routine, found.reads[1]) == names(routine, found.writes[1]) == names(routine, found.reads[2]) == ["g"]
        assert 1 in found.weak

    def test_of_an_operand(self) -> None:
        routine = kernel("st.global.v2.u32 [%d1+8], {%r1, %r2};")
        address, data = routine.instructions[0].operands
        found = registers(routine)

        assert names(routine, found.of(0, address)) == ["%d1"]
        assert names(routine, found.of(0, data)) == ["%r1", "%r2"]

    def test_units(self) -> None:
        found = registers(kernel("mov.u16 %h1, 1; mov.u32 %r1, 1; mov.u64 %d1, 1; setp.eq.u32 %p1, %r1, 1; add.cc.u32 %r2, %r1, 1;"))

        assert {register.name: register.units for register in found.table} == {"%h1": 1, "%r1": 1, "%d1": 2, "%p1": 0, "%r2": 1, CARRY: 0}
