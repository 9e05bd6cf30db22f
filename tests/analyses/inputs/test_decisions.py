"""Numbers with which a kernel decides otherwise."""

from __future__ import annotations

import ptxkit
from ptxkit.analyses.framework.routine import Routine, routines
from ptxkit.analyses.inputs.decisions import MOST, choices, decisions
from ptxkit.analyses.inputs.parameters import Role, parameters
from ptxkit.analyses.inputs.shapes import Shape

REGISTERS = ".reg .pred %p<9>; .reg .b32 %r<16>; .reg .b64 %rd<12>;\n"
SHAPE = Shape((64, 1, 1), (2, 1, 1), None)
FREE = frozenset([(0, 0, 4), (1, 0, 4)])


def kernel(body: str, target: str = "sm_80") -> Routine:
    declared = ".param .u32 n, .param .u32 m"
    head = f".version 8.7\n.target {target}\n.address_size 64\n"
    text = f"{head}.visible .entry k({declared})\n{{\n{REGISTERS}ld.param.u32 %r1, [n]; ld.param.u32 %r2, [m];\n{body}\nret;\n}}\n"
    return routines(ptxkit.parse(text))[0]


def chosen(body: str) -> list[dict[int, int]]:
    return [{place: value for (place, _, _), value in one} for one in decisions(kernel(body), SHAPE, FREE)]


def test_every_comparison_with_a_constant_has_both_outcomes() -> None:
    found = chosen("setp.eq.u32 %p1, %r1, 37; @%p1 bra A; bar.sync 0; A: setp.gt.u32 %p2, %r2, 200; @%p2 bra B; bar.sync 1; B:")

    assert {one[0] == 37 for one in found} == {True, False}
    assert {one[1] > 200 for one in found} == {True, False}
    assert len(found) <= MOST


def test_numbers_may_have_to_stand_to_one_another() -> None:
    found = chosen("shl.b32 %r3, %r1, 1; setp.lt.u32 %p1, %r3, %r2; @%p1 bra A; bar.sync 0; A:")

    assert {2 * one[0] < one[1] for one in found} == {True, False}


def test_what_threads_are_compared_with_counts() -> None:
    found = chosen("mov.u32 %r3, %tid.x; setp.lt.u32 %p1, %r3, %r1; @%p1 bra A; bar.sync 0; A:")

    assert any(0 < one[0] < 64 for one in found)


def test_nothing_is_chosen_where_nothing_depends_on_it() -> None:
    assert chosen("mov.u32 %r3, %tid.x; setp.lt.u32 %p1, %r3, 5; @%p1 bra A; bar.sync 0; A:") == []


def test_a_count_stays_one_beside_another_condition() -> None:
    loop = "mov.u32 %r3, 0; L: add.u32 %r3, %r3, 1; setp.lt.u32 %p1, %r3, %r1; @%p1 bra L;"
    guard = "mov.u32 %r4, %tid.x; setp.eq.u32 %p2, %r4, 0; setp.gt.u32 %p3, %r1, 0; and.pred %p4, %p2, %p3; @%p4 bra E; bar.sync 0; E:"

    assert parameters(kernel(loop + guard))[0].slots[0].role is Role.COUNT


def test_a_descriptor_of_an_mma_is_one() -> None:
    body = """
        mov.u64 %rd1, 0; setp.ne.u32 %p1, %r2, 0; mov.u32 %r5, 0;
        tcgen05.mma.cta_group::1.kind::f16 [%r5], %rd1, %rd1, %r1, %p1;
    """
    word = parameters(kernel(body, "sm_100a"))[0].slots[0].value

    assert word is not None
    assert (word >> 24 & 31, word >> 17 & 63) == (8, 2)  # M = 128, N = 16


def test_a_descriptor_that_a_loop_advances_is_one() -> None:
    body = """
        mov.u32 %r3, 0; cvt.u64.u32 %rd1, %r2; mov.u64 %rd2, 0;
        L: wgmma.mma_async.sync.aligned.m64n8k16.f16.f16.f16 {%r4, %r5}, %rd1, %rd2, 1, 1, 1, 0, 0;
        add.u64 %rd1, %rd1, 16; add.u32 %r3, %r3, 1; setp.lt.u32 %p1, %r3, %r1; @%p1 bra L;
    """
    rounds, start = [one.slots[0] for one in parameters(kernel(body, "sm_90a"))]

    assert (rounds.role, start.role, start.value) == (Role.COUNT, Role.NUMBER, 0)


def test_a_loop_may_count_down() -> None:
    loop = "and.b32 %r4, %r1, 3; sub.u32 %r3, %r1, %r4; L: sub.u32 %r3, %r3, 4; setp.ne.u32 %p1, %r3, 0; @%p1 bra L;"

    slot = parameters(kernel(loop))[0].slots[0]
    assert (slot.role, slot.width) == (Role.COUNT, 4)


def test_choices_have_what_conditions_compare_with() -> None:
    routine = kernel("setp.eq.u32 %p1, %r1, 37; @%p1 bra A; bar.sync 0; A: setp.gt.u32 %p2, %r2, 200; @%p2 bra B; bar.sync 1; B:")
    found = dict(choices(routine, SHAPE, FREE))

    assert {36, 37, 38} <= set(found[0, 0, 4])
    assert {199, 200, 201} <= set(found[1, 0, 4])
