"""Which numbers loop counters take: rings, however they wrap around, and what is not followed."""

from __future__ import annotations

import pytest

import ptxkit
from ptxkit.analyses.events.mbarriers import uses
from ptxkit.analyses.framework.routine import Routine
from ptxkit.analyses.framework.rule import Facts
from ptxkit.analyses.memory.accesses import accesses
from ptxkit.analyses.memory.address import Address, may_overlap
from ptxkit.analyses.numbers.intervals import Interval, hull, just, union
from ptxkit.analyses.symbolic.induction import rounds
from ptxkit.analyses.symbolic.terms import Term

KERNEL = """.version 9.0
.target sm_90a
.address_size 64
.entry k(.param .u32 count)
{{
.reg .pred %p<9>; .reg .b32 %r<16>;
.shared .align 8 .b64 full[64];
.shared .align 8 .b64 empty[64];
ld.param.u32 %r9, [count];
mov.u32 %r1, 0;
mov.u32 %r8, 0;
LOOP:
shl.b32 %r4, %r1, 3;
mov.u32 %r5, full;
add.u32 %r5, %r5, %r4;
mbarrier.arrive.shared::cta.b64 _, [%r5];
st.shared.b32 [%r5], %r1;
{step}
add.u32 %r8, %r8, 1;
setp.lt.u32 %p3, %r8, %r9;
@%p3 bra LOOP;
ret;
}}
"""
STEPS = {
    "ring of three": ("add.u32 %r2, %r1, 1;\nsetp.eq.u32 %p1, %r2, 3;\nselp.b32 %r1, 0, %r2, %p1;", {0, 1, 2}),
    "wrap written as a branch": ("add.u32 %r1, %r1, 1;\nsetp.ne.u32 %p1, %r1, 3;\n@%p1 bra ON;\nmov.u32 %r1, 0;\nON:", {0, 1, 2}),
    "wrap by a guard": ("add.u32 %r1, %r1, 1;\nsetp.eq.u32 %p1, %r1, 3;\n@%p1 mov.u32 %r1, 0;", {0, 1, 2}),
    "wrap by a mask": ("add.u32 %r1, %r1, 1;\nand.b32 %r1, %r1, 3;", {0, 1, 2, 3}),
    "wrap by a remainder": ("add.u32 %r1, %r1, 1;\nrem.u32 %r1, %r1, 3;", {0, 1, 2}),
    "a ping-pong": ("xor.b32 %r1, %r1, 1;", {0, 1}),
    "steps of two in a ring of five": (
        "add.u32 %r1, %r1, 1;\nsetp.ne.u32 %p1, %r1, 5;\n@%p1 bra ON;\nmov.u32 %r1, 0;\nON:\n"
        "add.u32 %r1, %r1, 1;\nsetp.ne.u32 %p2, %r1, 5;\n@%p2 bra OVER;\nmov.u32 %r1, 0;\nOVER:",
        {0, 1, 2, 3, 4},
    ),
    "not set back": ("add.u32 %r1, %r1, 1;", None),
    "set back by what is not known": ("add.u32 %r1, %r1, 1;\nsetp.eq.u32 %p1, %r8, %r9;\n@%p1 mov.u32 %r1, 0;", None),
}


def specimen(name: str) -> tuple[Routine, Term]:
    """The function, and the stage that it stores."""
    routine = Facts(ptxkit.parse(KERNEL.format(step=STEPS[name][0]))).routines[0]
    (store,) = [access for access in accesses(routine) if access.writes and access.declared and "st" in _text(routine, access.instruction)]
    assert store.where is not None and store.where.symbol is not None and store.where.symbol.name == "full"
    return routine, store.where.offset


def _text(routine: Routine, i: int) -> str:
    return routine.instructions[i].opcode.text.partition(".")[0]


@pytest.mark.parametrize("name", STEPS)
def test_the_numbers_of_a_counter(name: str) -> None:
    routine, offset = specimen(name)
    expected = STEPS[name][1]

    assert rounds(routine).is_all(offset) is (expected is not None)
    if expected is not None:
        assert rounds(routine).numbers(offset) == {8 * number for number in expected}


@pytest.mark.parametrize("name", STEPS)
def test_the_address_of_a_stage_lies_in_its_ring(name: str) -> None:
    routine, _ = specimen(name)
    expected = STEPS[name][1]
    (use,) = uses(routine)

    assert use.where is not None
    assert (use.where.offset == hull([8 * number for number in expected or (0,)])) is (expected is not None)


JOIN = """setp.lt.u32 %p1, %r8, %r9;
@%p1 bra LEFT;
add.u32 %r6, %r1, 1;
rem.u32 %r1, %r6, 3;
bra ON;
LEFT:
add.u32 %r6, %r1, 1;
rem.u32 %r1, %r6, 2;
ON:"""


def test_a_join_of_two_counters() -> None:
    """Either arm sets it back, one at three, one at two: all that either comes to."""
    routine = Facts(ptxkit.parse(KERNEL.format(step=JOIN))).routines[0]
    (use,) = uses(routine)

    assert use.where is not None
    assert use.where.offset == Interval(0, 16)


def test_addresses_in_different_variables_do_not_overlap() -> None:
    routine = Facts(ptxkit.parse(KERNEL.format(step=STEPS["ring of three"][0]))).routines[0]
    names = routine.names.scope_of(routine.where(0))
    full, empty = names.lookup("full"), names.lookup("empty")
    assert full is not None and empty is not None

    stage, beyond = Address(full, Interval(0, 16)), Address(full, Interval(24, 40))
    assert may_overlap(stage, Address(full, just(16)), 8)
    assert not may_overlap(stage, beyond, 8)
    assert may_overlap(stage, beyond, 16)
    assert not may_overlap(stage, Address(empty, Interval(0, 16)), 8)


def test_intervals() -> None:
    stages = hull((0, 16, 8))

    assert stages == Interval(0, 16) and stages.length == 16
    assert stages.plus(just(4)) == stages.shifted(4) == Interval(4, 20)
    assert stages.times(-2) == Interval(-32, 0)
    assert union((stages, just(40))) == Interval(0, 40)
    assert stages.has(16) and not stages.has(17)
    assert stages.fits(5) and not stages.fits(4) and not stages.times(-1).fits(8)
