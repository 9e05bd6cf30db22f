"""Branches that are decided by those on the way to them."""

from __future__ import annotations

import pytest

import ptxkit
from ptxkit.analyses import Routine, control_flow, routines
from ptxkit.analyses.symbolic.implied_branches import is_decided
from ptxkit.analyses.symbolic.values import values
from ptxkit.analyses.uniformity.levels import Level
from ptxkit.analyses.uniformity.uniformity import uniformity


def kernel(body: str) -> Routine:
    text = f""".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k()
    {{ .reg .pred %p<9>; .reg .b32 %r<9>; .shared .b32 flag; mov.u32 %r1, %tid.x; and.b32 %r2, %r1, 3;
    {body} bra B;
    A: st.shared.u32 [flag], 1; B: ret; }}"""
    (found,) = routines(ptxkit.parse(text))
    return found


def last_branch(routine: Routine) -> int:
    return [block.index for block in control_flow(routine).blocks if len(block.successors) > 1][-1]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("setp.eq.u32 %p1, %r2, 0; @%p1 bra B; setp.gt.u32 %p2, %r2, 1; @%p2 bra B; setp.eq.u32 %p3, %r2, 1; @%p3 bra A;", True),
        ("setp.lt.u32 %p1, %r2, 2; @!%p1 bra B; setp.eq.u32 %p3, %r2, 3; @!%p3 bra A; bra B;", True),
        ("setp.eq.u32 %p1, %r2, 0; @%p1 bra B; setp.eq.u32 %p3, %r2, 1; @%p3 bra A;", False),
        # another number is compared
        ("and.b32 %r3, %r1, 7; setp.eq.u32 %p1, %r3, 0; @!%p1 bra B; setp.eq.u32 %p3, %r2, 0; @%p3 bra A;", False),
        # it is made anew in between
        (
            """setp.eq.u32 %p1, %r2, 0; @!%p1 bra B; ld.shared.u32 %r3, [flag]; add.u32 %r3, %r3, %r1; and.b32 %r2, %r3, 3;
            setp.eq.u32 %p3, %r2, 0; @%p3 bra A;""",
            False,
        ),
        # control comes from elsewhere too
        ("setp.eq.u32 %p2, %r1, 9; @%p2 bra M; setp.eq.u32 %p1, %r2, 0; @!%p1 bra B; M: setp.eq.u32 %p3, %r2, 0; @%p3 bra A;", False),
        # both ways lead to the same place
        ("setp.eq.u32 %p1, %r2, 0; @%p1 bra M; M: setp.eq.u32 %p3, %r2, 0; @%p3 bra A;", False),
    ],
)
def test_is_decided(body: str, expected: bool) -> None:
    routine = kernel(body)
    block = last_branch(routine)

    assert is_decided(values(routine), block) is expected
    assert uniformity(routine).branch(block).level == (Level.GRID if expected else Level.THREAD)


def test_a_loop_makes_it_anew() -> None:
    """What the last iteration found says nothing of this one."""
    routine = kernel(
        """L: ld.shared.u32 %r3, [flag]; add.u32 %r3, %r3, %r1; and.b32 %r2, %r3, 3; setp.eq.u32 %p3, %r2, 0; @%p3 bra A;
        setp.eq.u32 %p1, %r2, 1; @%p1 bra L; setp.lt.u32 %p2, %r2, 2; @%p2 bra A; bra B;"""
    )
    first, second, third = [block.index for block in control_flow(routine).blocks if len(block.successors) > 1]

    assert [is_decided(values(routine), block) for block in (first, second, third)] == [False, False, True]
